// sluice tune: changes settings of GPUs so that they can be put back.
#include "device/tune/tune.h"

#include <fmt/core.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "cli/common/checks.h"
#include "cli/common/commands.h"
#include "cli/common/demo_flags.h"
#include "cli/common/program_settings.h"
#include "cli/common/report.h"
#include "cli/common/shell_quote.h"
#include "device/sysfs.h"
#include "device/tune/tune_record.h"

namespace sluice::cli {

namespace {

using device::Nvml;
using device::TuneOutcome;
using device::TunePlan;
using device::TuneRecord;
using device::Tuning;

constexpr std::string_view kTuneExamples =
    "  sluice tune --power-limit 500                     shows the plan\n"
    "  sudo sluice tune --persistence on --power-limit 500 --yes\n"
    "  sudo sluice tune --gpu 0000:19:00.0 --clocks 2619,1755 --yes\n"
    "  sudo sluice tune --reset --yes                    as before the first tune";

struct TuneFlags {
  std::string gpu, persistence, clocks, state;
  std::optional<double> power_limit;
  bool reset = false, yes = false, json = false;
  DemoFlags demo;
};

// One GPU and its planned changes.
struct Job {
  std::string uuid, name, bus;
  device::nvml::Device handle;
  std::unique_ptr<device::Knobs> knobs;
  TunePlan plan;
  bool recorded = false;  // there is an original to go back to
  TuneOutcome outcome;
};

void add_flags(CLI::App& app, TuneFlags& flags, SettingsOptions& settings) {
  app.add_option("--gpu", flags.gpu, "only this GPU, by UUID or bus; else every NVIDIA GPU")
      ->type_name("UUID|BUS")
      ->check([](const std::string& text) {  // an unset variable in a script must not mean all
        return text.empty() ? "names no GPU; leave the option out to mean all of them" : "";
      });
  auto* persistence =
      app.add_option("--persistence", flags.persistence, "keep the driver loaded: on or off")
          ->type_name("on|off")
          ->check(CLI::IsMember({"on", "off"}));
  auto* power = app.add_option("--power-limit", flags.power_limit, "watts")
                    ->type_name("W")
                    ->check(finite_number("a number of watts such as 500"));
  auto* clocks = app.add_option("--clocks", flags.clocks, "memory and SM clock under load, in MHz")
                     ->type_name("MEM,SM")
                     ->check(not_empty("two clocks such as 2619,1755"));
  app.add_flag("--reset", flags.reset, "restore what was before the first tune")
      ->excludes(persistence)
      ->excludes(power)
      ->excludes(clocks);
  app.add_flag("--yes", flags.yes, "act; without it only the plan is shown");
  app.add_flag("--json", flags.json, "as JSON");
  app.add_option("--state", flags.state, "folder that keeps what was before")
      ->type_name("DIR")
      ->check(not_empty("the path of a folder"));
  flags.demo.add_to(app);
  add_options(app, settings);
}

device::ClockPair parse_clocks(const std::string& text) {
  const auto parts = device::split(text, ',');
  const auto memory = device::to_int(parts[0]).value_or(0);
  const auto sm = parts.size() == 2 ? device::to_int(parts[1]).value_or(0) : 0;
  const auto sane = [](std::int64_t mhz) { return mhz > 0 && mhz < 1'000'000; };
  require(
      sane(memory) && sane(sm),
      "sluice tune: --clocks wants memory and SM clock in MHz, like 2619,1755, not '" + text + "'");
  return {static_cast<unsigned>(memory), static_cast<unsigned>(sm)};
}

Tuning tuning_of(const TuneFlags& flags) {
  Tuning wanted;
  if (!flags.persistence.empty()) wanted.persistence = flags.persistence == "on";
  wanted.power_limit_w = flags.power_limit;
  if (!flags.clocks.empty()) wanted.clocks = parse_clocks(flags.clocks);
  require(flags.reset || !wanted.empty(),
          "sluice tune: nothing to do; give --persistence, --power-limit, --clocks or --reset");
  return wanted;
}

// The bus in the driver's form: lspci leaves the domain out.
std::string full_bus(const std::string& given) {
  const bool short_form = std::ranges::count(given, ':') == 1;
  return device::nvml::normalize_bus(short_form ? "0000:" + given : given);
}

std::vector<Job> find_gpus(const Nvml& nvml, const std::string& wanted) {
  std::vector<Job> jobs;
  const auto bus = full_bus(wanted);
  const auto count = nvml.count();
  for (unsigned i = 0; i < count.value; ++i) {
    const auto handle = nvml.by_index(i);
    if (!handle) continue;
    Job job;
    job.handle = handle.value;
    job.uuid = nvml.uuid(handle.value).value;
    job.bus = nvml.bus(handle.value).value;
    job.name = nvml.name(handle.value).value;
    if (job.uuid.empty()) continue;
    if (wanted.empty() || job.uuid == wanted || job.bus == bus) jobs.push_back(std::move(job));
  }
  if (jobs.empty())
    throw Error(Code::not_found, wanted.empty() ? "sluice tune: the driver shows no GPU"
                                                : "sluice tune: no GPU is '" + wanted +
                                                      "'; sluice detect lists UUIDs and buses");
  std::ranges::sort(jobs, {}, &Job::bus);
  return jobs;
}

void plan_all(const Nvml& nvml, std::vector<Job>& jobs, const TuneFlags& flags,
              const Tuning& wanted, const TuneRecord& record) {
  for (auto& job : jobs) {
    job.knobs = device::knobs_of(nvml, job.handle);
    const auto* original = record.of(job.uuid);
    job.recorded = original != nullptr;
    const auto goal = flags.reset ? (original ? *original : Tuning{}) : wanted;
    job.plan = plan_tuning(job.knobs->read(), goal, limits_of(nvml, job.handle));
    if (flags.reset) job.plan.warnings.clear();
  }
}

bool has_problems(const std::vector<Job>& jobs) {
  return std::ranges::any_of(jobs, [](const Job& j) { return !j.plan.problems.empty(); });
}

bool has_work(const std::vector<Job>& jobs, bool reset) {
  return std::ranges::any_of(
      jobs, [&](const Job& j) { return !j.plan.to.empty() || (reset && j.recorded); });
}

// The rollback of a completed change.
TunePlan reversed(const TunePlan& plan) { return {plan.to, plan.from, {}, {}}; }

// Records, then acts, GPU by GPU; at the first failure everything done by this call
// is undone and the record is as it was.
bool act(std::vector<Job>& jobs, bool reset, TuneRecord& record) {
  std::vector<std::pair<std::string, std::optional<Tuning>>> before;
  for (const auto& job : jobs) {
    const auto* original = record.of(job.uuid);
    before.emplace_back(job.uuid, original ? std::optional(*original) : std::nullopt);
    if (!reset && !job.plan.to.empty()) record.remember(job.uuid, job.plan.from);
  }
  if (!reset) record.save();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].outcome = apply(*jobs[i].knobs, jobs[i].plan);
    if (jobs[i].outcome.done) continue;
    for (std::size_t k = 0; k < i; ++k) {
      const bool back = apply(*jobs[k].knobs, reversed(jobs[k].plan)).done;
      jobs[k].outcome = {false, "undone because another GPU failed", back};
    }
    const bool clean = std::all_of(jobs.begin(), jobs.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                   [](const Job& j) { return j.outcome.rolled_back; });
    if (!reset && clean) {
      for (const auto& [uuid, original] : before)
        record.replace(uuid, original ? &*original : nullptr);
      record.save();
    }
    return false;
  }
  if (reset) {
    for (const auto& job : jobs) record.replace(job.uuid, nullptr);
    record.save();
  }
  return true;
}

