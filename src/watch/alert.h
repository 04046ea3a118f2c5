// Alert rules: when a reading has been wrong for long enough, and right again for
// long enough. The rule is pure; the monitor feeds it and delivers the result.
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
  std::string name;         // "gpu-temperature"
  std::string metric;       // a metric name, or "memory_percent", "health"
  std::string condition;    // "above", "below", "drops_percent": against its own last hour
  double threshold = 0;
  double clear = 0;         // hysteresis: over again only past this value
  double for_s = 10;        // must hold this long to fire
  Severity severity = Severity::warning;
  std::string cause, fix;   // shown with the alert
};

std::vector<Rule> default_rules();

// All problems of a rule set, each naming rule and field; empty means usable.
std::vector<std::string> problems(std::span<const Rule> rules);

struct Alert {
  std::string id;           // rule + "/" + device
  std::string rule, device, device_name;
  Severity severity;
  double value = 0, threshold = 0;
  std::string summary;      // "H200 0000:04:00.0: temperature 84 C, above 80 C for 12 s"
  std::string cause, fix;
  WallTime since{};
  std::optional<WallTime> resolved;
  std::optional<WallTime> silenced_until;
};

std::string_view to_string(Severity severity) noexcept;
Json to_json(const Alert& alert);

}  // namespace sluice::watch
