// The knobs of a real (or fake) NVIDIA GPU.
#include "device/tune/tune.h"

namespace sluice::device {

namespace {

using nvml::Clock;
using nvml::Return;

bool has_application_clocks(const Nvml& nvml, nvml::Device device) {
  return nvml.default_application_clock_mhz(device, Clock::memory).optional() &&
         nvml.application_clock_mhz(device, Clock::memory).optional();
}

class NvmlKnobs final : public Knobs {
 public:
  NvmlKnobs(const Nvml& nvml, nvml::Device device)
      : nvml_(nvml),
        device_(device),
        uuid_(nvml.uuid(device).value),
        application_clocks_(has_application_clocks(nvml, device)) {}

  Tuning read() override {
    Tuning now;
    now.persistence = nvml_.persistence(device_).optional();
    now.power_limit_w = nvml_.power_limit_w(device_).optional();
    now.clocks = application_clocks_ ? application_clocks() : locked_clocks();
    return now;
  }

  // Some cards leave the bus for a moment when it goes off, and the handle with them.
  Return set_persistence(bool on) override {
    const auto code = nvml_.set_persistence(device_, on);
    if (const auto again = nvml_.by_uuid(uuid_)) device_ = again.value;
    return code;
  }
  Return set_power_limit(double watts) override { return nvml_.set_power_limit_w(device_, watts); }

  Return set_clocks(ClockPair clocks) override {
    const bool automatic = clocks == ClockPair{};
    if (application_clocks_)
      return automatic ? nvml_.reset_application_clocks(device_)
                       : nvml_.set_application_clocks(device_, clocks.memory_mhz, clocks.sm_mhz);
    const auto code = automatic ? unlock() : lock(clocks);
    if (code == Return::success) locked_ = clocks;
    return code;
  }

 private:
  // The default pair is how "the driver chooses" reads.
  std::optional<ClockPair> application_clocks() const {
    const auto memory = nvml_.application_clock_mhz(device_, Clock::memory);
    const auto sm = nvml_.application_clock_mhz(device_, Clock::sm);
    if (!memory || !sm) return std::nullopt;
    const ClockPair now{memory.value, sm.value};
    const ClockPair usual{nvml_.default_application_clock_mhz(device_, Clock::memory).value,
                          nvml_.default_application_clock_mhz(device_, Clock::sm).value};
    return now == usual ? ClockPair{} : now;
  }

  // NVML cannot report a lock, only the present clock: one that is higher than
  // the lock we set shows that it did not take.
  std::optional<ClockPair> locked_clocks() const {
    if (locked_ == ClockPair{}) return locked_;
    const auto memory = nvml_.clock_mhz(device_, Clock::memory);
    const auto sm = nvml_.clock_mhz(device_, Clock::sm);
    if (!memory || !sm) return std::nullopt;
    if (memory.value > locked_.memory_mhz || sm.value > locked_.sm_mhz)
      return ClockPair{memory.value, sm.value};
    return locked_;
  }

  Return lock(ClockPair clocks) const {
    const auto sm = nvml_.lock_sm_clock(device_, clocks.sm_mhz, clocks.sm_mhz);
    if (sm != Return::success) return sm;
    return nvml_.lock_memory_clock(device_, clocks.memory_mhz, clocks.memory_mhz);
  }

  Return unlock() const {
    const auto sm = nvml_.unlock_sm_clock(device_);
    if (sm != Return::success) return sm;
    return nvml_.unlock_memory_clock(device_);
  }

  const Nvml& nvml_;
  nvml::Device device_;
  std::string uuid_;
  bool application_clocks_;
  ClockPair locked_;
};

}  // namespace

std::unique_ptr<Knobs> knobs_of(const Nvml& nvml, nvml::Device device) {
  return std::make_unique<NvmlKnobs>(nvml, device);
}

TuneLimits limits_of(const Nvml& nvml, nvml::Device device) {
  TuneLimits limits;
  if (const auto range = nvml.power_range(device)) {
    limits.min_w = range.value.min_w;
    limits.max_w = range.value.max_w;
  }
  if (const auto memory = nvml.supported_memory_clocks(device))
    for (const auto mhz : memory.value)
      limits.clocks.emplace_back(mhz, nvml.supported_sm_clocks(device, mhz).value);
  limits.clocks_readable = has_application_clocks(nvml, device);
  return limits;
}

}  // namespace sluice::device
