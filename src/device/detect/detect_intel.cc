#include "device/detect/detect_intel.h"

#include <fmt/core.h>

#include "device/detect/drm.h"

namespace sluice::device {

namespace {

constexpr unsigned kIntel = 0x8086;

std::string intel_name(const DrmCard& card, const Path& root) {
  if (auto name = pci_name(root, card.vendor, card.id)) return "Intel " + *name;
  return fmt::format("Intel GPU {:04x}", card.id);
}

// A card's own memory. xe publishes it per tile; i915 only in Intel's own builds
// of it; integrated graphics has none and shares the machine's.
std::optional<std::uint64_t> local_memory(const DrmCard& card) {
  if (auto bytes = read_size(card.card / "lmem_total_bytes")) return bytes;
  std::uint64_t sum = 0;
  for (const auto& tile : numbered(card.device, "tile"))
    sum += read_size(card.device / tile / "physical_vram_size_bytes").value_or(0);
  return sum > 0 ? std::optional(sum) : std::nullopt;
}

std::optional<unsigned> first_mhz(std::initializer_list<Path> files) {
  for (const auto& file : files)
    if (const auto mhz = read_int(file); mhz && *mhz > 0) return static_cast<unsigned>(*mhz);
  return std::nullopt;
}

void read_clocks(const DrmCard& card, Gpu& gpu) {
  const auto xe = card.device / "tile0/gt0/freq0";
  const auto gt = card.card / "gt/gt0";
  gpu.clocks.sm_mhz =
      first_mhz({xe / "act_freq", gt / "rps_act_freq_mhz", card.card / "gt_act_freq_mhz"});
  gpu.clocks.sm_max_mhz =
      first_mhz({xe / "rp0_freq", gt / "rps_RP0_freq_mhz", card.card / "gt_RP0_freq_mhz"});
}

void read_intel_power(const DrmCard& card, Gpu& gpu) {
  const auto hwmon = hwmon_of(card);
  if (!hwmon) return;
  gpu.power.current_w = gpu.power.enforced_w = read_watts(*hwmon / "power1_max");
  gpu.power.default_w = read_watts(*hwmon / "power1_rated_max");
}

Gpu describe_intel(const DrmCard& card, const Path& root) {
  Gpu gpu{};
  gpu.vendor = Vendor::intel;
  gpu.bus = card.bus;
  gpu.uuid = "INTEL-" + card.bus;
  gpu.name = intel_name(card, root);
  gpu.driver_version = driver_version(root, card.driver);
  gpu.memory_total = local_memory(card);
  gpu.numa_node = numa_of(card);
  read_clocks(card, gpu);
  read_intel_power(card, gpu);
  list_only(gpu);
  return gpu;
}

}  // namespace

Found detect_intel(const Path& root) {
  Found found;
  for (const auto& card : drm_cards(root, kIntel)) {
    if (card.driver.empty())
      found.notes.push_back("Intel: " + card.bus + " has no driver bound; load i915 or xe");
    found.gpus.push_back(describe_intel(card, root));
    if (!found.gpus.back().memory_total)
      found.notes.push_back("Intel: " + card.bus + " has no memory of its own that sysfs shows");
  }
  return found;
}

}  // namespace sluice::device
