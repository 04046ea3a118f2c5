// Measures the cost of sampling and scales the intervals to keep it within
// its budget.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>

#include "base/clock.h"
#include "device/nvml/nvml.h"
#include "device/sampler/sampler_protocol.h"

namespace sluice::device {

inline constexpr double kMaxIntervalScale = 30;

// The next factor on the sampling intervals, given the share of a core or of the
// driver that was used with the present one. Grows at once, by at most 4; shrinks
// slowly and only with headroom, so that it does not oscillate.
double next_interval_scale(double interval_scale, double share, double budget) noexcept;

// Tracks one thread's driver call in progress and its totals. The thread itself is
// the observer; any thread may read.
class CallWatch final : public CallObserver {
 public:
  void before(const char* function) noexcept override;
  void after(const char* function, nvml::Return code, Steady::duration took) noexcept override;

  struct Call {
    const char* function;
    Instant since;
  };
  std::optional<Call> now() const noexcept;
  std::uint64_t calls() const noexcept { return calls_; }
  std::uint64_t errors() const noexcept { return errors_; }
  double driver_s() const noexcept { return static_cast<double>(driver_ns_) * 1e-9; }

 private:
  std::atomic<const char*> function_{nullptr};
  std::atomic<std::int64_t> since_ns_{0};
  std::atomic<std::uint64_t> calls_{0}, errors_{0};
  // A call counts for a tenth of a second at most: asking less often does not
  // cure a driver that hangs.
  std::atomic<std::int64_t> driver_ns_{0};
};

// Seconds since the process began. The early ones are part of the others: for lists of
// processes that a caller waited for. They are bounded where they are read, and scaling up
// the intervals would make that caller wait.
struct Spent {
  double cpu_s = 0, driver_s = 0;
  double early_cpu_s = 0, early_driver_s = 0;
};

// Shares over the last minute, and the interval scale that follows. For one thread.
class CostMeter {
 public:
  // `window_s` is how long every tier of samples needs to come round at the present
  // interval scale. The first call sets the zero.
  void add(Instant now, const Spent& spent, double budget, double window_s);

  double core_share() const noexcept { return core_share_; }
  double driver_share() const noexcept { return driver_share_; }
  double interval_scale() const noexcept { return interval_scale_; }

 private:
  struct Point {
    Instant at;
    Spent spent;
  };
  std::deque<Point> minute_;
  std::optional<Point> judged_;
  double core_share_ = 0, driver_share_ = 0, interval_scale_ = 1;
};

}  // namespace sluice::device
