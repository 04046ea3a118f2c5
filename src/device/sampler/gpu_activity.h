// Counts this process's concurrent users of a GPU, so that a benchmark knows whether it ran alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "base/clock.h"
#include "base/mutex.h"

namespace sluice::device {

// Thread-safe.
class GpuActivity {
 public:
  // The one of a device, by CUDA's number; it lives as long as the process.
  static GpuActivity& of(int device);

  // A call that is on the device until the end of the scope.
  class Working {
   public:
    explicit Working(GpuActivity& on) noexcept : on_(on) {
      ++on_.working_;
      ++on_.begun_;
    }
    ~Working() { --on_.working_; }
    Working(const Working&) = delete;
    Working& operator=(const Working&) = delete;

   private:
    GpuActivity& on_;
  };

  // Calls `measure` while no other thread measures: once the device is idle or `timeout` is over,
  // and twice again where other work ran meanwhile. True: the last time it was alone. Without a
  // timeout it is called once.
  bool alone(const std::function<void()>& measure, Seconds timeout);

 private:
  void wait_until_idle(Seconds timeout) const;

  std::atomic<int> working_{0};
  std::atomic<std::uint64_t> begun_{0};
  Mutex measuring_;
};

}  // namespace sluice::device
