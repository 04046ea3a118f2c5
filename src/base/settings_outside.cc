// Settings from the environment and from the command line.
#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "base/nearest.h"
#include "base/settings.h"

namespace sluice {

namespace {

constexpr std::string_view kPrefix = "SLUICE_";

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// Returns the text that matches * in `pattern`, or nothing when the variable does not match.
std::optional<std::string> match(std::string_view pattern, std::string_view variable) {
  const auto star = pattern.find('*');
  const auto before = pattern.substr(0, star), after = pattern.substr(star + 1);
  if (variable.size() < before.size() + after.size() || !variable.starts_with(before) ||
      !variable.ends_with(after))
    return std::nullopt;
  return lower_case(variable.substr(before.size(), variable.size() - before.size() - after.size()));
}

}  // namespace

void Settings::take_text(const Setting& setting, std::string_view text, const Source& source,
                         Problems& problems) {
  std::string cause;
  const Node accepted = accept_text(setting.rule, text, cause);
  if (!cause.empty()) {
    problems.push_back({source.where, setting.key(), cause});
    return;
  }
  if (setting.rule.arity == Arity::map) return take_map(setting, accepted, source, problems);
  setting.variable->write(accepted);
  (*origins_)[setting.key()] = source.origin;
}

void Settings::take_element(const Setting& setting, const std::string& element,
                            std::string_view text, const Source& source, Problems& problems) {
  auto cause = name_cause(element);
  Node accepted;
  if (cause.empty()) accepted = accept_text(element_of(setting.rule), text, cause);
  if (!cause.empty()) {
    problems.push_back({source.where, setting.key() + "." + printable(element), cause});
    return;
  }
  Node table = Node::table();
  table.members.push_back({element, 0, std::move(accepted)});
  take_map(setting, table, source, problems);
}

// ---- environment --------------------------------------------------------------

void Settings::load_pattern(const Setting& setting, std::string_view pattern,
                            const Environment& environment, Problems& problems) {
  const bool own = pattern.starts_with(kPrefix);
  for (const auto& [variable, text] : environment) {
    const auto element = match(pattern, variable);
    if (!element || variable.starts_with(kPrefix) != own) continue;
    const Origin origin{Origin::Kind::environment, variable};
    take_element(setting, *element, text, {to_string(origin), origin}, problems);
  }
}

// The names others use first, so that our own name wins.
void Settings::load_variables(const Setting& setting, const Environment& environment,
                              Problems& problems) {
  const auto own = setting.variable_name();
  for (const std::string& variable : {std::string(setting.env_name), own}) {
    const auto found = environment.find(variable);
    if (variable.empty() || found == environment.end()) continue;
    const Origin origin{Origin::Kind::environment, variable};
    std::string cause, text = found->second;
    if (variable != own && setting.env_reader != nullptr) text = setting.env_reader(text, cause);
    if (cause.empty())
      take_text(setting, text, {to_string(origin), origin}, problems);
    else
      problems.push_back({to_string(origin), setting.key(), cause});
  }
  if (!setting.env_pattern.empty())
    load_pattern(setting, setting.env_pattern, environment, problems);
  if (setting.rule.arity == Arity::map) load_pattern(setting, own + "_*", environment, problems);
}

void Settings::load(const Environment& environment, const std::vector<std::string_view>& reserved,
                    Problems& problems) {
  std::vector<std::string> known(reserved.begin(), reserved.end()), beginnings;
  for (const auto& section : sections_) {
    for (const auto& setting : section.settings) {
      load_variables(setting, environment, problems);
      known.push_back(setting.variable_name());
      if (setting.rule.arity == Arity::map) beginnings.push_back(setting.variable_name() + "_");
    }
  }
  for (const auto name : reserved)
    if (name.ends_with('*')) beginnings.emplace_back(name.substr(0, name.size() - 1));
  const std::vector<std::string_view> names(known.begin(), known.end());
  for (const auto& [variable, text] : environment) {
    const auto begins = [&v = variable](const std::string& b) { return v.starts_with(b); };
    if (!variable.starts_with(kPrefix) || std::ranges::find(names, variable) != names.end() ||
        std::ranges::any_of(beginnings, begins))
      continue;
    problems.push_back({"env " + printable(variable), "",
                        "no setting has this variable" +
                            (variable.size() <= 100 ? did_you_mean(variable, names) : "")});
  }
}

// ---- flags --------------------------------------------------------------------

void Settings::load(const std::vector<Flag>& flags, Problems& problems) {
  for (const auto& flag : flags) load_flag(flag, problems);
}

void Settings::load_flag(const Flag& flag, Problems& problems) {
  const Origin origin{Origin::Kind::flag, flag.flag};
  const Source source{to_string(origin), origin};
  if (const auto* setting = find(flag.key))
    return take_text(*setting, flag.value, source, problems);
  const auto dot = flag.key.rfind('.');
  const auto* map = dot == flag.key.npos ? nullptr : find(flag.key.substr(0, dot));
  if (map != nullptr && map->rule.arity == Arity::map)
    return take_element(*map, flag.key.substr(dot + 1), flag.value, source, problems);
  for (const auto name : section_names())
    if (flag.key == name || flag.key.starts_with(std::string(name) + "["))
      if (std::ranges::find(sections_, name, &Section::name) == sections_.end()) {
        problems.push_back({source.where, std::string(name), "can only be set in the file"});
        return;
      }
  const auto shown = in_quotes(flag.key);
  problems.push_back({source.where, shown.substr(1, shown.size() - 2), unknown_key(flag.key)});
}

}  // namespace sluice
