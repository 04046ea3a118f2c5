// Reads and changes the limits, modes and clocks of a device that persist until they are changed.
#include "device/nvml/nvml_functions.h"
#include "device/nvml/nvml_list.h"

namespace sluice::device {

namespace {

using nvml::Device;
using nvml::Return;

Answer<double> from_milliwatts(Return code, std::uint32_t milliwatts) {
  return {code, milliwatts * 1e-3};
}

}  // namespace

Answer<double> Nvml::power_limit_w(Device device) const {
  std::uint32_t milliwatts = 0;
  const Return code = nvml_->power_limit(device, &milliwatts);
  return from_milliwatts(code, milliwatts);
}

Answer<double> Nvml::enforced_power_limit_w(Device device) const {
  std::uint32_t milliwatts = 0;
  const Return code = nvml_->enforced_limit(device, &milliwatts);
  return from_milliwatts(code, milliwatts);
}

Answer<double> Nvml::default_power_limit_w(Device device) const {
  std::uint32_t milliwatts = 0;
  const Return code = nvml_->default_limit(device, &milliwatts);
  return from_milliwatts(code, milliwatts);
}

Answer<PowerRange> Nvml::power_range(Device device) const {
  std::uint32_t low = 0, high = 0;
  const Return code = nvml_->power_range(device, &low, &high);
  return {code, {low * 1e-3, high * 1e-3}};
}

Answer<bool> Nvml::persistence(Device device) const {
  std::uint32_t on = 0;
  const Return code = nvml_->persistence(device, &on);
  return {code, on != 0};
}

Answer<EnabledPending> Nvml::ecc_mode(Device device) const {
  std::uint32_t current = 0, pending = 0;
  const Return code = nvml_->ecc_mode(device, &current, &pending);
  return {code, {current != 0, pending != 0}};
}

Answer<EnabledPending> Nvml::mig_mode(Device device) const {
  std::uint32_t current = 0, pending = 0;
  const Return code = nvml_->mig_mode(device, &current, &pending);
  return {code, {current != 0, pending != 0}};
}

Answer<unsigned> Nvml::mig_instances(Device device) const {
  std::uint32_t slots = 0;
  const Return code = nvml_->max_mig(device, &slots);
  if (code != Return::success) return {code, 0};
  Answer<unsigned> a{code, 0};
  for (std::uint32_t i = 0; i < slots; ++i) {
    Device instance = nullptr;
    if (nvml_->mig_device(device, i, &instance) == Return::success) ++a.value;
  }
  return a;
}

Answer<MemoryLimits> Nvml::memory_limits(Device device, const std::string& group) const {
  nvml::GetMemoryLimitsV1 limits{group.c_str(), 0, 0, 0};
  const Return code = nvml_->memory_limits(device, &limits);
  return {code, {limits.soft, limits.hard, limits.used}};
}

nvml::Return Nvml::set_memory_limits(Device device, const std::string& group, std::uint64_t soft,
                                     std::uint64_t hard) const {
  nvml::SetMemoryLimitsV1 limits{group.c_str(), soft, hard};
  return nvml_->set_memory_limits(device, &limits);
}

nvml::Return Nvml::set_persistence(Device device, bool on) const {
  return nvml_->set_persistence(device, on ? 1 : 0);
}

nvml::Return Nvml::set_power_limit_w(Device device, double watts) const {
  if (!(watts > 0 && watts < 1e6)) return Return::invalid_argument;
  return nvml_->set_power_limit(device, static_cast<std::uint32_t>(watts * 1000 + 0.5));
}

nvml::Return Nvml::lock_sm_clock(Device device, unsigned min_mhz, unsigned max_mhz) const {
  return nvml_->lock_sm(device, min_mhz, max_mhz);
}

nvml::Return Nvml::unlock_sm_clock(Device device) const { return nvml_->unlock_sm(device); }

nvml::Return Nvml::lock_memory_clock(Device device, unsigned min_mhz, unsigned max_mhz) const {
  return nvml_->lock_memory(device, min_mhz, max_mhz);
}

nvml::Return Nvml::unlock_memory_clock(Device device) const { return nvml_->unlock_memory(device); }

Answer<unsigned> Nvml::application_clock_mhz(Device device, nvml::Clock clock) const {
  Answer<unsigned> a;
  a.code = nvml_->app_clock(device, clock, &a.value);
  return a;
}

Answer<unsigned> Nvml::default_application_clock_mhz(Device device, nvml::Clock clock) const {
  Answer<unsigned> a;
  a.code = nvml_->app_default(device, clock, &a.value);
  return a;
}

nvml::Return Nvml::set_application_clocks(Device device, unsigned memory_mhz,
                                          unsigned sm_mhz) const {
  return nvml_->set_app_clocks(device, memory_mhz, sm_mhz);
}

nvml::Return Nvml::reset_application_clocks(Device device) const {
  return nvml_->reset_app_clocks(device);
}

Answer<std::vector<unsigned>> Nvml::supported_memory_clocks(Device device) const {
  return list_items<unsigned>(
      [&](std::uint32_t* n, unsigned* out) { return nvml_->memory_clocks(device, n, out); });
}

Answer<std::vector<unsigned>> Nvml::supported_sm_clocks(Device device, unsigned memory_mhz) const {
  return list_items<unsigned>([&](std::uint32_t* n, unsigned* out) {
    return nvml_->sm_clocks(device, memory_mhz, n, out);
  });
}

}  // namespace sluice::device
