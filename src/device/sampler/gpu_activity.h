// Who works on a GPU within this process, so that a measurement knows whether it was alone there.
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

  // Calls `measure` while nobody else measures: once the device is idle or `patience` is over, and
  // twice again where somebody worked meanwhile. True: the last time it was alone. Without
  // patience it is called once.
  bool alone(const std::function<void()>& measure, Seconds patience);

 private:
  void wait_until_idle(Seconds patience) const;

  std::atomic<int> working_{0};
  std::atomic<std::uint64_t> begun_{0};
  Mutex measuring_;
};

}  // namespace sluice::device
