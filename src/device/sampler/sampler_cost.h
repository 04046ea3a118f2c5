// What sampling costs, and how far apart samples must be for it to stay within
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

inline constexpr double kLongestStretch = 30;

// The next factor on the sampling intervals, given the share of a core or of the
// driver that was used while `stretch` held. Grows at once, by at most 4; shrinks
// slowly and only when there is room to spare, so that it does not swing.
double next_stretch(double stretch, double share, double budget) noexcept;

// What one thread asks the driver now and has asked so far. The thread itself is
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
// processes that somebody waited for. They are bounded where they are read, and stretching
// the intervals would make that somebody wait.
struct Spent {
  double cpu_s = 0, driver_s = 0;
  double early_cpu_s = 0, early_driver_s = 0;
};

// Shares over the last minute, and the stretch that follows. For one thread.
class CostMeter {
 public:
  // `window_s` is how long every tier of samples needs to come round at the present
  // stretch. The first call sets the zero.
  void add(Instant now, const Spent& spent, double budget, double window_s);

  double core_share() const noexcept { return core_share_; }
  double driver_share() const noexcept { return driver_share_; }
  double stretch() const noexcept { return stretch_; }

 private:
  struct Point {
    Instant at;
    Spent spent;
  };
  std::deque<Point> minute_;
  std::optional<Point> judged_;
  double core_share_ = 0, driver_share_ = 0, stretch_ = 1;
};

}  // namespace sluice::device
