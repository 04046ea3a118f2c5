// Evaluates a metric for a rule: its value, or its change against its own past.
#pragma once

#include <optional>
#include <vector>

#include "device/reading.h"
#include "memory/alloc/growth.h"
#include "watch/alert.h"
#include "watch/alerts/alert_text.h"
#include "watch/trend.h"

namespace sluice::watch {

// The memory a condition needs, for one rule on one device.
class Measure {
 public:
  // The value compared with the threshold; nothing while the past is too short to
  // compare with. The same reading may be given again. `active`: its alert fires.
  std::optional<Sighting> take(const Rule& rule, const device::Timed& reading, bool active);

 private:
  double growth(const device::Timed& reading);
  bool take_slope(const Rule& rule, const device::Timed& reading, bool active, Sighting& seen);

  Baseline baseline_;
  std::optional<memory::GrowthWindow> window_;
  std::optional<Instant> growing_since_;
  std::vector<device::Timed> changes_;  // of a counter, within the window and one before it
  std::optional<Instant> newest_;
};

bool breached(const Rule& rule, double measured) noexcept;
bool cleared(const Rule& rule, double measured) noexcept;

}  // namespace sluice::watch
