// sluice lease: requests, lists and releases leases of GPU memory at the running server.
#include <fmt/core.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <thread>

#include "base/error.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "cli/common/actions.h"
#include "cli/common/checks.h"
#include "cli/common/commands.h"
#include "cli/common/report.h"
#include "cli/lease/lease_report.h"
#include "cli/lease/lease_run.h"
#include "cli/lease/lease_server.h"

namespace sluice::cli {

namespace {

constexpr double kAnswerMargin_s = 10;
constexpr double kDefaultWait_s = 60;  // the server's, where the request does not say

// ---- request -------------------------------------------------------------------------

constexpr std::string_view kRequestExamples =
    "  sluice lease request trainer --memory-gb 8 -- python3 train.py\n"
    "      runs it on the leased GPU; SIGTERM when the memory is requested back; its exit code\n"
    "  sluice lease request scout --memory-gb 8 --min-memory-gb 4 --wait-s 60 -- ./scout\n"
    "  eval \"$(sluice lease request trainer --memory-gb 8 --ttl-s 3600 --pid $$ --export)\"\n"
    "      for this shell: until it ends, an hour is over, or sluice lease release\n"
    "Without a command nobody renews the lease: it ends after --ttl-s.\n"
    "Exit codes: 0 granted, or on the CPU (with a warning); 1 refused; 2 wrong usage; with a\n"
    "command, the command's.";

struct LeaseRequestFlags {
  std::string agent, priority, device, on_unavailable, model_type, placement;
  std::optional<double> memory_gb, min_memory_gb, ttl_s, wait_s;
  std::optional<int> gpus, pid, numa_node;
  bool json = false, exports = false, linked = false;
  ServerFlags server;
};

void add_request_options(CLI::App& app, LeaseRequestFlags& flags) {
  const auto gb = number_between(0.001, 65536);
  app.add_option("AGENT", flags.agent, "who asks")->required();
  app.add_option("--memory-gb", flags.memory_gb, "GB of 2^30 bytes, on each GPU")
      ->type_name("GB")
      ->check(gb);
  app.add_option("--min-memory-gb", flags.min_memory_gb, "take less, down to this")
      ->type_name("GB")
      ->check(gb);
  app.add_option("--gpus", flags.gpus, "that many different GPUs (default 1)")->type_name("N");
  app.add_option("--device", flags.device, "this GPU: UUID, PCI bus or index")->type_name("GPU");
  app.add_option("--placement", flags.placement,
                 "best_fit (default): the fullest GPU it fits; spread: the emptiest");
  app.add_option("--numa-node", flags.numa_node, "prefer GPUs of this node")->type_name("N");
  app.add_flag("--linked", flags.linked, "prefer several GPUs with NVLink between them");
  app.add_option("--priority", flags.priority, "low, normal, high or critical");
  app.add_option("--model-type", flags.model_type, "for the advice on the batch size");
}

void add_flags(CLI::App& app, LeaseRequestFlags& flags) {
  add_request_options(app, flags);
  app.add_option("--on-unavailable", flags.on_unavailable, "cpu (default), wait or fail");
  app.add_option("--wait-s", flags.wait_s, "wait at most this long for capacity")
      ->type_name("S")
      ->check(number_between(0, 86400));
  app.add_option("--ttl-s", flags.ttl_s, "it ends this long after the last renewal")
      ->type_name("S")
      ->check(number_between(1, 86400));
  app.add_option("--pid", flags.pid, "without a command: it ends with this process, e.g. $$")
      ->type_name("PID");
  app.add_flag("--export", flags.exports, "print export lines for a shell, and no more");
  app.add_flag("--json", flags.json, "print the server's answer");
  add_options(app, flags.server);
}

bool is_index(const std::string& text) {
  return !text.empty() && text.size() <= 4 &&
         text.find_first_not_of("0123456789") == std::string::npos;
}

Json body_of(const LeaseRequestFlags& flags, bool has_command) {
  Json body{{"agent", flags.agent}};
  const auto put = [&](const char* name, const auto& value) {
    if (value) body[name] = *value;
  };
  const auto put_text = [&](const char* name, const std::string& value) {
    if (!value.empty()) body[name] = value;
  };
  put("memory_gb", flags.memory_gb), put("min_memory_gb", flags.min_memory_gb);
  put("ttl_s", flags.ttl_s), put("wait_s", flags.wait_s), put("gpus", flags.gpus);
  put_text("priority", flags.priority), put_text("model_type", flags.model_type);
  put_text("on_unavailable", flags.on_unavailable), put_text("placement", flags.placement);
  put("numa_node", flags.numa_node);
  if (flags.linked) body["linked"] = true;
  if (is_index(flags.device))
    body["device"] = std::stoi(flags.device);
  else
    put_text("device", flags.device);
  if (has_command)
    body["bind"] = "connection";
  else
    body["pid"] = flags.pid.value_or(0);  // this process ends with the answer
  return body;
}

// Returns the seconds to wait for the answer: longer than the server lets the request wait.
double answer_timeout(const LeaseRequestFlags& flags) {
  const double wait = flags.on_unavailable == "wait" ? flags.wait_s.value_or(kDefaultWait_s)
                                                     : flags.wait_s.value_or(0);
  return wait + kAnswerMargin_s;
}

// A refusal has nothing to export, and a shell evaluates what --export prints.
void print_answer(const Json& answer, bool has_lease, const LeaseRequestFlags& flags, Io& io) {
  if (flags.json) {
    io.out << answer.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
    return;
  }
  const auto exported = has_lease ? export_lines(answer) : "";  // throws before a line is out
  if (!flags.exports) print_lease(answer, io.out, terminal_behind(io.out));
  if (has_lease) io.out << (flags.exports ? "" : "\n") << exported;
}

int request(Args args, Io& io) {
  const auto divider = std::ranges::find(args, "--");
  const std::vector<std::string> command(divider == args.end() ? divider : divider + 1, args.end());
  const bool has_command = divider != args.end();
  LeaseRequestFlags flags;
  CLI::App app(
      "Requests GPU memory. With -- COMMAND, runs it under the lease: renewed while it runs,\n"
      "released when it ends.",
      "sluice lease request");
  add_flags(app, flags);
  if (!parse(app, args.first(static_cast<std::size_t>(divider - args.begin())), io,
             kRequestExamples))
    return 0;
  require(!has_command || !command.empty(), "no command stands behind --");
  require(!has_command || (!flags.json && !flags.exports && !flags.pid),
          "--json, --export and --pid do not go with a command");
  require(!flags.json || !flags.exports, "give --json or --export, not both");

  const auto address = find_server(flags.server, io);
  LeaseServer server(address);
  const auto answer =
      server.ask("POST", "/v1/leases", body_of(flags, has_command), answer_timeout(flags));
  const auto status = answer.value("status", "failed");
  const auto reason = answer.value("reason", "");
  const bool has_lease = status == "allocated" || status == "cpu_fallback";
  if (!has_command) print_answer(answer, has_lease, flags, io);
  if (status == "cpu_fallback") io.err << "sluice: on the CPU: " << printable(reason) << "\n";
  if (!has_lease) {
    io.err << "sluice: no lease: " << printable(reason) << "\n";
    return 1;
  }
  return has_command ? run_under_lease(command, answer, server, address, io) : 0;
}

// ---- list, show, release -----------------------------------------------------------------

// Returns all pages as one document. The number of pages is bounded, for a server that never ends
// the list.
Json all_leases(LeaseServer& server) {
  constexpr int kMaxPages = 1000;
  auto all = server.get("/v1/leases?limit=1000");
  auto next = all.value("next", Json());
  for (int page = 1; page < kMaxPages && next.is_string(); ++page) {
    const auto more = server.get("/v1/leases?limit=1000&cursor=" + next.get<std::string>());
    for (const auto* list : {"leases", "waiting", "on_cpu"})
      for (const auto& lease : more.value(list, Json::array())) all[list].push_back(lease);
    next = more.value("next", Json());
  }
  all.erase("next");
  return all;
}

int list(Args args, Io& io) {
  ServerFlags flags;
  bool json = false;
  CLI::App app("Lists leases, waiting requests and the free memory of each GPU.",
               "sluice lease list");
  app.add_flag("--json", json, "as JSON; docs/leases.md explains the fields");
  add_options(app, flags);
  if (!parse(app, args, io, "  sluice lease list\n  sluice lease list --url http://gpu-box:8000"))
    return 0;
  LeaseServer server(find_server(flags, io));
  const auto leases = all_leases(server);
  if (json)
    io.out << leases.dump(2) << "\n";
  else
    print_leases(leases, io.out, terminal_behind(io.out));
  return 0;
}

void add_id(CLI::App& app, std::string& id) {
  app.add_option("ID", id, "number of the lease")->type_name("ID");
}

std::string checked_id(const std::string& id, const Io& io) {
  const auto own = io.environment.find("SLUICE_LEASE_ID");
  const auto found = id.empty() && own != io.environment.end() ? own->second : id;
  require(!found.empty(), "which lease? Give its ID; sluice lease list shows them");
  require(found.find_first_not_of("0123456789") == std::string::npos,
          "a lease's ID is a number; sluice lease list shows them");
  return found;
}

int show(Args args, Io& io) {
  ServerFlags flags;
  std::string id;
  bool json = false;
  CLI::App app("Shows one lease, also one that is over.", "sluice lease show");
  add_id(app, id);
  app.add_flag("--json", json, "as JSON");
  add_options(app, flags);
  if (!parse(app, args, io, "  sluice lease show 17\n  sluice lease show   (SLUICE_LEASE_ID)"))
    return 0;
  const auto target = "/v1/leases/" + checked_id(id, io);
  LeaseServer server(find_server(flags, io));
  const auto answer = server.get(target);
  if (json)
    io.out << answer.dump(2) << "\n";
  else
    print_lease(answer, io.out, terminal_behind(io.out));
  return 0;
}

int release(Args args, Io& io) {
  ServerFlags flags;
  std::string id, token, reason;
  CLI::App app("Releases a lease.", "sluice lease release");
  add_id(app, id);
  app.add_option("--token", token, "the holder's proof (or SLUICE_LEASE_TOKEN)");
  app.add_option("--revoke", reason,
                 "as an operator, without a token; the reason is shown to the holder")
      ->type_name("REASON")
      ->check(not_empty("a reason, which is shown to the holder"));
  add_options(app, flags);
  if (!parse(app, args, io,
             "  sluice lease release            what --export gave this shell\n"
             "  sluice lease release 17 --token 17.0.6536ed3d46981ebc\n"
             "  sluice lease release 17 --revoke 'maintenance at noon'"))
    return 0;
  require(token.empty() || reason.empty(), "give --token or --revoke, not both");
  id = checked_id(id, io);
  const auto own = io.environment.find("SLUICE_LEASE_TOKEN");
  if (token.empty() && own != io.environment.end() && own->second.starts_with(id + "."))
    token = own->second;
  require(!token.empty() || !reason.empty(),
          "the holder gives --token, as it came with the lease; an operator gives --revoke REASON");
  LeaseServer server(find_server(flags, io));
  if (reason.empty())
    server.ask("DELETE", "/v1/leases/" + id, Json{{"token", token}});
  else
    server.ask("POST", "/v1/leases/" + id + "/revoke", Json{{"reason", reason}});
  io.out << "lease " << id << (reason.empty() ? " released\n" : " revoked\n");
  return 0;
}

// ---- watch -----------------------------------------------------------------------------

int watch_events(Args args, Io& io) {
  constexpr auto kReconnect = std::chrono::seconds(1);
  ServerFlags flags;
  bool json = false;
  CLI::App app("Prints lease events, one line each, until Ctrl-C.", "sluice lease watch");
  app.add_flag("--json", json, "one JSON object a line");
  add_options(app, flags);
  if (!parse(app, args, io, "  sluice lease watch\n  sluice lease watch --json | jq .reason"))
    return 0;
  LeaseServer server(find_server(flags, io));
  server.get("/health/live");  // an absent server is reported at once
  const auto hear = [&](std::string_view type, const std::string& text) {
    if (!type.starts_with("lease_")) return true;
    const auto event = Json::parse(text, nullptr, false);
    if (event.is_object()) io.out << (json ? text : event_line(type, event)) << std::endl;
    return io.out.good();
  };
  while (io.out.good()) {
    try {
      server.listen("/v1/events?interval=0", hear);
    } catch (const Error& e) {
      io.err << "sluice: " << printable_lines(e.reason()) << "; trying again" << std::endl;
    }
    if (io.out.good()) std::this_thread::sleep_for(kReconnect);
  }
  return 0;
}

constexpr Action kActions[] = {
    {"request", "request GPU memory, and run a command with it", request},
    {"list", "list leases, waiting requests and free memory", list},
    {"show", "show one lease", show},
    {"release", "release a lease, or revoke it as an operator", release},
    {"watch", "print lease events as they happen", watch_events},
};

}  // namespace

int lease(Args args, Io& io) {
  const auto* action =
      find_action({"lease", "action", kActions,
                   "All of them talk to a running sluice serve.\n"
                   "Example: sluice lease request trainer --memory-gb 8 -- python3 train.py"},
                  args, io);
  try {
    return action == nullptr ? 0 : action->run(args.subspan(1), io);
  } catch (const Json::exception&) {  // a field of another type; its words help nobody
    throw Error(Code::unavailable,
                "the server's answer is not what a Sluice server sends; is it one, and of this "
                "version?");
  }
}

}  // namespace sluice::cli
