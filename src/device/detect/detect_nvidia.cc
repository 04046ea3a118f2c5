#include "device/detect/detect_nvidia.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "device/sysfs.h"

namespace sluice::device {

namespace {

using nvml::Clock;
using nvml::Return;

void read_identity(const Nvml& nvml, nvml::Device device, Gpu& gpu) {
  gpu.bus = nvml.bus(device).value;
  gpu.name = nvml.name(device).value;
  if (const auto memory = nvml.memory(device)) {
    gpu.memory_total = memory.value.total;
    gpu.memory_free = memory.value.free;
    gpu.memory_used = memory.value.used;
    gpu.memory_reserved = memory.value.reserved;
  }
  if (const auto capability = nvml.compute_capability(device)) {
    gpu.compute_major = capability.value.first;
    gpu.compute_minor = capability.value.second;
  }
  gpu.driver_version = nvml.driver_version().value;
  if (const auto cuda = nvml.cuda_version()) {
    gpu.cuda_major = cuda.value.first;
    gpu.cuda_minor = cuda.value.second;
  }
  gpu.sm_count = nvml.sm_count(device).optional();
  gpu.numa_node = nvml.numa_node(device).optional();
}

void read_settings(const Nvml& nvml, nvml::Device device, Gpu& gpu) {
  gpu.persistence = nvml.persistence(device).optional();
  gpu.clocks = {nvml.clock_mhz(device, Clock::sm).optional(),
                nvml.clock_mhz(device, Clock::memory).optional(),
                nvml.max_clock_mhz(device, Clock::sm).optional(),
                nvml.max_clock_mhz(device, Clock::memory).optional()};
  gpu.power.current_w = nvml.power_limit_w(device).optional();
  gpu.power.enforced_w = nvml.enforced_power_limit_w(device).optional();
  gpu.power.default_w = nvml.default_power_limit_w(device).optional();
  if (const auto range = nvml.power_range(device)) {
    gpu.power.min_w = range.value.min_w;
    gpu.power.max_w = range.value.max_w;
  }
  if (const auto ecc = nvml.ecc_mode(device)) gpu.ecc = {ecc.value.current, ecc.value.pending};
  if (const auto mig = nvml.mig_mode(device))
    gpu.mig = Mig{mig.value.current, mig.value.current ? nvml.mig_instances(device).value : 0};
}

void read_links(const Nvml& nvml, nvml::Device device, Gpu& gpu) {
  for (unsigned link = 0; link < nvml::kMaxNvLinks; ++link) {
    const auto active = nvml.nvlink_active(device, link);
    if (!active) return;
    gpu.nvlinks.push_back({link, active.value, nvml.nvlink_version(device, link).optional(),
                           active.value ? nvml.nvlink_peer_bus(device, link).value : ""});
  }
}

void add_catalogue(Gpu& gpu) {
  gpu.card = find_card(gpu.name, gpu.memory_total);
  const PrecisionChoice choice = gpu.card ? recommend(gpu.card->peaks)
                                          : recommend_for_capability(gpu.compute_major.value_or(0),
                                                                     gpu.compute_minor.value_or(0));
  gpu.recommended_precision = choice.precision;
  gpu.recommended_because = choice.because;
}

}  // namespace

PrecisionChoice recommend_for_capability(int major, int minor) noexcept {
  if (major >= 8)
    return {Precision::bf16, "not in the catalogue; its architecture has bf16 tensor cores"};
  if (major == 7)
    return {Precision::fp16,
            "not in the catalogue; its architecture runs fp16 at least twice as "
            "fast as fp32"};
  if (major == 6 && minor != 1)
    return {Precision::fp16,
            "not in the catalogue; its architecture runs fp16 twice as fast as "
            "fp32"};
  return {Precision::fp32, "not in the catalogue; its architecture has no fast fp16"};
}

Gpu describe_nvidia(const Nvml& nvml, nvml::Device device) {
  const auto uuid = nvml.uuid(device);
  if (!uuid)
    throw Error(Code::unavailable,
                fmt::format("it does not report its UUID: {}", nvml::describe(uuid.code)));
  Gpu gpu{};
  gpu.vendor = Vendor::nvidia;
  gpu.uuid = uuid.value;
  read_identity(nvml, device, gpu);
  read_settings(nvml, device, gpu);
  read_links(nvml, device, gpu);
  add_catalogue(gpu);
  return gpu;
}

std::vector<Gpu> detect_nvidia(const Nvml& nvml, std::vector<std::string>& notes) {
  std::vector<Gpu> gpus;
  const auto count = nvml.count();
  if (!count) {
    notes.push_back(fmt::format("NVIDIA: cannot list GPUs: {}", nvml::describe(count.code)));
    return gpus;
  }
  if (count.value == 0) notes.push_back("NVIDIA: the driver is loaded but has no GPU");
  for (unsigned i = 0; i < count.value; ++i) {
    const auto device = nvml.by_index(i);
    if (!device) {
      notes.push_back(fmt::format("NVIDIA: one of {} GPUs does not answer: {}", count.value,
                                  nvml::describe(device.code)));
      continue;
    }
    try {
      gpus.push_back(describe_nvidia(nvml, device.value));
    } catch (const Error& e) {
      const auto bus = nvml.bus(device.value);
      notes.push_back(fmt::format("NVIDIA: the GPU {} is left out: {}",
                                  bus ? "at " + bus.value : "of unknown place", e.what()));
    }
  }
  std::sort(gpus.begin(), gpus.end(), [](const Gpu& a, const Gpu& b) { return a.bus < b.bus; });
  return gpus;
}

bool has_nvidia_driver() {
  std::error_code ignored;
  const auto exists = [&](const char* path) { return std::filesystem::exists(path, ignored); };
  const bool hardware = !nvidia_cards("/").empty() || exists("/proc/driver/nvidia/version") ||
                        exists("/dev/nvidiactl");
  return hardware && Nvml::is_installed();
}

std::string unusable_nvidia(const std::vector<std::string>& cards, std::string_view reason) {
  if (cards.empty()) return fmt::format("NVIDIA: {}", reason);
  return fmt::format("NVIDIA: the GPU{} at {} cannot be used: {}", cards.size() == 1 ? "" : "s",
                     fmt::join(cards, ", "), reason);
}

}  // namespace sluice::device
