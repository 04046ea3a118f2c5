// Limits and modes, changing them, and events.
#include <algorithm>
#include <cstdlib>
#include <optional>

#include "entry.h"

namespace sluice::device::nvml {

// NVML hands out a pointer to this.
struct OpaqueEventSet {
  struct Registration {
    const fake::GpuSpec* gpu;
    std::uint64_t types;
    double time;        // delivered up to here …
    std::size_t index;  // … and within one moment, up to this event
  };
  std::vector<Registration> registrations;
};

}  // namespace sluice::device::nvml

namespace sluice::fake {

namespace {

using nvml::Clock;
using Registration = nvml::OpaqueEventSet::Registration;

constexpr unsigned kLowestMhz = 210, kClockStep = 15;
constexpr std::size_t kBefore = static_cast<std::size_t>(-1);  // before the first event

std::vector<u32> memory_clocks(const GpuSpec& g) {
  std::vector<u32> all = {g.memory_mhz};
  if (g.memory_mhz > 2000) all.push_back(g.memory_mhz / 2);
  return all;
}

std::vector<u32> sm_clocks(const GpuSpec& g) {
  std::vector<u32> all;
  for (unsigned mhz = g.sm_mhz; mhz >= kLowestMhz; mhz -= kClockStep) all.push_back(mhz);
  return all;
}

bool contains(const std::vector<u32>& all, u32 value) {
  return std::find(all.begin(), all.end(), value) != all.end();
}

// Changes one setting of a GPU: f(settings, gpu) edits and answers.
template <class F>
Return changed(std::string_view call, Device d, F f) {
  return handle_call(call, d, [&](Machine& m, const GpuSpec& g) {
    if (!m.scenario().may_change) return Return::no_permission;
    Settings settings = m.settings(g);
    const Return code = f(settings, g);
    return code == Return::success ? m.change(g, settings) : code;
  });
}

bool keeps_memory_limits() {
  const auto m = machine();
  return m && std::atoi(m->scenario().driver.c_str()) >= 615;
}

Return check_range(u32 low, u32 high, unsigned lowest, unsigned highest) {
  return low <= high && low >= lowest && high <= highest ? Return::success
                                                         : Return::invalid_argument;
}

u64 kind_of(const Event& e) {
  if (e.type == EventType::xid) return nvml::event::kXid;
  if (e.type == EventType::ecc && e.uncorrected > 0) return nvml::event::kDoubleBitEcc;
  return 0;
}

struct Due {
  double time;
  std::size_t index;
};

// The first occurrence of event `index` that was not delivered yet.
std::optional<Due> next_of(const Registration& r, std::size_t index) {
  const When& when = r.gpu->events[index].when;
  std::int64_t first = 0;
  if (when.repeat_every_s > 0 && r.time > when.at_s)
    first = static_cast<std::int64_t>((r.time - when.at_s) / when.repeat_every_s);
  const std::int64_t end = when.repeat_every_s > 0 ? when.times : 1;
  for (std::int64_t k = std::max<std::int64_t>(0, first - 1); k < std::min(first + 3, end); ++k) {
    const double time = when.start_of(k);
    const bool later = time > r.time;
    const bool same = time == r.time && (r.index == kBefore || index > r.index);
    if (later || same) return Due{time, index};
  }
  return std::nullopt;
}

std::optional<Due> next_of(const Registration& r) {
  std::optional<Due> best;
  for (std::size_t i = 0; i < r.gpu->events.size(); ++i) {
    if ((kind_of(r.gpu->events[i]) & r.types) == 0) continue;
    const auto due = next_of(r, i);
    if (due && (!best || due->time < best->time)) best = due;
  }
  return best;
}

// The earliest event of the set; null when none will ever come.
Registration* earliest(nvml::OpaqueEventSet& set, std::optional<Due>& due) {
  Registration* best = nullptr;
  for (Registration& r : set.registrations) {
    const auto candidate = next_of(r);
    if (!candidate || (due && candidate->time >= due->time)) continue;
    due = candidate;
    best = &r;
  }
  return best;
}

Return wait(Machine& m, nvml::EventSetHandle set, nvml::EventData* out, u32 timeout_ms) {
  if (set == nullptr || out == nullptr) return Return::invalid_argument;
  const double began = static_cast<double>(monotonic_ns()) * 1e-9;
  for (;;) {
    std::optional<Due> due;
    Registration* r = earliest(*set, due);
    const double now = m.now_s();
    if (r != nullptr && due->time <= now) {
      const Event& e = r->gpu->events[due->index];
      r->time = due->time;
      r->index = due->index;
      *out = {Machine::handle_of(*r->gpu), kind_of(e), e.code, ~0u, ~0u};
      return Return::success;
    }
    const double waited = static_cast<double>(monotonic_ns()) * 1e-9 - began;
    const double left = timeout_ms * 1e-3 - waited;
    if (left <= 0 || m.is_frozen()) return Return::timeout;
    sleep_s(std::min({left, 0.5, r == nullptr ? left : due->time - now}));
  }
}

}  // namespace

extern "C" {

Return nvmlDeviceGetPowerManagementLimit(Device d, u32* out) {
  return handle_call(__func__, d, [&](Machine& m, const GpuSpec& g) {
    return g.power_w > 0 ? give(out, milli(m.observe(g).power_limit_w)) : Return::not_supported;
  });
}

Return nvmlDeviceGetEnforcedPowerLimit(Device d, u32* out) {
  return handle_call(__func__, d, [&](Machine& m, const GpuSpec& g) {
    return g.power_w > 0 ? give(out, milli(m.observe(g).power_limit_w)) : Return::not_supported;
  });
}

Return nvmlDeviceGetPowerManagementDefaultLimit(Device d, u32* out) {
  return handle_call(__func__, d, [&](Machine&, const GpuSpec& g) {
    return g.power_w > 0 ? give(out, milli(g.power_w)) : Return::not_supported;
  });
}

Return nvmlDeviceGetPowerManagementLimitConstraints(Device d, u32* low, u32* high) {
  return handle_call(__func__, d, [&](Machine&, const GpuSpec& g) {
    if (g.power_w <= 0) return Return::not_supported;
    give(low, milli(lowest_power_w(g)));
    return give(high, milli(highest_power_w(g)));
  });
}

Return nvmlDeviceGetPersistenceMode(Device d, u32* out) {
  return handle_call(__func__, d, [&](Machine& m, const GpuSpec& g) {
    return give(out, m.settings(g).persistence.value_or(g.persistence));
  });
}

Return nvmlDeviceGetMigMode(Device d, u32* current, u32* pending) {
  return handle_call(__func__, d, [&](Machine&, const GpuSpec& g) {
    if (!g.mig_instances) return Return::not_supported;
    give(pending, *g.mig_instances > 0);
    return give(current, *g.mig_instances > 0);
  });
}

Return nvmlDeviceGetMaxMigDeviceCount(Device d, u32* out) {
  return handle_call(
      __func__, d, [&](Machine&, const GpuSpec& g) { return give(out, g.mig_instances ? 7 : 0); });
}

Return nvmlDeviceGetMigDeviceHandleByIndex(Device d, u32 index, Device* out) {
  return handle_call(__func__, d, [&](Machine&, const GpuSpec& g) {
    return index < g.mig_instances.value_or(0) ? give(out, d) : Return::not_found;
  });
}

// Limits of control groups, which are folders; drivers of r615 and later, and not with MIG.
Return nvmlDeviceSetMemoryLimits_v1(Device d, nvml::SetMemoryLimitsV1* limits) {
  if (!keeps_memory_limits()) return Return::function_not_found;
  return changed(__func__, d, [&](Settings& s, const GpuSpec& g) {
    if (g.mig_instances.value_or(0) > 0) return Return::not_supported;
    if (limits == nullptr || limits->group == nullptr || limits->group[0] != '/' ||
        limits->soft > limits->hard)
      return Return::invalid_argument;
    s.memory_limits[limits->group] = {limits->soft, limits->hard};
    return Return::success;
  });
}

Return nvmlDeviceGetMemoryLimits_v1(Device d, nvml::GetMemoryLimitsV1* limits) {
  if (!keeps_memory_limits()) return Return::function_not_found;
  return handle_call(__func__, d, [&](Machine& m, const GpuSpec& g) {
    if (limits == nullptr || limits->group == nullptr) return Return::invalid_argument;
    const auto all = m.settings(g).memory_limits;
    const auto set = all.find(limits->group);
    if (set == all.end()) return Return::not_found;
    limits->soft = set->second.first, limits->hard = set->second.second, limits->used = 0;
    return Return::success;
  });
}

Return nvmlDeviceSetPersistenceMode(Device d, u32 on) {
  return changed(__func__, d, [&](Settings& s, const GpuSpec&) {
    s.persistence = on != 0;
    return Return::success;
  });
}

Return nvmlDeviceSetPowerManagementLimit(Device d, u32 milliwatts) {
  return changed(__func__, d, [&](Settings& s, const GpuSpec& g) {
    if (g.power_w <= 0) return Return::not_supported;
    s.power_limit_w = milliwatts / 1000.0;
    return check_range(milliwatts, milliwatts, milli(lowest_power_w(g)), milli(highest_power_w(g)));
  });
}

Return nvmlDeviceSetGpuLockedClocks(Device d, u32 low, u32 high) {
  return changed(__func__, d, [&](Settings& s, const GpuSpec& g) {
    if (g.compute_major < 7) return Return::not_supported;
    s.sm_lock = std::pair(low, high);
    return check_range(low, high, kLowestMhz, g.sm_mhz);
  });
}

Return nvmlDeviceResetGpuLockedClocks(Device d) {
  return changed(__func__, d, [&](Settings& s, const GpuSpec&) {
    s.sm_lock.reset();
    return Return::success;
  });
}

Return nvmlDeviceSetMemoryLockedClocks(Device d, u32 low, u32 high) {
  return changed(__func__, d, [&](Settings& s, const GpuSpec& g) {
    if (g.compute_major < 8) return Return::not_supported;
    s.memory_lock = std::pair(low, high);
    return check_range(low, high, kLowestMhz, g.memory_mhz);
  });
}

Return nvmlDeviceResetMemoryLockedClocks(Device d) {
  return changed(__func__, d, [&](Settings& s, const GpuSpec&) {
    s.memory_lock.reset();
    return Return::success;
  });
}

Return nvmlDeviceGetApplicationsClock(Device d, Clock clock, u32* out) {
  return handle_call(__func__, d, [&](Machine& m, const GpuSpec& g) {
    if (!g.ecc) return Return::not_supported;
    const auto set = m.settings(g).application_clocks.value_or(std::pair(g.memory_mhz, g.sm_mhz));
    return give(out, clock == Clock::memory ? set.first : set.second);
  });
}

Return nvmlDeviceGetDefaultApplicationsClock(Device d, Clock clock, u32* out) {
  return handle_call(__func__, d, [&](Machine&, const GpuSpec& g) {
    if (!g.ecc) return Return::not_supported;
    return give(out, clock == Clock::memory ? g.memory_mhz : g.sm_mhz);
  });
}

Return nvmlDeviceSetApplicationsClocks(Device d, u32 memory_mhz, u32 sm_mhz) {
  return changed(__func__, d, [&](Settings& s, const GpuSpec& g) {
    if (!g.ecc) return Return::not_supported;
    if (!contains(memory_clocks(g), memory_mhz) || !contains(sm_clocks(g), sm_mhz))
      return Return::invalid_argument;
    s.application_clocks = std::pair(memory_mhz, sm_mhz);
    return Return::success;
  });
}

Return nvmlDeviceResetApplicationsClocks(Device d) {
  return changed(__func__, d, [&](Settings& s, const GpuSpec& g) {
    s.application_clocks.reset();
    return g.ecc ? Return::success : Return::not_supported;
  });
}

Return nvmlDeviceGetSupportedMemoryClocks(Device d, u32* count, u32* out) {
  return handle_call(__func__, d, [&](Machine&, const GpuSpec& g) {
    return give_list(memory_clocks(g), count, out);
  });
}

Return nvmlDeviceGetSupportedGraphicsClocks(Device d, u32 memory_mhz, u32* count, u32* out) {
  return handle_call(__func__, d, [&](Machine&, const GpuSpec& g) {
    if (!contains(memory_clocks(g), memory_mhz)) return Return::not_found;
    return give_list(sm_clocks(g), count, out);
  });
}

Return nvmlEventSetCreate(nvml::EventSetHandle* out) {
  return handle_call(__func__, [&](Machine&) {
    if (out == nullptr) return Return::invalid_argument;
    *out = new nvml::OpaqueEventSet;
    return Return::success;
  });
}

Return nvmlEventSetFree(nvml::EventSetHandle set) {
  delete set;
  return Return::success;
}

Return nvmlDeviceGetSupportedEventTypes(Device d, u64* out) {
  return handle_call(__func__, d, [&](Machine&, const GpuSpec& g) {
    if (!g.reports_memory) return Return::not_supported;  // Jetson
    const u64 ecc = nvml::event::kSingleBitEcc | nvml::event::kDoubleBitEcc;
    return give(out, nvml::event::kXid | (g.ecc ? ecc : 0));
  });
}

// Only what happens from now on is delivered, as with the real driver.
Return nvmlDeviceRegisterEvents(Device d, u64 types, nvml::EventSetHandle set) {
  return handle_call(__func__, d, [&](Machine& m, const GpuSpec& g) {
    if (set == nullptr) return Return::invalid_argument;
    set->registrations.push_back({&g, types, m.now_s(), kBefore});
    return Return::success;
  });
}

Return nvmlEventSetWait_v2(nvml::EventSetHandle set, nvml::EventData* out, u32 timeout_ms) {
  return handle_call(__func__, [&](Machine& m) { return wait(m, set, out, timeout_ms); });
}

Return nvmlEventSetWait(nvml::EventSetHandle set, nvml::EventData* out, u32 timeout_ms) {
  return handle_call(__func__, [&](Machine& m) { return wait(m, set, out, timeout_ms); });
}

}  // extern "C"

}  // namespace sluice::fake
