#include "device/detect/detect_amd.h"

#include <fmt/core.h>

#include <algorithm>

#include "device/detect/amd_smi.h"
#include "device/detect/drm.h"

namespace sluice::device {

namespace {

constexpr unsigned kAmd = 0x1002;

std::string name_of(const DrmCard& card, const Path& root) {
  if (auto name = read_line(card.device / "product_name")) return *name;
  if (auto name = pci_name(root, card.vendor, card.id)) return "AMD " + *name;
  return fmt::format("AMD GPU {:04x}", card.id);
}

void read_memory(const DrmCard& card, Gpu& gpu) {
  gpu.memory_total = read_size(card.device / "mem_info_vram_total");
  gpu.memory_used = read_size(card.device / "mem_info_vram_used");
  if (gpu.memory_total && gpu.memory_used && *gpu.memory_used <= *gpu.memory_total)
    gpu.memory_free = *gpu.memory_total - *gpu.memory_used;
}

// pp_dpm_sclk: "0: 500Mhz", one level per line, the current one ends with "*".
void read_clock(const Path& file, std::optional<unsigned>& now, std::optional<unsigned>& max_mhz) {
  const auto text = read_text(file).value_or("");
  for (const auto line : split(text, '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const auto level = line.substr(colon + 1);
    const auto mhz = to_int(level.substr(0, level.find_first_of("Mm")));
    if (!mhz || *mhz < 0) continue;
    const auto value = static_cast<unsigned>(*mhz);
    max_mhz = std::max(max_mhz.value_or(0), value);
    if (level.find('*') != std::string_view::npos) now = value;
  }
}

void read_power(const DrmCard& card, Gpu& gpu) {
  const auto hwmon = hwmon_of(card);
  if (!hwmon) return;
  gpu.power.current_w = gpu.power.enforced_w = read_watts(*hwmon / "power1_cap");
  gpu.power.default_w = read_watts(*hwmon / "power1_cap_default");
  gpu.power.min_w = read_watts(*hwmon / "power1_cap_min");
  gpu.power.max_w = read_watts(*hwmon / "power1_cap_max");
}

Gpu describe(const DrmCard& card, const Path& root) {
  Gpu gpu{};
  gpu.vendor = Vendor::amd;
  gpu.bus = card.bus;
  const auto unique = read_line(card.device / "unique_id");
  gpu.uuid = "AMD-" + unique.value_or(card.bus);
  gpu.name = name_of(card, root);
  gpu.driver_version = driver_version(root, card.driver);
  gpu.numa_node = numa_of(card);
  read_memory(card, gpu);
  read_clock(card.device / "pp_dpm_sclk", gpu.clocks.sm_mhz, gpu.clocks.sm_max_mhz);
  read_clock(card.device / "pp_dpm_mclk", gpu.clocks.memory_mhz, gpu.clocks.memory_max_mhz);
  read_power(card, gpu);
  return gpu;
}

void add_from_library(const AmdDevice& device, Gpu& gpu) {
  if (!device.uuid.empty()) gpu.uuid = device.uuid;
  if (!device.name.empty()) gpu.name = device.name;
  if (!device.driver.empty()) gpu.driver_version = device.driver;
  if (!gpu.memory_total) gpu.memory_total = device.memory_total;
}

}  // namespace

Found detect_amd(const Path& root, const std::string& library) {
  Found found;
  for (const auto& card : drm_cards(root, kAmd)) {
    if (card.driver.empty())
      found.notes.push_back("AMD: " + card.bus + " has no driver bound; load amdgpu");
    found.gpus.push_back(describe(card, root));
  }
  if (!found.gpus.empty() && !library.empty()) {
    const auto smi = ask_amd_smi(library);
    if (!smi.problem.empty()) found.notes.push_back("AMD: " + smi.problem + "; read from sysfs");
    for (const auto& device : smi.devices)
      for (auto& gpu : found.gpus)
        if (gpu.bus == device.bus) add_from_library(device, gpu);
  }
  for (auto& gpu : found.gpus) list_only(gpu);
  return found;
}

}  // namespace sluice::device
