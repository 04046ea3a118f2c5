// sluice top: the machine, live, in a terminal.
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <csignal>
#include <nlohmann/json.hpp>
#include <ostream>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "cli/common/checks.h"
#include "cli/common/commands.h"
#include "cli/common/demo_flags.h"
#include "cli/common/program_settings.h"
#include "cli/common/report.h"
#include "cli/top/screen.h"
#include "cli/top/top_view.h"
#include "device/demo/demo.h"
#include "serve/views.h"
#include "watch/monitor/monitor.h"

namespace sluice::cli {

namespace {

constexpr double kFirstPicture_s = 5;  // how long --once waits for every GPU's first sample

struct TopFlags {
  bool once = false, json = false;
  double interval = 0;  // 0: as the settings say, and JSON once
  std::string demo;
};

constexpr std::string_view kTopExamples =
    "  sluice top                              live; q leaves, ? explains\n"
    "  sluice top --demo gpu-falls-off         two simulated GPUs, one of which fails\n"
    "  sluice top --once                       one snapshot as text, for scripts\n"
    "  sluice top --json --interval 1          one JSON line a second until stopped";

std::string shown_host() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

watch::Monitor::Options monitor_options(const TopFlags& flags, const SettingsOptions& given,
                                        const Io& io) {
  watch::Monitor::Options options;
  options.program = io.program;
  options.demo = flags.demo;
  options.config = load_settings(given, io.environment).watch;
  options.config.webhook.clear();  // a viewer sends no alerts
  if (flags.interval > 0) options.config.interval_s = flags.interval;
  return options;  // no state folder: history belongs to the server
}

// Every GPU has been sampled, or there is nothing to wait for.
bool is_complete(const watch::Snapshot& snapshot) {
  if (snapshot.sequence == 0 || !snapshot.host.at(device::Metric::cpu_utilization)) return false;
  if (snapshot.sampler.state == "starting") return false;
  for (const auto& gpu : snapshot.gpus)
    if (!gpu.sampled_at && gpu.health.state == device::HealthState::healthy) return false;
  return snapshot.sampler.pid == 0 || !snapshot.gpus.empty() || !snapshot.notes.empty();
}

std::shared_ptr<const watch::Snapshot> first_complete_snapshot(const watch::Monitor& monitor) {
  const auto until = Steady::now() + std::chrono::duration<double>(kFirstPicture_s);
  while (!is_complete(*monitor.snapshot()) && Steady::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return monitor.snapshot();
}

std::string json_of(const watch::Snapshot& snapshot, int indent) {
  auto json = to_json(snapshot, Steady::now());
  serve::round_numbers(json);
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

int once(const watch::Monitor& monitor, const TopFlags& flags, Io& io) {
  const auto snapshot = first_complete_snapshot(monitor);
  if (flags.json) {
    io.out << json_of(*snapshot, 2) << "\n";
    return 0;
  }
  const auto terminal = terminal_behind(io.out);
  TopState state;
  state.host = shown_host();
  io.out << render(*snapshot, state, {terminal.width, 0, terminal.pen}, Steady::now());
  return 0;
}

// Until the reader goes away or a signal ends the program.
int stream_json(const watch::Monitor& monitor, const TopFlags& flags, Io& io) {
  std::signal(SIGPIPE, SIG_IGN);
  auto snapshot = first_complete_snapshot(monitor);
  auto next = Steady::now();
  while (io.out << json_of(*snapshot, -1) << std::endl) {
    next += std::chrono::duration_cast<Steady::duration>(Seconds(flags.interval));
    std::this_thread::sleep_until(next);
    snapshot = monitor.snapshot();
  }
  return 0;
}

class View {
 public:
  explicit View(watch::Monitor& monitor) : monitor_(monitor) {
    state_.host = shown_host();
    token_ = monitor.subscribe([this](auto) { screen_.wake(); }, [](const watch::Event&) {});
  }

  void run() {
    for (;;) {
      draw();
      const auto input = screen_.wait(1);
      if (input.end) return;
      for (const auto key : keys_of(input.typed))
        if (!press(state_, key, 10)) return;
    }
  }

 private:
  void draw() {
    if (!state_.paused || !shown_) {
      shown_ = monitor_.snapshot();
      now_ = Steady::now();
    }
    observe(state_, *shown_);
    const auto terminal = terminal_of(STDOUT_FILENO);
    screen_.show(render(*shown_, state_, {terminal.width, terminal.height, terminal.pen}, now_));
  }

  watch::Monitor& monitor_;
  TopState state_;
  std::shared_ptr<const watch::Snapshot> shown_;
  Instant now_{};
  Screen screen_;
  std::shared_ptr<void> token_;  // last: its callback uses screen_
};

}  // namespace

int top(Args args, Io& io) {
  TopFlags flags;
  SettingsOptions given;
  CLI::App app("Shows GPUs, CPU, processes and alerts live in the terminal.", "sluice top");
  app.add_flag("--once", flags.once, "print one snapshot and exit; the default without a terminal");
  app.add_flag("--json", flags.json, "print the snapshot as JSON, once or every --interval");
  app.add_option("--interval", flags.interval, "seconds between samples")
      ->type_name("S")
      ->check(number_between(0.1, 60));
  app.add_option("--demo", flags.demo, "watch the GPUs of this demo scenario (a name or a file)")
      ->type_name("SCENARIO")
      ->check(not_empty(std::string(kScenarioWanted)));
  add_options(app, given);
  if (!parse(app, args, io, kTopExamples)) return 0;

  if (!flags.demo.empty()) (void)device::demo_scenario(flags.demo);  // throws for an unknown one
  log::set_level(log::Level::error);  // the screen says what goes wrong
  watch::Monitor monitor(monitor_options(flags, given, io));
  if (flags.json && flags.interval > 0 && !flags.once) return stream_json(monitor, flags, io);
  if (flags.once || flags.json || !terminal_behind(io.out).is_terminal)
    return once(monitor, flags, io);
  View(monitor).run();
  return 0;
}

}  // namespace sluice::cli
