#include "device/sampler/gpu_activity.h"

#include <map>
#include <memory>
#include <thread>

namespace sluice::device {

GpuActivity& GpuActivity::of(int device) {
  static Mutex mutex;
  static auto& all = *new std::map<int, GpuActivity>;  // threads may outlive main()
  const Lock lock(mutex);
  return all[device];
}

void GpuActivity::wait_until_idle(Seconds timeout) const {
  const Instant start = Steady::now();
  while (working_ > 0 && seconds_between(start, Steady::now()) < timeout.count())
    std::this_thread::sleep_for(std::chrono::microseconds(100));
}

bool GpuActivity::alone(const std::function<void()>& measure, Seconds timeout) {
  const int tries = timeout.count() > 0 ? 3 : 1;
  const Lock lock(measuring_);
  for (int i = 0; i < tries; ++i) {
    wait_until_idle(timeout);
    const std::uint64_t begun = begun_;
    const bool idle = working_ == 0;
    measure();
    if (idle && begun == begun_ && working_ == 0) return true;
  }
  return false;
}

}  // namespace sluice::device
