// sluice doctor: finds problems of drivers, GPUs, containers and settings, with their fixes.
#include "device/doctor/doctor.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string_view>

#include "base/error.h"
#include "base/state_file.h"
#include "base/units.h"
#include "broker/store/store_folder.h"
#include "cli/common/checks.h"
#include "cli/common/commands.h"
#include "cli/common/demo_flags.h"
#include "cli/common/library_dirs.h"
#include "cli/common/program_settings.h"
#include "cli/common/report.h"

namespace sluice::cli {

namespace {

using device::Check;
using device::Verdict;

constexpr std::string_view kDoctorExamples =
    "  sluice doctor\n"
    "  sluice doctor --json | jq '.checks[] | select(.status != \"pass\")'\n"
    "  sluice doctor --demo throttling --demo-at 20      how trouble looks\n"
    "  sluice doctor --demo hang --demo-at 6             a driver call that hangs";

constexpr int kMark = 6, kTitle = 22;  // columns

std::optional<std::string> variable(const Io& io, const char* name) {
  const auto found = io.environment.find(name);
  return found == io.environment.end() ? std::nullopt : std::optional(found->second);
}

// "2 problems:\n  this\n  that" as "2 problems: this; that".
std::string in_one_line(std::string_view text) {
  std::string all;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto start = line.find_first_not_of(' ');
    if (start == line.npos) continue;
    if (!all.empty()) all += all.ends_with(':') ? " " : "; ";
    all += line.substr(start);
  }
  return all;
}

// A configuration that does not load is one more finding, not the end of the visit.
Check check_settings(const SettingsOptions& options, const Io& io, std::string& cache_dir,
                     std::string& state_dir, std::optional<device::GpuConfig>& gpu) {
  Check c{"configuration", "configuration", Verdict::pass, "no file; defaults", {}};
  try {
    const auto settings = load_settings(options, io.environment);
    cache_dir = settings.cache_dir;
    state_dir = settings.state_dir;
    gpu = settings.gpu;
    if (!settings.config_file.empty()) c.detail = settings.config_file + " loads";
    if (!settings.warnings.empty()) {
      c.status = Verdict::warn;
      c.detail += ", but: " + settings.warnings.front();
      c.fix = "sluice settings shows every value and where it came from";
    }
  } catch (const Error& e) {
    if (e.code() != Code::invalid_argument) throw;
    c.status = Verdict::fail;
    c.detail = e.reason();
    c.fix = "fix it, then check again with: sluice settings";
  }
  c.detail = in_one_line(c.detail);
  return c;
}

// Checks that [gpu] matches the detected cards. Returns nothing without a profile and without a
// problem.
std::optional<Check> check_profile(const device::GpuConfig& config, const device::Facts& facts) {
  device::Inventory found;
  for (const auto& gpu : facts.gpus) {
    if (!gpu.silence.empty()) continue;
    auto& seen = found.gpus.emplace_back();
    seen.vendor = device::Vendor::nvidia;
    seen.uuid = gpu.uuid;
    seen.bus = gpu.bus;
    seen.name = gpu.name;
    seen.memory_total = gpu.memory_total;
    seen.card = device::find_card(gpu.name, gpu.memory_total);
  }
  Check c{"gpu-profile", "GPU profile", Verdict::pass, config.gpu_type + " agrees", {}};
  const auto warnings =
      found.gpus.empty() ? std::vector<std::string>() : device::profile_warnings(config, found);
  if (warnings.empty())
    return config.gpu_type.empty() || found.gpus.empty() ? std::nullopt : std::optional(c);
  c.status = Verdict::warn;
  c.detail = fmt::format("{}", fmt::join(warnings, "; "));
  c.fix =
      "fix [gpu] in the configuration; sluice detect names the cards, and without gpu_type "
      "each card's own profile is used";
  return c;
}

// The one that the last server ran as; the owner of the folder where none ever did.
uid_t server_user(const std::string& folder) {
  struct stat facts {};
  if (::lstat((folder + "/leases.lock").c_str(), &facts) != 0) (void)::stat(folder.c_str(), &facts);
  return facts.st_uid;
}

// Adds no check where no server ever ran.
std::optional<Check> check_state_folder(const std::string& path) {
  constexpr std::uintmax_t kMinFreeBytes = 64 << 20, kGoodFreeBytes = 1 << 30;
  std::error_code failed;
  if (!std::filesystem::exists(path, failed) && !failed) return std::nullopt;
  Check c{"state-folder", "state folder", Verdict::pass, path, {}};
  const auto free = std::filesystem::space(path, failed).available;
  if (failed || ::access(path.c_str(), W_OK | X_OK) != 0) {
    c.status = Verdict::fail;
    c.detail += " cannot be written by this user";
    c.fix = "run as the server's user, or choose another folder with --state DIR";
    return c;
  }
  c.detail += ", " + human_bytes(free) + " free";
  if (free < kGoodFreeBytes) {
    c.status = free < kMinFreeBytes ? Verdict::fail : Verdict::warn;
    c.fix = "free 1 GiB there: on a full disk no lease is granted and no history kept";
  } else if (const auto warning = folder_warning(path, server_user(path)); !warning.empty()) {
    constexpr std::string_view kDo = "; do: ";
    const auto fix = warning.find(kDo);
    c.status = Verdict::warn;
    c.detail = warning.substr(0, fix);
    c.fix = warning.substr(fix + kDo.size());
  }
  return c;
}

// Adds no check where no server ever stored leases.
std::optional<Check> check_leases(const std::string& state_dir) {
  Check c{"leases", "leases", Verdict::fail, {}, {}};
  try {
    const auto health = broker::store_health(state_dir);
    if (!health.exists) return std::nullopt;
    const auto file = state_dir + "/leases.db";
    if (!health.refusal.empty()) {
      c.detail = file + " cannot be used: " + health.refusal;
      c.fix = "put a good copy in its place, or move it away with its -wal file";
    } else if (!health.damage.empty()) {
      c.detail = "found damaged in " + state_dir + ": " + in_one_line(health.damage);
      c.fix =
          "holders of lost leases hear that theirs are unknown and ask again; check the disk, "
          "then ";
      c.fix += health.is_reported ? fmt::format("remove {}/leases.damage", state_dir)
                                  : "start the server, which goes on with what is left";
    } else {
      c.status = Verdict::pass;
      c.detail = file + (health.is_in_use ? ", in use by a server" : ", whole");
    }
  } catch (const Error& e) {
    c.detail = std::string(e.reason());
    c.fix = "let the state folder and its files belong to the user that Sluice runs as";
  }
  return c;
}

void print_check(const Check& c, Report& report) {
  const auto pen = report.pen();
  const auto mark = c.status == Verdict::pass   ? paint("pass", Ink::good, pen)
                    : c.status == Verdict::warn ? paint("warn", Ink::warn, pen)
                                                : paint("FAIL", Ink::bad, pen);
  report.item(mark + "  " + left(c.title, kTitle, pen), kMark + kTitle, c.detail);
  if (c.fix.empty()) return;
  report.item(std::string(kMark, ' ') + paint("fix: ", Ink::accent, pen), kMark + 5, c.fix);
}

std::string plural(long n, const char* word) {
  return fmt::format("{} {}{}", n, word, n == 1 ? "" : "s");
}

std::string conclusion(const std::vector<Check>& checks) {
  const auto count = [&](Verdict v) { return std::ranges::count(checks, v, &Check::status); };
  const auto failed = count(Verdict::fail);
  const bool no_gpu = checks.front().id == "gpu" && checks.front().status == Verdict::warn;
  return fmt::format("{} passed, {}, {}. {}", count(Verdict::pass),
                     plural(count(Verdict::warn), "warning"), plural(failed, "failure"),
                     failed > 0 ? "Sluice may run badly until that is fixed."
                     : no_gpu   ? "Sluice runs here, on the CPU."
                                : "Sluice runs here.");
}

struct DoctorFlags {
  bool json = false;
  DemoFlags demo;
  SettingsOptions settings;
};

// Returns false when only help was requested.
bool parse_doctor_flags(Args args, Io& io, DoctorFlags& flags) {
  CLI::App app("Checks driver, libraries, permissions, GPUs, container, memory and disk",
               "sluice doctor");
  app.add_flag("--json", flags.json, "as JSON; docs/schemas/doctor.schema.json describes it");
  std::string state;
  app.add_option("--state", state, "folder of what must survive")
      ->type_name("DIR")
      ->check(not_empty("the path of a folder"));
  flags.demo.add_to(app);
  add_options(app, flags.settings);
  if (!parse(app, args, io, kDoctorExamples)) return false;
  if (!state.empty()) flags.settings.flag("--state", "state_dir", state);
  return true;
}

std::vector<Check> run_checks(const DoctorFlags& flags, Io& io) {
  device::DoctorOptions options;
  options.demo = flags.demo.scenario;
  options.demo_options = flags.demo.options();
  std::optional<device::GpuConfig> gpu;
  std::string state_dir;
  const auto configuration = check_settings(flags.settings, io, options.cache_dir, state_dir, gpu);
  options.library_dirs = library_dirs(io);
  options.nvidia_visible = variable(io, "NVIDIA_VISIBLE_DEVICES");
  options.cuda_visible = variable(io, "CUDA_VISIBLE_DEVICES");
  options.capabilities = variable(io, "NVIDIA_DRIVER_CAPABILITIES");
  const auto facts = gather(options);
  auto checks = diagnose(facts);
  checks.push_back(configuration);
  if (auto folder = state_dir.empty() ? std::nullopt : check_state_folder(state_dir))
    checks.push_back(std::move(*folder));
  if (auto leases = state_dir.empty() ? std::nullopt : check_leases(state_dir))
    checks.push_back(std::move(*leases));
  if (gpu)
    if (auto profile = check_profile(*gpu, facts)) checks.push_back(std::move(*profile));
  return checks;
}

}  // namespace

int doctor(Args args, Io& io) {
  DoctorFlags flags;
  if (!parse_doctor_flags(args, io, flags)) return 0;
  const auto checks = run_checks(flags, io);
  if (flags.json) {
    Json document = {{"schema", "sluice/doctor/1"}, {"version", SLUICE_VERSION}};
    document.update(to_json(checks));
    io.out << document.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  } else {
    Report report(io.out, terminal_behind(io.out));
    for (const auto& check : checks) print_check(check, report);
    report.line("");
    report.item("", 0, conclusion(checks));
  }
  return any_failed(checks) ? 1 : 0;
}

}  // namespace sluice::cli
