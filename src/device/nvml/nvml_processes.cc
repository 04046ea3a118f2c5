// Reads the processes of a device and waits for its events.
#include <algorithm>
#include <array>
#include <cstring>

#include "device/nvml/nvml_functions.h"
#include "device/nvml/nvml_list.h"

namespace sluice::device {

namespace {

using nvml::Device;
using nvml::ProcessInfo;
using nvml::Return;

constexpr std::size_t kWideEntry = sizeof(nvml::ProcessInfo535);
constexpr std::uint32_t kMaxPid = 1u << 22;  // the kernel's limit
constexpr std::uint32_t kNoInstance = 0xffffffff;

bool is_plausible(const ProcessInfo& p) {
  const auto is_instance = [](std::uint32_t i) { return i < 64 || i == kNoInstance; };
  const bool memory_ok =
      p.used_memory < (std::uint64_t{1} << 50) || p.used_memory == nvml::kNotAvailable;
  return p.pid > 0 && p.pid <= kMaxPid && memory_ok && is_instance(p.gpu_instance) &&
         is_instance(p.compute_instance);
}

std::vector<ProcessInfo> read_entries(std::span<const std::byte> bytes, std::size_t count,
                                      std::size_t stride) {
  std::vector<ProcessInfo> entries(count);
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(&entries[i], bytes.data() + i * stride, sizeof(ProcessInfo));
  return entries;
}

Answer<std::vector<ProcessInfo>> list_processes(const nvml::Functions::List& list, Device device) {
  std::uint32_t capacity = 0;
  std::vector<std::byte> buffer;
  for (int attempt = 0; attempt < kListTries; ++attempt) {
    std::uint32_t count = capacity;
    const Return code = list(device, &count, capacity == 0 ? nullptr : buffer.data());
    if (code == Return::success)
      return {code, nvml::parse_processes(buffer, std::min(count, capacity))};
    if (code != Return::insufficient_size) return {code, {}};
    capacity = std::max(count, capacity) * 2 + 8;
    buffer.assign(capacity * kWideEntry, std::byte{0});
  }
  return {Return::insufficient_size, {}};
}

}  // namespace

std::vector<ProcessInfo> nvml::parse_processes(std::span<const std::byte> bytes,
                                               std::size_t count) {
  count = std::min(count, bytes.size() / kWideEntry);
  auto entries = read_entries(bytes, count, sizeof(ProcessInfo));
  if (std::all_of(entries.begin(), entries.end(), is_plausible)) return entries;
  auto wide = read_entries(bytes, count, kWideEntry);
  if (std::all_of(wide.begin(), wide.end(), is_plausible)) return wide;
  std::erase_if(entries, [](const ProcessInfo& p) { return !is_plausible(p); });
  return entries;
}

Answer<std::vector<RunningProcess>> Nvml::processes(Device device) const {
  struct Source {
    ProcessKind kind;
    const nvml::Functions::List &newest, &older;
  };
  const Source sources[] = {{ProcessKind::compute, nvml_->compute, nvml_->compute_v2},
                            {ProcessKind::graphics, nvml_->graphics, nvml_->graphics_v2},
                            {ProcessKind::mps, nvml_->mps, nvml_->mps_v2}};
  Answer<std::vector<RunningProcess>> all{Return::not_supported, {}};
  for (const Source& source : sources) {
    auto list = list_processes(source.newest, device);
    if (list.code == Return::function_not_found) list = list_processes(source.older, device);
    if (!list) {
      if (!all && all.value.empty()) all.code = list.code;
      continue;
    }
    all.code = Return::success;
    for (const ProcessInfo& p : list.value) {
      const bool is_known = p.used_memory != nvml::kNotAvailable;
      all.value.push_back(
          {p.pid, source.kind, is_known ? std::optional(p.used_memory) : std::nullopt});
    }
  }
  return all;
}

Answer<std::vector<nvml::ProcessSample>> Nvml::process_utilization(Device device,
                                                                   std::uint64_t since_us) const {
  auto samples = list_items<nvml::ProcessSample>([&](std::uint32_t* n, nvml::ProcessSample* out) {
    return nvml_->process_utilization(device, out, n, since_us);
  });
  if (samples.code == Return::not_found) return {Return::success, {}};  // idle
  std::erase_if(samples.value, [](const nvml::ProcessSample& s) {
    return s.pid == 0 || s.sm > 100 || s.memory > 100;
  });
  return samples;
}

Answer<EventSet> Nvml::event_set() const {
  nvml::EventSetHandle handle = nullptr;
  const Return code = nvml_->create_set(&handle);
  if (code != Return::success) return {code, {}};
  return {code, EventSet(nvml_.get(), handle)};
}

EventSet::~EventSet() {
  if (handle_ != nullptr) functions_->free_set(handle_);
}

Answer<std::uint64_t> EventSet::add(Device device, std::uint64_t mask) {
  if (handle_ == nullptr) return {Return::uninitialized, 0};
  std::uint64_t supported = 0;
  const Return code = functions_->supported_events(device, &supported);
  if (code != Return::success) return {code, 0};
  if ((mask & supported) == 0) return {Return::not_supported, 0};
  return {functions_->register_events(device, mask & supported, handle_), mask & supported};
}

Answer<nvml::EventData> EventSet::wait(std::uint32_t timeout_ms) {
  if (handle_ == nullptr) return {Return::uninitialized, {}};
  Answer<nvml::EventData> a;
  a.code = functions_->wait_v2(handle_, &a.value, timeout_ms);
  if (a.code == Return::function_not_found)
    a.code = functions_->wait(handle_, &a.value, timeout_ms);
  return a;
}

}  // namespace sluice::device
