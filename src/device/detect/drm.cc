#include "device/detect/drm.h"

#include <fmt/core.h>

#include <array>
#include <fstream>
#include <system_error>

namespace sluice::device {

namespace {

constexpr std::int64_t kDisplayClass = 0x03;  // VGA, 3D and other display controllers

// The name of the folder a link points to, "" when it is no link.
std::string target_name(const Path& link) {
  std::error_code failed;
  const auto target = std::filesystem::read_symlink(link, failed);
  return failed ? std::string() : target.filename().string();
}

std::string bus_of(const Path& device) {
  const auto uevent = read_text(device / "uevent").value_or("");
  constexpr std::string_view kKey = "PCI_SLOT_NAME=";
  for (const auto line : split(uevent, '\n'))
    if (line.starts_with(kKey)) return std::string(trimmed(line.substr(kKey.size())));
  return target_name(device);
}

}  // namespace

std::vector<DrmCard> drm_cards(const Path& root, unsigned vendor) {
  std::vector<DrmCard> cards;
  const auto folder = under(root, "/sys/class/drm");
  for (const auto& name : numbered(folder, "card")) {
    DrmCard card;
    card.card = folder / name;
    card.device = card.card / "device";
    const auto found = read_int(card.device / "vendor");
    const auto kind = read_int(card.device / "class");
    if (found != vendor || (kind && *kind >> 16 != kDisplayClass)) continue;
    card.vendor = vendor;
    card.id = static_cast<unsigned>(read_int(card.device / "device").value_or(0));
    card.bus = bus_of(card.device);
    card.driver = target_name(card.device / "driver");
    cards.push_back(std::move(card));
  }
  return cards;
}

// The list: "vvvv  Vendor", then "\tdddd  Device" lines, then deeper ones.
std::optional<std::string> pci_name(const Path& root, unsigned vendor, unsigned id) {
  constexpr std::array kPlaces{"/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"};
  const auto wanted_vendor = fmt::format("{:04x}  ", vendor);
  const auto wanted_device = fmt::format("\t{:04x}  ", id);
  for (const auto* place : kPlaces) {
    std::ifstream list(under(root, place));
    bool ours = false;
    for (std::string line; std::getline(list, line);) {
      if (line.empty() || line[0] == '#') continue;
      if (line[0] != '\t') ours = line.starts_with(wanted_vendor);
      if (ours && line.starts_with(wanted_device))
        return std::string(trimmed(std::string_view(line).substr(wanted_device.size())));
    }
  }
  return std::nullopt;
}

std::optional<Path> hwmon_of(const DrmCard& card) {
  const auto folder = card.device / "hwmon";
  const auto names = numbered(folder, "hwmon");
  if (names.empty()) return std::nullopt;
  return folder / names.front();
}

std::optional<int> numa_of(const DrmCard& card) {
  const auto node = read_int(card.device / "numa_node");  // -1 for none
  return node && *node >= 0 ? std::optional(static_cast<int>(*node)) : std::nullopt;
}

std::string driver_version(const Path& root, const std::string& driver) {
  if (driver.empty()) return {};
  if (auto version = read_line(under(root, "/sys/module/" + driver + "/version"))) return *version;
  return read_line(under(root, "/proc/sys/kernel/osrelease")).value_or("");
}

std::optional<double> read_watts(const Path& file) {
  const auto microwatts = read_int(file);
  if (!microwatts || *microwatts <= 0) return std::nullopt;
  return static_cast<double>(*microwatts) / 1e6;
}

void list_only(Gpu& gpu) {
  gpu.recommended_precision = Precision::fp32;
  gpu.recommended_because =
      "Sluice computes on NVIDIA GPUs and on the CPU; this one is listed only";
}

}  // namespace sluice::device