void print_outcome(const Job& job, Report& report) {
  const auto pen = report.pen();
  const auto& o = job.outcome;
  if (o.done && !job.plan.to.empty()) {
    report.item("  " + paint("done", Ink::good, pen) + "  ", 8, "set and read back");
  } else if (!o.problem.empty()) {
    report.item("  " + paint("FAIL", Ink::bad, pen) + "  ", 8, o.problem);
    report.item("        ", 8,
                o.rolled_back ? "everything is as it was"
                              : "and the rollback failed too: look at nvidia-smi -q");
  }
}

// GPUs of one name to which the same happens are shown together.
std::string kind_of(const Job& job) {
  std::string kind = job.name + (job.recorded ? "|recorded" : "|") + job.outcome.problem;
  for (const auto& step : device::steps(job.plan)) kind += "|" + step.from + ">" + step.to;
  for (const auto& problem : job.plan.problems) kind += "|" + problem;
  return kind;
}

void print_kind(const std::vector<const Job*>& kind, const TuneFlags& flags, Report& report) {
  const auto pen = report.pen();
  const auto& job = *kind.front();
  if (kind.size() == 1) {
    report.heading(job.bus, job.name);
  } else {
    report.heading(fmt::format("{} GPUs", kind.size()), job.name);
    std::string buses;
    for (const auto* each : kind) buses += (buses.empty() ? "" : ", ") + each->bus;
    report.item("  ", 2, buses, Ink::dim);
  }
  const auto steps = device::steps(job.plan);
  for (const auto& step : steps)
    report.item("  " + left(step.setting, 18, pen), 20, step.from + " -> " + step.to);
  for (const auto& problem : job.plan.problems)
    report.item("  " + paint("FAIL", Ink::bad, pen) + "  ", 8, problem);
  for (const auto& warning : job.plan.warnings)
    report.item("  " + paint("warn", Ink::warn, pen) + "  ", 8, warning);
  if (steps.empty() && job.plan.problems.empty())
    report.line(flags.reset && !job.recorded ? "  never tuned by Sluice: nothing to restore"
                                             : "  already so: nothing to change");
  print_outcome(job, report);
}

