#include "watch/alerts/rules_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>

#include "base/error.h"
#include "base/nearest.h"

namespace sluice::watch {

namespace {

// Reads one value into a rule. Returns what is wrong with it, or "".
using Read = std::string (*)(const Json&, Rule&);

template <std::string Rule::*member>
std::string read_text(const Json& json, Rule& rule) {
  if (!json.is_string()) return "must be a text";
  rule.*member = json.get<std::string>();
  return "";
}

template <double Rule::*member>
std::string read_number(const Json& json, Rule& rule) {
  if (!json.is_number()) return "must be a number";
  rule.*member = json.get<double>();
  return "";
}

std::string read_severity(const Json& json, Rule& rule) {
  const auto found = json.is_string() ? find_severity(json.get<std::string>()) : std::nullopt;
  if (!found) return "must be one of info, warning, critical";
  rule.severity = *found;
  return "";
}

std::string read_enabled(const Json& json, Rule& rule) {
  if (!json.is_boolean()) return "must be true or false";
  rule.enabled = json.get<bool>();
  return "";
}

struct FieldInfo {
  std::string_view name;
  std::string_view type;  // of the JSON schema
  Read read;
  std::string_view help;
};

constexpr FieldInfo kFields[] = {
    {"name", "string", read_text<&Rule::name>, "a default rule's name changes that rule"},
    {"metric", "string", read_text<&Rule::metric>, "what is watched"},
    {"condition", "string", read_text<&Rule::condition>, "how it is held against the threshold"},
    {"threshold", "number", read_number<&Rule::threshold>, "the alert begins past this"},
    {"clear", "number", read_number<&Rule::clear>, "and is over at or past this"},
    {"for_s", "number", read_number<&Rule::for_s>, "seconds it must hold to begin and to end"},
    {"severity", "string", read_severity, "how urgent it is"},
    {"cause", "string", read_text<&Rule::cause>,
     "shown with the alert; may name {device} and so on"},
    {"fix", "string", read_text<&Rule::fix>, "what a person can do about it"},
    {"device", "string", read_text<&Rule::device>,
     "a GPU's uuid or bus, an owner's name; * means any"},
    {"enabled", "boolean", read_enabled, "false turns a rule off"},
    {"window_s", "number", read_number<&Rule::window_s>, "seconds over which grows judges"},
};

std::vector<std::string_view> field_names() {
  std::vector<std::string_view> names;
  for (const auto& f : kFields) names.push_back(f.name);
  return names;
}

std::string who(const Json& entry, std::size_t index) {
  const bool named = entry.is_object() && entry.contains("name") && entry["name"].is_string();
  return named ? fmt::format("alert '{}'", entry["name"].get<std::string>())
               : fmt::format("alert {}", index + 1);
}

// The fields of `entry` over `rule`.
void read_entry(const Json& entry, std::size_t index, Rule& rule, std::vector<RuleProblem>& found) {
  for (const auto& item : entry.items()) {
    const std::string& key = item.key();
    const auto add = [&](const std::string& what) {
      found.push_back({index, key, fmt::format("{}: {} {}", who(entry, index), key, what)});
    };
    const auto field = std::ranges::find(kFields, key, &FieldInfo::name);
    if (field == std::end(kFields))
      add("is unknown" + did_you_mean(key, field_names()));
    else if (const auto wrong = field->read(item.value(), rule); !wrong.empty())
      add(wrong);
  }
}

// See the header: the distance between threshold and clear is kept.
void settle_clear(const Json& entry, const Rule& before, bool is_new, Rule& rule) {
  if (entry.contains("clear")) return;
  if (is_new || before.condition != rule.condition)
    rule.clear = rule.threshold;
  else if (entry.contains("threshold"))
    rule.clear = rule.threshold + (before.clear - before.threshold);
}

// One entry over `rules`. Returns the place of its rule, or nothing when it is none.
std::optional<std::size_t> apply(const Json& entry, std::size_t index, std::vector<Rule>& rules,
                                 const std::set<std::size_t>& taken,
                                 std::vector<RuleProblem>& found) {
  if (!entry.is_object()) {
    found.push_back({index, "", fmt::format("alert {} must be a table of fields", index + 1)});
    return std::nullopt;
  }
  const bool named = entry.contains("name") && entry["name"].is_string();
  const auto known =
      std::ranges::find(rules, named ? entry["name"].get<std::string>() : "", &Rule::name);
  auto place = static_cast<std::size_t>(known - rules.begin());
  const bool is_new = place == rules.size() || taken.contains(place);  // twice: checked later
  if (is_new) place = rules.size(), rules.emplace_back();
  const Rule before = rules[place];
  read_entry(entry, index, rules[place], found);
  settle_clear(entry, before, is_new, rules[place]);
  return place;
}

// Returns whether a problem only follows from one that was already found.
bool follows(const RuleProblem& problem, std::span<const RuleProblem> found) {
  return std::ranges::any_of(found, [&](const RuleProblem& f) {
    return f.index == problem.index &&
           (f.field == problem.field || (problem.field == "clear" && f.field == "threshold"));
  });
}

}  // namespace

std::vector<Rule> rules_from_json(const Json& entries, std::vector<RuleProblem>& found,
                                  std::vector<Rule> base) {
  if (!entries.is_array()) {
    found.push_back({0, "", "alerts must be a list of rules"});
    return base;
  }
  std::map<std::size_t, std::size_t> entry_at;  // by the rule's place
  std::set<std::size_t> taken;
  std::vector<RuleProblem> all;
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (const auto place = apply(entries[i], i, base, taken, all))
      entry_at[*place] = i, taken.insert(*place);
  for (auto& problem : rule_problems(base)) {
    const auto entry = entry_at.find(problem.index);
    if (entry == entry_at.end()) continue;
    problem.index = entry->second;
    if (!follows(problem, all)) all.push_back(std::move(problem));
  }
  std::ranges::stable_sort(all, {}, &RuleProblem::index);
  std::ranges::move(all, std::back_inserter(found));
  return base;
}

Rule rule_from_json(const Json& json) {
  std::vector<RuleProblem> found;
  const auto rules = rules_from_json(Json::array({json}), found, {});
  if (found.empty()) return rules.at(0);
  std::string all;
  for (const auto& p : found) all += (all.empty() ? "" : "; ") + p.message;
  throw Error(Code::invalid_argument, all);
}

Json to_json(const Rule& r) {
  return Json{{"name", r.name},
              {"metric", r.metric},
              {"condition", r.condition},
              {"threshold", r.threshold},
              {"clear", r.clear},
              {"for_s", r.for_s},
              {"severity", to_string(r.severity)},
              {"cause", r.cause},
              {"fix", r.fix},
              {"device", r.device},
              {"enabled", r.enabled},
              {"window_s", r.window_s}};
}

Json rule_schema() {
  Json properties = Json::object();
  for (const auto& f : kFields)
    properties[std::string(f.name)] = {{"type", f.type}, {"description", f.help}};
  properties["name"]["pattern"] = "^[a-z0-9._-]{1,64}$";
  properties["for_s"]["minimum"] = 0;
  properties["for_s"]["maximum"] = 86400;
  properties["window_s"]["minimum"] = 4;
  properties["window_s"]["maximum"] = 86400;
  properties["severity"]["enum"] = {"info", "warning", "critical"};
  properties["condition"]["enum"] = Json::array();
  for (const auto c : conditions()) properties["condition"]["enum"].push_back(c);
  properties["metric"]["enum"] = Json::array();
  for (const auto& d : derived_metrics()) properties["metric"]["enum"].push_back(d.name);
  for (const auto& m : device::metrics()) properties["metric"]["enum"].push_back(m.name);
  return Json{{"type", "object"},
              {"required", {"name"}},
              {"additionalProperties", false},
              {"properties", std::move(properties)}};
}

}  // namespace sluice::watch
