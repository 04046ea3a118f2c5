// The words of an alert: what, for how long, why and what to do.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "watch/alert.h"
#include "watch/alerts/alert_subject.h"

namespace sluice::watch {

// One look at a rule's metric.
struct Sighting {
  double value;     // as read
  double measured;  // what is held against the threshold: the value, a percentage or a growth
  std::optional<double> baseline;
  Instant at;
  std::optional<Instant> since;  // of growth: when it began
};

std::span<const std::string_view> placeholders() noexcept;
std::vector<std::string> unknown_placeholders(std::string_view text);

// `text` with its placeholders replaced.
std::string fill(std::string_view text, const Rule& rule, const Subject& subject,
                 const Sighting& seen, double lasted_s);

// The rule's own words filled in; of a rule that has none, words of ours: an alert is never
// without.
std::string cause_of(const Rule& rule, const Subject& subject, const Sighting& seen,
                     double lasted_s);
std::string fix_of(const Rule& rule, const Subject& subject, const Sighting& seen, double lasted_s);

// "NVIDIA H200 0000:04:00.0: temperature 84 C, above 80 C for 12 s"
std::string summary_of(const Rule& rule, const Subject& subject, const Sighting& seen,
                       double lasted_s);

// "temperature is 74 C again"
std::string recovery_of(const Rule& rule, const Sighting& seen);

}  // namespace sluice::watch
