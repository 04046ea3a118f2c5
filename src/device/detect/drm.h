// Graphics cards as the Linux kernel lists them in /sys/class/drm: what AMD's and
// Intel's detection share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/gpu.h"
#include "device/sysfs.h"

namespace sluice::device {

struct DrmCard {
  Path card;                    // /sys/class/drm/card0
  Path device;                  // /sys/class/drm/card0/device
  std::string bus;              // "0000:04:00.0"
  std::string driver;           // "amdgpu"; empty when none is bound
  unsigned vendor = 0, id = 0;  // PCI
};

// Display-class PCI devices of one vendor, in the order of their card numbers.
std::vector<DrmCard> drm_cards(const Path& root, unsigned vendor);

// The product's name by PCI's public list, where the machine has that file.
std::optional<std::string> pci_name(const Path& root, unsigned vendor, unsigned id);

// The folder of the card's sensors, or nothing.
std::optional<Path> hwmon_of(const DrmCard& card);

std::optional<int> numa_of(const DrmCard& card);

// Version of the driver's module; the kernel's release for one that is part of it.
std::string driver_version(const Path& root, const std::string& driver);

// hwmon speaks in microwatts.
std::optional<double> read_watts(const Path& file);

// Says of a GPU that we find but do not compute on what that means for precision.
void list_only(Gpu& gpu);

}  // namespace sluice::device
