// Utilization, clocks, power and errors of a device.
#include <cmath>

#include "entry.h"

namespace sluice::fake {

namespace {

using nvml::Clock;

// Calls f(observed, gpu).
template <class F>
Return observed(std::string_view call, Device device, F f) {
  return handle_call(call, device,
                     [&](Machine& m, const GpuSpec& g) { return f(m.observe(g), g); });
}

Return measured_power(const GpuSpec& g, double watts, u32* out) {
  return g.power_w > 0 ? give(out, milli(watts)) : Return::not_supported;
}

bool has_hbm(const GpuSpec& g) { return g.ecc && g.compute_minor == 0; }
bool remaps_rows(const GpuSpec& g) { return g.ecc && g.compute_major >= 8; }
double link_kib(const Totals& totals) { return totals.busy_s * 40e9 / 1024; }

void give_u64(nvml::FieldValue& f, bool supported, u64 value) {
  f.code = supported ? Return::success : Return::not_supported;
  f.type = nvml::ValueType::u64;
  f.value.u64 = value;
}

void give_field(Machine& m, const GpuSpec& g, const Observed& now, nvml::FieldValue& f) {
  namespace id = nvml::field;
  const bool links = g.nvlinks > 0;
  f.timestamp_us = static_cast<std::int64_t>(now.t_s * 1e6);
  switch (f.field) {
    case id::kMemoryTemperature:
      give_u64(f, has_hbm(g), static_cast<u64>(now.temperature + 7));
      break;
    case id::kPcieReplay: give_u64(f, true, static_cast<u64>(now.pcie_replays)); break;
    case id::kNvLinkReplayTotal: give_u64(f, links, static_cast<u64>(now.nvlink_errors)); break;
    case id::kNvLinkCrcFlitTotal:
    case id::kNvLinkCrcDataTotal:
    case id::kNvLinkRecoveryTotal: give_u64(f, links, 0); break;
    case id::kNvLinkDataTx: give_u64(f, links, static_cast<u64>(link_kib(m.totals(g)))); break;
    case id::kNvLinkDataRx:
      give_u64(f, links, static_cast<u64>(0.9 * link_kib(m.totals(g))));
      break;
    case id::kPowerAverage:
    case id::kPowerInstant: give_u64(f, g.power_w > 0, milli(now.power_w)); break;
    case id::kRecoveryAction: give_u64(f, g.ecc, static_cast<u64>(now.recovery_action)); break;
    default: f.code = Return::not_supported;
  }
}

Return list_processes(std::string_view call, Device d, std::string_view kind, u32* count,
                      void* out) {
  return handle_call(call, d, [&](Machine& m, const GpuSpec& g) {
    std::vector<nvml::ProcessInfo> plain;
    std::vector<nvml::ProcessInfo535> wide;
    for (const ProcessNow& p : m.observe(g).processes) {
      if (p.spec->kind != kind) continue;
      plain.push_back({p.spec->pid, p.memory, ~0u, ~0u});
      wide.push_back({plain.back(), 0});
    }
    return m.scenario().wide_process_entries ? give_list(wide, count, out)
                                             : give_list(plain, count, out);
  });
}

}  // namespace

extern "C" {

Return nvmlDeviceGetMemoryInfo_v2(Device d, nvml::MemoryV2* out) {
  return observed(__func__, d, [&](const Observed& now, const GpuSpec& g) {
    if (out == nullptr) return Return::invalid_argument;
    if (out->version != nvml::version_word<nvml::MemoryV2>(2))
      return Return::argument_version_mismatch;
    if (!g.reports_memory) return Return::not_supported;
    *out = {out->version, g.memory_bytes, now.memory_reserved, now.memory_free, now.memory_used};
    return Return::success;
  });
}

Return nvmlDeviceGetMemoryInfo(Device d, nvml::Memory* out) {
  return observed(__func__, d, [&](const Observed& now, const GpuSpec& g) {
    if (out == nullptr) return Return::invalid_argument;
    if (!g.reports_memory) return Return::not_supported;
    *out = {g.memory_bytes, now.memory_free, now.memory_used + now.memory_reserved};
    return Return::success;
  });
}

Return nvmlDeviceGetUtilizationRates(Device d, nvml::Utilization* out) {
  return observed(__func__, d, [&](const Observed& now, const GpuSpec& g) {
    if (g.mig_instances.value_or(0) > 0) return Return::not_supported;
    return give(out, nvml::Utilization{static_cast<u32>(std::lround(now.utilization)),
                                       static_cast<u32>(std::lround(now.memory_activity))});
  });
}

Return nvmlDeviceGetClockInfo(Device d, Clock clock, u32* out) {
  return observed(__func__, d, [&](const Observed& now, const GpuSpec&) {
    return give(out, clock == Clock::memory ? now.memory_mhz : now.sm_mhz);
  });
}

Return nvmlDeviceGetMaxClockInfo(Device d, Clock clock, u32* out) {
  return handle_call(__func__, d, [&](Machine&, const GpuSpec& g) {
    return give(out, clock == Clock::memory ? g.memory_mhz : g.sm_mhz);
  });
}

Return nvmlDeviceGetCurrentClocksEventReasons(Device d, u64* out) {
  return observed(__func__, d, [&](const Observed& now, const GpuSpec&) {
    return give(out, now.throttle_bits);
  });
}

Return nvmlDeviceGetCurrentClocksThrottleReasons(Device d, u64* out) {
  return observed(__func__, d, [&](const Observed& now, const GpuSpec&) {
    return give(out, now.throttle_bits);
  });
}

Return nvmlDeviceGetTemperatureV(Device d, nvml::TemperatureV1* out) {
  return observed(__func__, d, [&](const Observed& now, const GpuSpec&) {
    if (out == nullptr) return Return::invalid_argument;
    if (out->version != nvml::version_word<nvml::TemperatureV1>(1))
      return Return::argument_version_mismatch;
    out->celsius = static_cast<std::int32_t>(std::lround(now.temperature));
    return Return::success;
  });
}

Return nvmlDeviceGetTemperature(Device d, u32, u32* out) {
  return observed(__func__, d, [&](const Observed& now, const GpuSpec&) {
    return give(out, std::lround(now.temperature));
  });
}

Return nvmlDeviceGetTemperatureThreshold(Device d, nvml::Threshold which, u32* out) {
  return handle_call(__func__, d, [&](Machine&, const GpuSpec&) {
    return give(out, which == nvml::Threshold::shutdown ? kShutdownCelsius : kSlowdownCelsius);
  });
}

Return nvmlDeviceGetMarginTemperature(Device d, nvml::MarginTemperatureV1* out) {
  return observed(__func__, d, [&](const Observed& now, const GpuSpec& g) {
    if (out == nullptr) return Return::invalid_argument;
    if (out->version != nvml::version_word<nvml::MarginTemperatureV1>(1))
      return Return::argument_version_mismatch;
    if (g.compute_major < 8) return Return::not_supported;
    out->celsius = static_cast<std::int32_t>(std::lround(kSlowdownCelsius - now.temperature));
    return Return::success;
  });
}

Return nvmlDeviceGetFanSpeed(Device d, u32* out) {
  return observed(__func__, d, [&](const Observed& now, const GpuSpec& g) {
    return g.fan ? give(out, std::lround(now.fan)) : Return::not_supported;
  });
}

Return nvmlDeviceGetPowerUsage(Device d, u32* out) {
  return observed(__func__, d, [&](const Observed& now, const GpuSpec& g) {
    return measured_power(g, now.power_w, out);
  });
}

Return nvmlDeviceGetTotalEnergyConsumption(Device d, u64* out) {
  return handle_call(__func__, d, [&](Machine& m, const GpuSpec& g) {
    if (g.compute_major < 7 || g.power_w <= 0) return Return::not_supported;
    return give(out, m.totals(g).energy_j * 1000);
  });
}

Return nvmlDeviceGetPcieReplayCounter(Device d, u32* out) {
  return observed(__func__, d,
                  [&](const Observed& now, const GpuSpec&) { return give(out, now.pcie_replays); });
}

Return nvmlDeviceGetFieldValues(Device d, std::int32_t count, nvml::FieldValue* values) {
  return handle_call(__func__, d, [&](Machine& m, const GpuSpec& g) {
    if (values == nullptr || count < 0) return Return::invalid_argument;
    const Observed now = m.observe(g);
    for (std::int32_t i = 0; i < count; ++i) give_field(m, g, now, values[i]);
    return Return::success;
  });
}

Return nvmlDeviceGetEccMode(Device d, u32* current, u32* pending) {
  return handle_call(__func__, d, [&](Machine&, const GpuSpec& g) {
    if (!g.ecc) return Return::not_supported;
    give(current, 1);
    return give(pending, 1);
  });
}

Return nvmlDeviceGetTotalEccErrors(Device d, nvml::EccError error, nvml::EccCounter counter,
                                   u64* out) {
  return observed(__func__, d, [&](const Observed& now, const GpuSpec& g) {
    if (!g.ecc) return Return::not_supported;
    const bool aggregate = counter == nvml::EccCounter::aggregate;
    if (error == nvml::EccError::uncorrected) return give(out, now.ecc_uncorrected);
    return give(out, now.ecc_corrected + (aggregate ? g.ecc_aggregate : 0));
  });
}

Return nvmlDeviceGetRemappedRows(Device d, u32* corrected, u32* uncorrected, u32* pending,
                                 u32* failed) {
  return observed(__func__, d, [&](const Observed& now, const GpuSpec& g) {
    if (!remaps_rows(g)) return Return::not_supported;
    give(corrected, now.rows_corrected);
    give(uncorrected, now.rows_uncorrected);
    give(pending, now.rows_pending);
    return give(failed, now.rows_failed);
  });
}

Return nvmlDeviceGetRetiredPages(Device d, nvml::RetirementCause cause, u32* count, u64* out) {
  return observed(__func__, d, [&](const Observed& now, const GpuSpec& g) {
    if (!g.ecc || remaps_rows(g)) return Return::not_supported;
    const bool ours = cause == nvml::RetirementCause::double_bit;
    const std::vector<u64> pages(ours ? static_cast<std::size_t>(now.retired_pages) : 0, 0x1000);
    return give_list(pages, count, out);
  });
}

Return nvmlDeviceGetNvLinkErrorCounter(Device d, u32 link, nvml::NvLinkError kind, u64* out) {
  return observed(__func__, d, [&](const Observed& now, const GpuSpec& g) {
    if (link >= g.nvlinks) return Return::not_supported;
    return give(out, link == 0 && kind == nvml::NvLinkError::replay ? now.nvlink_errors : 0);
  });
}

Return nvmlDeviceGetComputeRunningProcesses_v3(Device d, u32* count, void* out) {
  return list_processes(__func__, d, "compute", count, out);
}
Return nvmlDeviceGetComputeRunningProcesses_v2(Device d, u32* count, void* out) {
  return list_processes(__func__, d, "compute", count, out);
}
Return nvmlDeviceGetGraphicsRunningProcesses_v3(Device d, u32* count, void* out) {
  return list_processes(__func__, d, "graphics", count, out);
}
Return nvmlDeviceGetGraphicsRunningProcesses_v2(Device d, u32* count, void* out) {
  return list_processes(__func__, d, "graphics", count, out);
}
Return nvmlDeviceGetMPSComputeRunningProcesses_v3(Device d, u32* count, void* out) {
  return list_processes(__func__, d, "mps", count, out);
}
Return nvmlDeviceGetMPSComputeRunningProcesses_v2(Device d, u32* count, void* out) {
  return list_processes(__func__, d, "mps", count, out);
}

// A new sample per process each 200 ms, as a real driver keeps about six a second.
Return nvmlDeviceGetProcessUtilization(Device d, nvml::ProcessSample* out, u32* count,
                                       u64 last_seen_us) {
  return handle_call(__func__, d, [&](Machine& m, const GpuSpec& g) {
    if (g.mig_instances.value_or(0) > 0) return Return::not_supported;
    const Observed now = m.observe(g);
    const u64 stamp = 1'000'000 + static_cast<u64>(now.t_s * 5) * 200'000;
    std::vector<nvml::ProcessSample> samples;
    for (const ProcessNow& p : now.processes)
      if (stamp > last_seen_us && p.utilization >= 0.5)
        samples.push_back({p.spec->pid, stamp, static_cast<u32>(std::lround(p.utilization)),
                           static_cast<u32>(std::lround(p.utilization / 2)), 0, 0});
    return samples.empty() ? Return::not_found : give_list(samples, count, out);
  });
}

}  // extern "C"

}  // namespace sluice::fake
