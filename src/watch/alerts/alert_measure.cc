#include "watch/alerts/alert_measure.h"

#include <algorithm>

namespace sluice::watch {

namespace {

constexpr double kGrowthWindow_s = 600;

double seconds_of(Instant t) { return Seconds(t.time_since_epoch()).count(); }

}  // namespace

std::optional<Sighting> Measure::take(const Rule& rule, const device::Timed& reading, bool active) {
  Sighting seen{reading.value, reading.value, {}, reading.at, {}};
  const bool drops = rule.condition == "drops_percent";
  if (drops || rule.condition == "rises_percent") {
    const double t = seconds_of(reading.at);
    if (newest_ != reading.at) baseline_.add(t, reading.value);
    newest_ = reading.at;
    const auto normal = baseline_.reference(t);
    if (!normal || *normal <= 0) return std::nullopt;
    const double change = 100 * (reading.value - *normal) / *normal;
    seen.baseline = normal;
    seen.measured = drops ? -change : change;
  } else if (rule.condition == "increases") {
    seen.measured = growth(reading);
  } else if (rule.condition == "grows" && !take_slope(rule, reading, active, seen)) {
    return std::nullopt;
  }
  return seen;
}

// False while the window has too little. A minute's growth is what people can picture.
bool Measure::take_slope(const Rule& rule, const device::Timed& reading, bool active,
                         Sighting& seen) {
  if (!window_) window_.emplace(rule.window_s);
  const double t = seconds_of(reading.at);
  if (newest_ != reading.at) window_->add(t, reading.value);
  newest_ = reading.at;
  const auto per_s = window_->growth_per_s(active);
  if (!per_s) return false;
  seen.measured = *per_s * 60;
  if (seen.measured <= rule.clear)
    growing_since_.reset();
  else if (!growing_since_)
    growing_since_ =
        reading.at - std::chrono::duration_cast<Instant::duration>(Seconds(t - window_->since()));
  seen.since = growing_since_;
  return true;
}

// A counter that falls was reset (a driver reload): growth starts anew.
double Measure::growth(const device::Timed& reading) {
  if (!changes_.empty() && reading.value < changes_.back().value) changes_.clear();
  if (changes_.empty() || reading.value > changes_.back().value) changes_.push_back(reading);
  const auto inside = std::ranges::find_if(changes_, [&](const device::Timed& c) {
    return seconds_between(c.at, reading.at) < kGrowthWindow_s;
  });
  if (inside - changes_.begin() > 1) changes_.erase(changes_.begin(), inside - 1);
  return reading.value - changes_.front().value;
}

bool breached(const Rule& rule, double measured) noexcept {
  return rule.condition == "below" ? measured < rule.threshold : measured > rule.threshold;
}

bool cleared(const Rule& rule, double measured) noexcept {
  return rule.condition == "below" ? measured >= rule.clear : measured <= rule.clear;
}

}  // namespace sluice::watch
