// sluice serve: everything the program knows about the machine, over HTTP.
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "base/log.h"
#include "base/state_file.h"
#include "broker/broker.h"
#include "cli/common/checks.h"
#include "cli/common/commands.h"
#include "cli/common/demo_flags.h"
#include "cli/common/program_settings.h"
#include "cli/model/plan_footprint.h"
#include "cli/model/profile_watch.h"
#include "device/demo/demo.h"
#include "device/host/cpu.h"
#include "serve/audit.h"
#include "serve/http/routes.h"
#include "serve/http/server.h"
#include "serve/service.h"
#include "watch/monitor/monitor.h"

namespace sluice::cli {

namespace {

constexpr std::string_view kServeExamples =
    "  sluice serve                         dashboard on http://127.0.0.1:8000/\n"
    "  sluice serve --demo gpu-falls-off    GPUs that fail, on a machine without any\n"
    "  sluice serve --port 0 --json         a free port, reported as JSON\n"
    "  SLUICE_SERVE_API_KEY=... sluice serve --host 0.0.0.0\n"
    "Signals: TERM and INT finish what is under way and exit 0; HUP reads the settings again.";
constexpr std::size_t kMaxServeThreads = 8;  // the answers are small; the cores are for the work
constexpr Seconds kCalculationTimeout(1);    // for what nobody waits for any more
constexpr double kFlush_s = 1;

struct ServeFlags {
  SettingsOptions settings;
  std::string demo;
  bool json = false;
};

// False after --help.
bool parse_flags(Args args, Io& io, ServeFlags& flags) {
  CLI::App app("Serves metrics, leases, calculations and a dashboard over HTTP", "sluice serve");
  std::string host, port, state;
  app.add_option("--host", host, "address to listen on; anything but loopback needs an API key")
      ->type_name("ADDRESS")
      ->check(not_empty("an address such as 127.0.0.1"));
  app.add_option("--port", port, "TCP port; 0 takes a free one")
      ->type_name("N")
      ->check(not_empty("a port such as 8000, or 0 for a free one"));
  app.add_option("--state", state, "folder of what must survive")
      ->type_name("DIR")
      ->check(not_empty("the path of a folder"));
  app.add_option("--demo", flags.demo, "pretend: a scenario of GPUs, by name or file")
      ->type_name("SCENARIO")
      ->check(not_empty(std::string(kScenarioWanted)));
  app.add_flag("--json", flags.json, "say where it listens as one line of JSON");
  add_options(app, flags.settings);
  if (!parse(app, args, io, kServeExamples)) return false;
  if (!host.empty()) flags.settings.flag("--host", "serve.host", host);
  if (!port.empty()) flags.settings.flag("--port", "serve.port", port);
  if (!state.empty()) flags.settings.flag("--state", "state_dir", state);
  return true;
}

std::size_t thread_count(const serve::ServeConfig& config, const device::Cpu& cpu) {
  if (config.threads > 0) return static_cast<std::size_t>(config.threads);
  const auto half = static_cast<std::size_t>(cpu.usable_cores / 2);
  return std::clamp<std::size_t>(half, 1, kMaxServeThreads);
}

// Creates the state folder for this user; other users may only traverse it where the socket allows
// them.
void make_folder(const std::string& path, unsigned socket_mode) {
  std::error_code failed;
  const unsigned through = ((socket_mode & 0020) != 0 ? 0010 : 0) + ((socket_mode & 0002) != 0);
  if (std::filesystem::create_directories(path, failed) && through != 0)
    ::chmod(path.c_str(), 0700 | through);
  const bool made = !failed;
  if (made && ::access(path.c_str(), W_OK | X_OK) != 0)
    failed = std::error_code(errno, std::generic_category());
  if (failed)
    throw Error(Code::unavailable, "the state folder " + path +
                                       (made ? " cannot be written: " : " cannot be made: ") +
                                       failed.message() + "; choose another with --state DIR");
  if (const auto warning = folder_warning(path, ::geteuid()); !warning.empty())
    log::warn("{}", warning);
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

std::string url_of(const serve::http::Server& server) {
  const bool v6 = server.host().find(':') != std::string::npos;
  return "http://" + (v6 ? "[" + server.host() + "]" : server.host()) + ":" +
         std::to_string(server.port()) + "/";
}

// One sentence on where state is stored. `trouble`: why history is not written to disk.
std::string state_location_text(const ProgramSettings& settings, const std::string& trouble) {
  if (trouble.empty() && settings.watch.history) return "State is kept in " + settings.state_dir;
  return "History is kept in memory only, not in " + settings.state_dir + ": " +
         (trouble.empty() ? "watch.history is false" : trouble);
}

void announce(const serve::http::Server& server, const ProgramSettings& settings,
              const ServeFlags& flags, const std::string& trouble, Io& io) {
  const auto url = url_of(server);
  if (flags.json) {
    const Json json = {{"url", url},
                       {"port", server.port()},
                       {"pid", ::getpid()},
                       {"socket", server.socket_path()},
                       {"state_dir", settings.state_dir},
                       {"history_on_disk", settings.watch.history && trouble.empty()}};
    io.out << json.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
    return;
  }
  const bool keyed = !settings.serve.api_key.empty();
  io.out << "Sluice " SLUICE_VERSION " serves " << url << "  (open it in a browser)\n"
         << "Try: curl -s " << (keyed ? "-H \"X-API-Key: $SLUICE_SERVE_API_KEY\" " : "") << url
         << "gpu-health\n";
  if (!flags.demo.empty()) io.out << "Demo: " << flags.demo << "; nothing shown is real\n";
  io.out << state_location_text(settings, trouble) << "; Ctrl-C stops" << std::endl;
}

void log_reload(const Reload& reload) {
  for (const auto& change : reload.now) log::info("reloaded {}", to_string(change));
  for (const auto& change : reload.restart)
    log::warn("{}; it needs a restart to take effect", to_string(change));
  if (reload.now.empty() && reload.restart.empty()) log::info("reloaded: nothing has changed");
}

// Watching takes in every GPU, whatever was chosen for work.
void log_gpu_selection(const device::GpuConfig& gpu) {
  const bool all = gpu.devices == std::vector<Ident>{{"all"}};
  if (gpu.enabled && all) return;
  log::info(
      "{} takes effect for work on GPUs (leases and models), not for watching: every GPU is "
      "watched",
      gpu.enabled ? "gpu.devices (CUDA_VISIBLE_DEVICES)" : "gpu.enabled=false (GPU_ENABLED)");
}

serve::MarketOptions market_options(const ProgramSettings& settings, const ServeFlags& flags,
                                    const Io& io) {
  serve::MarketOptions made;
  made.costs = std::filesystem::path(settings.cache_dir) / "costs.json";
  made.pools = settings.memory;
  if (!settings.gpu.enabled)
    made.no_gpu = "gpu.enabled is false (GPU_ENABLED)";
  else if (!flags.demo.empty())
    made.no_gpu = "the GPUs of a demo do not calculate";
  else
    made.program = io.program;
  return made;
}

broker::Broker::Options broker_options(const ProgramSettings& settings, const ServeFlags& flags,
                                       const Io& io) {
  broker::Broker::Options made{settings.state_dir, settings.broker, settings.gpu};
  if (flags.demo.empty()) made.program = io.program;  // the GPUs of a demo have no driver
  made.plans = plan_footprints(settings.broker.plans);
  return made;
}

std::uint64_t audit_bytes(const ProgramSettings& settings) {
  return static_cast<std::uint64_t>(settings.serve.audit_log_mb) << 20;
}

// The running parts; ends them in the right order.
class Program {
 public:
  Program(const ProgramSettings& settings, const ServeFlags& flags, const Io& io,
          const device::Cpu& cpu)
      : memory_(serve::memory_budget_of(settings.serve, cpu)),
        traffic_(thread_count(settings.serve, cpu), serve::http::route_names()),
        monitor_({io.program, flags.demo, settings.state_dir, settings.watch}),
        broker_(broker_options(settings, flags, io)),
        audit_(settings.state_dir, audit_bytes(settings)),
        profile_watch_(monitor_, settings.gpu),
        service_(monitor_, broker_, traffic_, memory_, {SLUICE_VERSION, host_name(), Steady::now()},
                 market_options(settings, flags, io)),
        router_(routes()),
        server_(
            {settings.serve, thread_count(settings.serve, cpu), settings.state_dir + "/sluice.sock",
             [this] { service_.report_traffic(); },
             [this](std::uint64_t connection) { broker_.connection_closed(connection); },
             [this](std::uint64_t connection) { return broker_.is_bound(connection); }, &memory_},
            router_, traffic_) {
    service_.on_update([this] { server_.wake_streams(); });
  }
  ~Program() { service_.on_update(nullptr); }

  serve::http::Server& server() { return server_; }
  std::string history_trouble() const { return monitor_.snapshot()->history_trouble; }

  // The sampler ends while requests finish. Returns whether all could.
  bool stop() {
    monitor_.begin_stop();
    return server_.stop();
  }

  // Returns whether all calculations have ended. If not, all persistent state is on disk when this
  // returns.
  bool end_calculations() {
    if (service_.market().end(kCalculationTimeout)) return true;
    monitor_.flush(kFlush_s);
    return false;
  }

  void reload(const ProgramSettings& settings) {
    server_.reload(settings.serve);  // may refuse: first
    monitor_.reload(settings.watch);
    broker_.reload(settings.broker, settings.gpu);
    audit_.set_max_bytes(audit_bytes(settings));
    log::set_level(log_level(settings));
  }

 private:
  // Makes the routes; called before the server listens.
  std::vector<serve::http::Route> routes() {
    service_.audit_to(audit_);
    return serve::http::make_routes(service_);
  }

  MemoryBudget memory_;
  serve::Traffic traffic_;
  watch::Monitor monitor_;
  broker::Broker broker_;
  serve::AuditLog audit_;
  ProfileWatch profile_watch_;
  serve::Service service_;
  serve::http::Router router_;
  serve::http::Server server_;
};

class Signals {
 public:
  Signals() : set_(io_, SIGTERM, SIGINT, SIGHUP) {
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of its writer
  }

  // Waits for the next one.
  int next() {
    int got = SIGTERM;
    set_.async_wait([&got](const auto& failed, int signal) { got = failed ? SIGTERM : signal; });
    io_.restart();
    io_.run();
    return got;
  }

  // Restores the default action of the signals, which ends the program at once.
  void release() { set_.clear(); }

 private:
  boost::asio::io_context io_{1};
  boost::asio::signal_set set_;
};

void reload(Program& program, ProgramSettings& running, const ServeFlags& flags, const Io& io) {
  try {
    const auto loaded = load_settings(flags.settings, io.environment);
    auto next = running;
    const auto changes = apply_live(next, loaded);
    program.reload(next);
    running = std::move(next);
    log_reload(changes);
  } catch (const std::exception& e) {
    log::error("not reloaded, the settings in force stay: {}", e.what());
  }
}

}  // namespace

int serve(Args args, Io& io) {
  ServeFlags flags;
  if (!parse_flags(args, io, flags)) return 0;
  auto settings = load_settings(flags.settings, io.environment);
  log::set_level(log_level(settings));
  for (const auto& warning : settings.warnings) log::warn("{}", warning);
  if (!flags.demo.empty()) device::demo_scenario(flags.demo);  // throws for an unknown one
  log_gpu_selection(settings.gpu);
  ::umask(0077);  // what this server keeps is nobody else's
  make_folder(settings.state_dir, serve::socket_mode_of(settings.serve));

  Signals signals;
  bool clean = true;
  {
    Program program(settings, flags, io, device::detect_cpu());
    if (!program.server().why_no_socket().empty())
      log::warn("{}", program.server().why_no_socket());
    announce(program.server(), settings, flags, program.history_trouble(), io);
    int signal = signals.next();
    for (; signal == SIGHUP; signal = signals.next()) reload(program, settings, flags, io);
    signals.release();  // first: who reads the next line may send another
    log::info("stopping on {}", signal == SIGINT ? "SIGINT" : "SIGTERM");
    clean = program.stop();
    if (!program.end_calculations()) {
      log::info("stopped; a calculation was cut off");
      log::flush();
      std::_Exit(0);  // its threads cannot be ended, and we said five seconds
    }
  }
  log::info("{}", clean ? "stopped" : "stopped; what outlasted serve.drain_timeout_s was cut off");
  return 0;
}

}  // namespace sluice::cli