void print_text(const std::vector<Job>& jobs, const TuneFlags& flags, Report& report) {
  std::vector<std::vector<const Job*>> kinds;
  for (const auto& job : jobs) {
    const auto same = std::ranges::find_if(
        kinds, [&](const auto& kind) { return kind_of(*kind.front()) == kind_of(job); });
    if (same == kinds.end())
      kinds.push_back({&job});
    else
      same->push_back(&job);
  }
  for (const auto& kind : kinds) print_kind(kind, flags, report);
}

Json to_json(const std::vector<Job>& jobs, bool acted, const TuneRecord& record) {
  Json gpus = Json::array();
  for (const auto& job : jobs) {
    Json changes = Json::array();
    for (const auto& step : device::steps(job.plan))
      changes.push_back({{"setting", step.setting}, {"from", step.from}, {"to", step.to}});
    Json gpu = {{"uuid", job.uuid},
                {"bus", job.bus},
                {"name", job.name},
                {"changes", std::move(changes)},
                {"problems", job.plan.problems},
                {"warnings", job.plan.warnings}};
    if (acted)
      gpu["outcome"] = {{"done", job.outcome.done},
                        {"problem", job.outcome.problem},
                        {"rolled_back", job.outcome.rolled_back}};
    gpus.push_back(std::move(gpu));
  }
  return {{"schema", "sluice/tune/1"},
          {"version", SLUICE_VERSION},
          {"acted", acted},
          {"record", record.file().string()},
          {"gpus", std::move(gpus)}};
}

// The command that undoes this one: it must look for the record in the same place.
std::string way_back(const TuneFlags& flags, const SettingsOptions& settings) {
  std::string command = "sluice tune --reset --yes";
  const auto add = [&command](std::string_view flag, const std::string& value) {
    if (!value.empty())
      command.append(" ").append(flag).append(" ").append(shell_quote_if_needed(value));
  };
  add("--gpu", flags.gpu);
  add("--demo", flags.demo.scenario);
  add("--state", flags.state);
  add("--config", settings.config_file);
  for (const auto& assignment : settings.assignments)
    if (assignment.starts_with("state_dir=")) add("--set", assignment);
  return command;
}

std::string closing_words(const std::vector<Job>& jobs, const TuneFlags& flags, bool acted,
                          bool done, const TuneRecord& record) {
  if (has_problems(jobs)) return "Nothing was changed: fix what failed first.";
  if (!has_work(jobs, flags.reset)) return {};
  if (!acted)
    return flags.demo.scenario.empty() ? "This is the plan. Add --yes to act (as root)."
                                       : "This is the plan. Add --yes to act.";
  if (!done) return {};
  return flags.reset
             ? "Restored."
             : "Done. What was before is in " + record.file().string() + ". This restores it:";
}

// The state folder, from --state or the settings.
device::Path state_folder(const TuneFlags& flags, const SettingsOptions& settings, const Io& io) {
  if (!flags.state.empty()) return flags.state;
  return load_settings(settings, io.environment).state_dir;
}

// Files of a demo carry its name: fake GPUs of two scenarios share their UUIDs.
std::string file_name(const TuneFlags& flags, const std::string& what) {
  if (flags.demo.scenario.empty()) return what + ".json";
  return what + "-demo-" + device::Path(flags.demo.scenario).stem().string() + ".json";
}

std::unique_ptr<Nvml> open_driver(const TuneFlags& flags, const device::Path& folder) {
  if (flags.demo.scenario.empty()) return Nvml::open();
  auto options = flags.demo.options();
  options.state_file = (folder / file_name(flags, "gpus")).string();
  return device::open_demo(flags.demo.scenario, options);
}

}  // namespace

int tune(Args args, Io& io) {
  CLI::App app("Sets persistence mode, power limit and clocks of NVIDIA GPUs, or resets them",
               "sluice tune");
  TuneFlags flags;
  SettingsOptions settings;
  add_flags(app, flags, settings);
  if (!parse(app, args, io, kTuneExamples)) return 0;
  const auto wanted = tuning_of(flags);

  const auto folder = state_folder(flags, settings, io);
  TuneRecord record(folder, file_name(flags, "tune"));
  if (flags.yes) record.lock();
  const auto nvml = open_driver(flags, folder);
  auto jobs = find_gpus(*nvml, flags.gpu);
  plan_all(*nvml, jobs, flags, wanted, record);

  const bool acted = flags.yes && !has_problems(jobs) && has_work(jobs, flags.reset);
  const bool done = acted && act(jobs, flags.reset, record);
  if (flags.json) {
    io.out << to_json(jobs, acted, record).dump(2, ' ', false, Json::error_handler_t::replace)
           << "\n";
  } else {
    Report report(io.out, terminal_behind(io.out));
    print_text(jobs, flags, report);
    const auto words = closing_words(jobs, flags, acted, done, record);
    if (!words.empty()) {
      report.line("");
      report.item("", 0, words);
      if (done && !flags.reset) report.line("  " + way_back(flags, settings));
    }
  }
  if (has_problems(jobs)) return 2;
  return acted && !done ? 1 : 0;
}

}  // namespace sluice::cli
