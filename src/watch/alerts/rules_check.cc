// Validates a set of rules.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/nearest.h"
#include "watch/alert.h"
#include "watch/alerts/alert_text.h"

namespace sluice::watch {

namespace {

std::vector<std::string_view> known_metrics() {
  std::vector<std::string_view> names;
  for (const auto& d : derived_metrics()) names.push_back(d.name);
  for (const auto& m : device::metrics()) names.push_back(m.name);
  return names;
}

class Checker {
 public:
  Checker(std::span<const Rule> rules, std::vector<RuleProblem>& found)
      : rules_(rules), found_(found) {}

  void check_all() {
    for (index_ = 0; index_ < rules_.size(); ++index_) {
      const Rule& rule = rules_[index_];
      check_name(rule);
      check_words(rule);
      check_numbers(rule);
      check_text("cause", rule.cause);
      check_text("fix", rule.fix);
    }
  }

 private:
  void add(const std::string& field, const std::string& what) {
    const std::string& name = rules_[index_].name;
    const auto who =
        name.empty() ? fmt::format("alert {}", index_ + 1) : fmt::format("alert '{}'", name);
    found_.push_back({index_, field, fmt::format("{}: {} {}", who, field, what)});
  }

  void check_name(const Rule& rule) {
    const auto ok = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    };
    if (rule.name.empty())
      add("name", "is missing");
    else if (rule.name.size() > 64 || !std::ranges::all_of(rule.name, ok))
      add("name", "may have a-z, 0-9, '-', '_' and '.', at most 64 of them");
    else if (!names_.insert(rule.name).second)
      add("name", "is used twice");
  }

  void check_words(const Rule& rule) {
    if (rule.metric.empty()) {
      add("metric", "is missing");
    } else if (!scope_of(rule.metric)) {
      const auto names = known_metrics();
      add("metric",
          fmt::format("'{}' is unknown{}", rule.metric, did_you_mean(rule.metric, names)));
    }
    if (rule.condition.empty())
      add("condition", "is missing");
    else if (std::ranges::find(conditions(), rule.condition) == conditions().end())
      add("condition", fmt::format("'{}' is unknown{}; known are above, below, drops_percent, "
                                   "rises_percent, increases and grows",
                                   rule.condition, did_you_mean(rule.condition, conditions())));
    if (rule.device.empty()) add("device", "is empty; '*' means any");
  }

  void check_numbers(const Rule& rule) {
    for (const auto& [field, value] : {std::pair{"threshold", rule.threshold},
                                       {"clear", rule.clear},
                                       {"for_s", rule.for_s},
                                       {"window_s", rule.window_s}})
      if (!std::isfinite(value)) return add(field, "is not a finite number");
    const bool below = rule.condition == "below";
    if (below ? rule.clear < rule.threshold : rule.clear > rule.threshold)
      add("clear", fmt::format("({}) must not be {} threshold ({}): the alert would be over before "
                               "it began",
                               rule.clear, below ? "below" : "above", rule.threshold));
    if (rule.for_s < 0 || rule.for_s > 86400)
      add("for_s", fmt::format("({}) must be from 0 to 86400 seconds", rule.for_s));
    if (rule.window_s < 4 || rule.window_s > 86400)
      add("window_s", fmt::format("({}) must be from 4 to 86400 seconds", rule.window_s));
    check_threshold(rule);
  }

  void check_threshold(const Rule& rule) {
    const bool falls = rule.condition == "drops_percent";
    if ((falls || rule.condition == "rises_percent") && rule.threshold <= 0)
      add("threshold", fmt::format("({}) must be more than 0 percent", rule.threshold));
    if (falls && rule.threshold >= 100)
      add("threshold", fmt::format("({}) can never be passed: nothing drops by more than 100 %",
                                   rule.threshold));
    if ((rule.condition == "increases" || rule.condition == "grows") && rule.threshold < 0)
      add("threshold", fmt::format("({}) must not be negative", rule.threshold));
    if (rule.condition == "above" && unit_of(rule.metric) == "percent" && rule.threshold >= 100)
      add("threshold", fmt::format("({}) can never be passed: {} ends at 100 percent",
                                   rule.threshold, rule.metric));
  }

  void check_text(const std::string& field, const std::string& text) {
    for (const auto& name : unknown_placeholders(text))
      add(field, fmt::format("has unknown '{{{}}}'{}", name, did_you_mean(name, placeholders())));
  }

  std::span<const Rule> rules_;
  std::vector<RuleProblem>& found_;
  std::set<std::string> names_;
  std::size_t index_ = 0;
};

}  // namespace

std::vector<RuleProblem> rule_problems(std::span<const Rule> rules) {
  std::vector<RuleProblem> found;
  Checker(rules, found).check_all();
  return found;
}

std::vector<std::string> problems(std::span<const Rule> rules) {
  std::vector<std::string> messages;
  for (auto& p : rule_problems(rules)) messages.push_back(std::move(p.message));
  return messages;
}

}  // namespace sluice::watch
