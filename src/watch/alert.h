// Alert rules and alerts as plain values: when a reading has been wrong for long
// enough, and right again for long enough. alert_engine.h applies them,
// rules_json.h reads and writes them, docs/alerts.md explains them to people.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "device/metric.h"

namespace sluice::watch {

enum class Severity { info, warning, critical };

struct Rule {
  std::string name;       // "gpu-temperature"
  std::string metric;     // a metric name or one of derived_metrics()
  std::string condition;  // one of conditions()
  double threshold = 0;   // breached strictly past this
  double clear = 0;       // hysteresis: over again only at or past this value
  double for_s = 10;      // must hold this long to fire, and be over this long to resolve
  Severity severity = Severity::warning;
  // Shown with the alert. "{device}", "{bus}", "{value}", "{threshold}", "{baseline}",
  // "{for}", "{process}", "{health_cause}", "{health_fix}", "{xid}", "{throttle}",
  // "{sampler}", "{driver_cause}", "{driver_fix}", "{history}", "{leases}", "{owner}", "{growth}",
  // "{since}" and "{promised}" are filled in when it fires.
  std::string cause, fix;
  std::string device = "*";  // any of its scope, or one uuid or bus; an owner's name or id
  bool enabled = true;
  double window_s = 600;  // over which "grows" judges

  bool operator==(const Rule&) const = default;
};

// "above", "below"; "drops_percent", "rises_percent": against the median of its
// own last hour; "increases": grew within the last ten minutes, for counters; "grows": by so
// much a minute along a rising line, see memory::GrowthWindow.
std::span<const std::string_view> conditions() noexcept;

// Metrics a rule may use besides those of device/metric.h: values the
// engine works out from a snapshot.
struct DerivedMetric {
  std::string_view name;
  std::string_view unit;
  device::Scope scope;
  std::string_view help;
};
std::span<const DerivedMetric> derived_metrics() noexcept;

// "percent", "celsius", … or "" for either kind of metric.
std::string_view unit_of(std::string_view metric) noexcept;
// Returns nothing for an unknown name.
std::optional<device::Scope> scope_of(std::string_view metric) noexcept;

std::vector<Rule> default_rules();

// One thing wrong with a set of rules; `index` is the rule's place in it.
struct RuleProblem {
  std::size_t index;
  std::string field;    // "threshold"
  std::string message;  // "alert 'hot': clear (90) must not be above threshold (80)"
};
std::vector<RuleProblem> rule_problems(std::span<const Rule> rules);

// All problems of a rule set, each naming rule and field; empty means usable.
std::vector<std::string> problems(std::span<const Rule> rules);

struct Alert {
  std::string id;  // rule + "/" + device
  std::string rule, device, device_name;
  Severity severity;
  double value = 0, threshold = 0;
  std::string summary;  // "NVIDIA H200 0000:04:00.0: temperature 84 C, above 80 C for 12 s"
  std::string cause, fix;
  WallTime since{};
  std::optional<WallTime> resolved;
  std::string resolved_because;  // "back to 74 C", "the GPU is lost"; empty while active
  std::optional<WallTime> silenced_until;
  std::string unit;  // of value and threshold
};

std::string_view to_string(Severity severity) noexcept;
std::optional<Severity> find_severity(std::string_view name) noexcept;

// "84 C", "91.2 %", "12.1 GiB"
std::string with_unit(double value, std::string_view unit);

// "2026-11-15T03:00:00.000Z"
std::string iso_time(WallTime t);

Json to_json(const Alert& alert);
std::optional<Alert> alert_from_json(const Json& json);  // nothing when it is no alert

}  // namespace sluice::watch
