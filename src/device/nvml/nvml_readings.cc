// Reads utilization, clocks, temperature, power, error and NVLink counters of a device. Where NVML
// renamed or versioned a query, the newest form is tried first.
#include <array>
#include <cmath>

#include "device/nvml/nvml_functions.h"

namespace sluice::device {

namespace {

using nvml::Device;
using nvml::Return;

constexpr double kMilli = 1e-3;

// True for the codes that mean "use the older form".
bool is_unknown_here(Return code) {
  return code == Return::function_not_found || code == Return::argument_version_mismatch ||
         code == Return::not_supported || code == Return::invalid_argument ||
         code == Return::deprecated;
}

Answer<double> scaled(Return code, std::uint64_t value, double scale) {
  return {code, static_cast<double>(value) * scale};
}

double as_double(const nvml::FieldValue& f) {
  switch (f.type) {
    case nvml::ValueType::f64: return f.value.f64;
    case nvml::ValueType::u32: return f.value.u32;
    case nvml::ValueType::ulong: return static_cast<double>(f.value.ulong);
    case nvml::ValueType::u64: return static_cast<double>(f.value.u64);
    case nvml::ValueType::i64: return static_cast<double>(f.value.i64);
    case nvml::ValueType::i32: return f.value.i32;
    case nvml::ValueType::u16: return f.value.u16;
  }
  return NAN;
}

Answer<std::uint64_t> as_count(const Answer<double>& a, double scale = 1) {
  return {a.code, a ? static_cast<std::uint64_t>(a.value * scale) : 0};
}

}  // namespace

Answer<DeviceMemory> Nvml::memory(Device device) const {
  nvml::MemoryV2 v2{};
  v2.version = nvml::version_word<nvml::MemoryV2>(2);
  const Return code = nvml_->memory_v2(device, &v2);
  if (code == Return::success) return {code, {v2.total, v2.free, v2.used, v2.reserved}};
  if (!is_unknown_here(code)) return {code, {}};
  nvml::Memory v1{};
  const Return old = nvml_->memory(device, &v1);
  return {old, {v1.total, v1.free, v1.used, std::nullopt}};
}

Answer<nvml::Utilization> Nvml::utilization(Device device) const {
  Answer<nvml::Utilization> a;
  a.code = nvml_->utilization(device, &a.value);
  return a;
}

Answer<unsigned> Nvml::clock_mhz(Device device, nvml::Clock clock) const {
  Answer<unsigned> a;
  a.code = nvml_->clock(device, clock, &a.value);
  return a;
}

Answer<unsigned> Nvml::max_clock_mhz(Device device, nvml::Clock clock) const {
  Answer<unsigned> a;
  a.code = nvml_->max_clock(device, clock, &a.value);
  return a;
}

Answer<std::uint64_t> Nvml::throttle_reasons(Device device) const {
  Answer<std::uint64_t> a;
  a.code = nvml_->event_reasons(device, &a.value);
  if (a.code == Return::function_not_found) a.code = nvml_->throttle_reasons(device, &a.value);
  return a;
}

Answer<double> Nvml::temperature(Device device) const {
  nvml::TemperatureV1 v{nvml::version_word<nvml::TemperatureV1>(1), nvml::kTemperatureSensorGpu, 0};
  const Return code = nvml_->temperature_v(device, &v);
  if (!is_unknown_here(code)) return {code, static_cast<double>(v.celsius)};
  std::uint32_t celsius = 0;
  const Return old = nvml_->temperature(device, nvml::kTemperatureSensorGpu, &celsius);
  return scaled(old, celsius, 1);
}

Answer<double> Nvml::temperature_margin(Device device) const {
  nvml::MarginTemperatureV1 margin{nvml::version_word<nvml::MarginTemperatureV1>(1), 0};
  const Return code = nvml_->margin(device, &margin);
  if (!is_unknown_here(code)) return {code, static_cast<double>(margin.celsius)};
  std::uint32_t slowdown = 0;
  const Return old = nvml_->threshold(device, nvml::Threshold::slowdown, &slowdown);
  if (old != Return::success) return {old, 0};
  const auto now = temperature(device);
  return {now.code, slowdown - now.value};
}

Answer<double> Nvml::memory_temperature(Device device) const {
  const FieldQuery query{nvml::field::kMemoryTemperature};
  auto a = fields(device, {&query, 1})[0];
  // Cards without the sensor answer 0 rather than "not supported".
  if (a && a.value <= 0) a.code = Return::not_supported;
  return a;
}

Answer<double> Nvml::fan(Device device) const {
  std::uint32_t percent = 0;
  const Return code = nvml_->fan(device, &percent);
  return scaled(code, percent, 1);
}

Answer<double> Nvml::power_w(Device device) const {
  std::uint32_t milliwatts = 0;
  const Return code = nvml_->power(device, &milliwatts);
  return scaled(code, milliwatts, kMilli);
}

Answer<double> Nvml::energy_j(Device device) const {
  std::uint64_t millijoules = 0;
  const Return code = nvml_->energy(device, &millijoules);
  return scaled(code, millijoules, kMilli);
}

Answer<std::uint64_t> Nvml::pcie_replays(Device device) const {
  std::uint32_t replays = 0;
  const Return code = nvml_->pcie_replays(device, &replays);
  return {code, replays};
}

Answer<int> Nvml::recovery_action(Device device) const {
  const FieldQuery query{nvml::field::kRecoveryAction};
  const auto a = fields(device, {&query, 1})[0];
  return {a.code, a ? static_cast<int>(a.value) : 0};
}

Answer<std::uint64_t> Nvml::ecc_errors(Device device, nvml::EccError error,
                                       nvml::EccCounter counter) const {
  Answer<std::uint64_t> a;
  a.code = nvml_->ecc_errors(device, error, counter, &a.value);
  return a;
}

Answer<RemappedRows> Nvml::remapped_rows(Device device) const {
  std::uint32_t corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  const Return code = nvml_->remapped(device, &corrected, &uncorrected, &pending, &failed);
  return {code, {corrected, uncorrected, pending != 0, failed != 0}};
}

Answer<unsigned> Nvml::retired_pages(Device device) const {
  Answer<unsigned> sum{Return::success, 0};
  for (const auto cause :
       {nvml::RetirementCause::multiple_single_bit, nvml::RetirementCause::double_bit}) {
    std::uint32_t pages = 0;  // a query without a buffer returns the size
    const Return code = nvml_->retired(device, cause, &pages, nullptr);
    if (code != Return::success && code != Return::insufficient_size) return {code, 0};
    sum.value += pages;
  }
  return sum;
}

Answer<std::uint64_t> Nvml::nvlink_errors(Device device) const {
  using namespace nvml::field;
  constexpr std::array<FieldQuery, 4> kKinds = {
      FieldQuery{kNvLinkCrcFlitTotal}, FieldQuery{kNvLinkCrcDataTotal},
      FieldQuery{kNvLinkReplayTotal}, FieldQuery{kNvLinkRecoveryTotal}};
  Answer<std::uint64_t> sum{Return::not_supported, 0};
  for (const auto& kind : fields(device, kKinds)) {
    if (kind) {
      sum.code = Return::success;
      sum.value += static_cast<std::uint64_t>(kind.value);
    } else if (!sum) {
      sum.code = kind.code;
    }
  }
  return sum;
}

Answer<std::uint64_t> Nvml::nvlink_tx_bytes(Device device) const {
  const FieldQuery query{nvml::field::kNvLinkDataTx, nvml::field::kAllLinks};
  return as_count(fields(device, {&query, 1})[0], 1024);
}

Answer<std::uint64_t> Nvml::nvlink_rx_bytes(Device device) const {
  const FieldQuery query{nvml::field::kNvLinkDataRx, nvml::field::kAllLinks};
  return as_count(fields(device, {&query, 1})[0], 1024);
}

std::vector<Answer<double>> Nvml::fields(Device device, std::span<const FieldQuery> queries) const {
  std::vector<nvml::FieldValue> values(queries.size());
  for (std::size_t i = 0; i < queries.size(); ++i) {
    values[i].field = queries[i].field;
    values[i].scope = queries[i].scope;
    values[i].code = Return::unknown;
  }
  const Return all = nvml_->fields(device, static_cast<std::int32_t>(values.size()), values.data());
  std::vector<Answer<double>> answers;
  for (const nvml::FieldValue& v : values) {
    const Return code = all == Return::success ? v.code : all;
    answers.push_back({code, code == Return::success ? as_double(v) : 0});
  }
  return answers;
}

}  // namespace sluice::device
