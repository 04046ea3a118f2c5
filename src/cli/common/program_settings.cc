#include "cli/common/program_settings.h"

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include "cli/common/checks.h"
#include "watch/alerts/rules_json.h"

namespace sluice::cli {

namespace {

// Variables of ours that are no settings; the fake driver of the demos reads SLUICE_FAKE_*.
// Clients read SLUICE_URL and SLUICE_SOCKET, the Python package SLUICE_LIBRARY, tests
// SLUICE_TEST_DATA; a lease exports the rest to its holder.
const std::vector<std::string_view> kReserved = {
    "SLUICE_CONFIG",   "SLUICE_FAKE_*",           "SLUICE_URL",     "SLUICE_SOCKET",
    "SLUICE_LEASE_ID", "SLUICE_GPU_MEMORY_BYTES", "SLUICE_GPU_BUS", "SLUICE_LEASE_TOKEN",
    "SLUICE_LIBRARY",  "SLUICE_TEST_DATA"};

// Variables that a lease exports and that are settings, too: they are for the holder's work, not
// for Sluice itself.
constexpr const char* kOfALease[] = {"CUDA_VISIBLE_DEVICES", "GPU_MEMORY_FRACTION"};

std::string get(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

// A folder by the XDG rules, and the variable that decided it.
struct Folder {
  std::string path;
  Origin origin;
};

Folder xdg_folder(const Environment& environment, const std::string& variable,
                  const std::string& under_home, const std::string& without_home,
                  std::vector<std::string>& warnings) {
  const auto base = get(environment, variable), home = get(environment, "HOME");
  if (base.starts_with('/')) return {base + "/sluice", {Origin::Kind::environment, variable}};
  if (!base.empty())
    warnings.push_back(
        fmt::format("{} is not an absolute path and is not used: {}", variable, in_quotes(base)));
  if (home.starts_with('/'))
    return {home + under_home + "/sluice", {Origin::Kind::environment, "HOME"}};
  return {without_home + "/sluice", {}};
}

void fill_folders(ProgramSettings& settings, const Environment& environment) {
  const auto fill = [&](std::string& target, const char* key, const Folder& folder) {
    if (!target.empty()) return;
    target = folder.path;
    if (folder.origin.kind != Origin::Kind::default_value) settings.origins[key] = folder.origin;
  };
  auto& warnings = settings.warnings;
  fill(settings.state_dir, "state_dir",
       xdg_folder(environment, "XDG_STATE_HOME", "/.local/state", "/var/lib", warnings));
  fill(settings.cache_dir, "cache_dir",
       xdg_folder(environment, "XDG_CACHE_HOME", "/.cache", "/var/cache", warnings));
}

void apply_profile(Settings& settings, const device::ProfileDefaults& profile) {
  const Origin origin{Origin::Kind::profile, profile.name};
  settings.preset("gpu.memory_gb", to_node(profile.memory_gb), origin);
  settings.preset("gpu.batch_size", to_node(profile.batch_size), origin);
  settings.preset("gpu.batch_sizes", to_node(profile.batch_sizes), origin);
  settings.preset("gpu.memory_allocation", to_node(profile.memory_allocation), origin);
  settings.preset("gpu.precision", to_node(profile.precision), origin);
}

// Everything that does not change between the two passes of a load.
struct Sources {
  Document document;
  const Environment& environment;
  std::vector<Flag> flags;
};

// One pass over all sources, from the defaults up.
ProgramSettings pass(const Sources& sources, const std::optional<device::ProfileDefaults>& profile,
                     std::vector<Problem>& problems) {
  ProgramSettings out;
  auto settings = bind(out);
  if (profile) apply_profile(settings, *profile);
  settings.load(sources.document, problems);
  settings.load(sources.environment, kReserved, problems);
  settings.load(sources.flags, problems);
  settings.check(problems);
  return out;
}

std::vector<Flag> all_flags(const SettingsOptions& options, std::vector<Problem>& problems) {
  std::vector<Flag> flags;
  for (const auto& text : options.assignments) {
    const auto equals = text.find('=');
    const auto key = text.substr(0, equals);
    if (equals == text.npos || key.empty())
      problems.push_back({"flag --set", key, "must be written as section.name=value"});
    else
      flags.push_back({"--set " + key, key, text.substr(equals + 1)});
  }
  flags.insert(flags.end(), options.flags.begin(), options.flags.end());
  return flags;
}

// A message about a rule without a name has its index, which is removed: the loader adds the
// location.
std::string without_number(const std::string& message) {
  constexpr std::string_view kStart = "alert ";
  const auto colon = message.find(": ");
  const bool counted = message.starts_with(kStart) && message.size() > kStart.size() &&
                       message[kStart.size()] >= '0' && message[kStart.size()] <= '9';
  return counted && colon != message.npos ? message.substr(colon + 2) : message;
}

void load_rules(watch::WatchConfig& config, const Json& entries,
                std::vector<ElementProblem>& found) {
  std::vector<watch::RuleProblem> wrong;
  auto rules = watch::rules_from_json(entries, wrong);
  for (auto& problem : wrong)
    found.push_back({problem.index, problem.field, without_number(problem.message)});
  if (wrong.empty()) config.rules = std::move(rules);
}

Json rules_json(const watch::WatchConfig& config) {
  auto list = Json::array();
  for (const auto& rule : config.rules) list.push_back(watch::to_json(rule));
  return list;
}

std::vector<std::string> rule_lines(const watch::WatchConfig& config) {
  std::vector<std::string> lines;
  for (const auto& rule : config.rules)
    lines.push_back(fmt::format("{}: {} {} {}, over at {}, for {} s, {}{}", rule.name, rule.metric,
                                rule.condition, rule.threshold, rule.clear, rule.for_s,
                                to_string(rule.severity), rule.enabled ? "" : ", off"));
  return lines;
}

}  // namespace

Environment process_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals != text.npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

log::Level log_level(const ProgramSettings& settings) {
  if (settings.log_level == "debug") return log::Level::debug;
  if (settings.log_level == "warn") return log::Level::warn;
  if (settings.log_level == "error") return log::Level::error;
  return log::Level::info;
}

void add_options(CLI::App& app, SettingsOptions& options) {
  app.add_option("--config", options.config_file, "configuration file, TOML or JSON")
      ->type_name("FILE")
      ->check(not_empty("the path of a file"));
  app.add_option("--set", options.assignments,
                 "one setting, e.g. --set serve.port=8080; repeatable")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
}

Settings bind(ProgramSettings& p) {
  Settings settings(p.origins);
  settings.add("", "the program", p);
  settings.add("gpu", "which GPUs are used and how", p.gpu);
  settings.add("watch", "telemetry and alerts", p.watch);
  settings.add("broker", "leases: who may use how much GPU memory", p.broker);
  settings.add("memory", "pools of GPU memory that calculations use", p.memory);
  settings.add("engine", "models: what is kept of them once compiled", p.engine);
  settings.add("serve", "the HTTP server and the dashboard", p.serve);
  settings.add_list("autoscaling", "when to start and stop instances", false, p.autoscaling);
  settings.add_table(
      {"alerts", "alert rules: changes to the defaults by name, or new ones", true,
       [&p](const Json& entries, auto& found) { load_rules(p.watch, entries, found); },
       [&p] { return rules_json(p.watch); }, [&p] { return rule_lines(p.watch); },
       [] { return watch::rule_schema(); }});
  return settings;
}

Environment without_lease(Environment environment) {
  for (const auto* name : kOfALease) environment.erase(name);
  return environment;
}

ProgramSettings load_settings(const SettingsOptions& options, const Environment& given) {
  std::vector<Problem> problems;
  const auto environment = given.contains("SLUICE_LEASE_ID") ? without_lease(given) : given;
  const auto file =
      options.config_file.empty() ? get(environment, "SLUICE_CONFIG") : options.config_file;
  Sources sources{{}, environment, all_flags(options, problems)};
  if (!file.empty()) sources.document = read_document(file, problems);

  std::vector<Problem> first_look;  // the same problems appear again in the second
  const auto profile = device::profile_of(pass(sources, std::nullopt, first_look).gpu);
  auto settings = pass(sources, profile, problems);
  throw_if_any(problems);
  settings.config_file = file;
  for (auto& warning : device::profile_warnings(settings.gpu))
    settings.warnings.push_back(std::move(warning));
  fill_folders(settings, environment);
  return settings;
}

}  // namespace sluice::cli
