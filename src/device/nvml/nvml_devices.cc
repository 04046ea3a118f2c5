// Describes the driver, enumerates devices and reads their static properties and NVLinks.
#include <fstream>

#include "device/nvml/nvml_functions.h"

namespace sluice::device {

namespace {

using nvml::Device;
using nvml::Return;

constexpr std::uint32_t kTextSize = 96;

template <class Call>
Answer<std::string> text(Call call) {
  char buffer[kTextSize] = {};
  const Return code = call(buffer, kTextSize);
  buffer[kTextSize - 1] = '\0';
  return {code, code == Return::success ? std::string(buffer) : std::string()};
}

struct CoresOfSm {
  int major, minor;
  unsigned cores;
};

constexpr CoresOfSm kCoresOfSm[] = {
    {3, -1, 192}, {5, -1, 128}, {6, 0, 64},    {6, -1, 128},  {7, -1, 64},   {8, 0, 64},
    {8, -1, 128}, {9, -1, 128}, {10, -1, 128}, {11, -1, 128}, {12, -1, 128},
};

// The only node of a PCI function's memory; the kernel writes -1 for "none".
Answer<int> sysfs_numa_node(const std::string& bus) {
  std::ifstream in("/sys/bus/pci/devices/" + bus + "/numa_node");
  int node = -1;
  if (!(in >> node) || node < 0) return {Return::not_found, 0};
  return {Return::success, node};
}

}  // namespace

unsigned nvml::cores_per_sm(int compute_major, int compute_minor) noexcept {
  for (const CoresOfSm& row : kCoresOfSm)
    if (row.major == compute_major && (row.minor == compute_minor || row.minor < 0))
      return row.cores;
  return 0;
}

Answer<std::string> Nvml::driver_version() const { return text(nvml_->driver_version); }
Answer<std::string> Nvml::nvml_version() const { return text(nvml_->nvml_version); }

Answer<std::pair<int, int>> Nvml::cuda_version() const {
  int version = 0;  // 13010 is 13.1
  const Return code = nvml_->cuda_version(&version);
  return {code, {version / 1000, version % 1000 / 10}};
}

Answer<std::string> Nvml::process_name(std::int64_t pid) const {
  return text([&](char* out, std::uint32_t size) {
    return nvml_->process_name(static_cast<std::uint32_t>(pid), out, size);
  });
}

Answer<unsigned> Nvml::count() const {
  Answer<unsigned> a;
  a.code = nvml_->count(&a.value);
  return a;
}

Answer<Device> Nvml::by_index(unsigned index) const {
  Answer<Device> a;
  a.code = nvml_->by_index(index, &a.value);
  return a;
}

Answer<Device> Nvml::by_uuid(const std::string& uuid) const {
  Answer<Device> a;
  a.code = nvml_->by_uuid(uuid.c_str(), &a.value);
  return a;
}

Answer<Device> Nvml::by_bus(const std::string& bus) const {
  Answer<Device> a;
  a.code = nvml_->by_bus(bus.c_str(), &a.value);
  return a;
}

Answer<std::string> Nvml::uuid(Device device) const {
  return text([&](char* out, std::uint32_t size) { return nvml_->uuid(device, out, size); });
}

Answer<std::string> Nvml::name(Device device) const {
  return text([&](char* out, std::uint32_t size) { return nvml_->name(device, out, size); });
}

Answer<std::string> Nvml::bus(Device device) const {
  nvml::PciInfo pci{};
  const Return code = nvml_->pci(device, &pci);
  pci.bus_id[sizeof pci.bus_id - 1] = '\0';
  return {code, code == Return::success ? nvml::normalize_bus(pci.bus_id) : std::string()};
}

Answer<unsigned> Nvml::minor_number(Device device) const {
  Answer<unsigned> a;
  a.code = nvml_->minor_number(device, &a.value);
  return a;
}

Answer<std::pair<int, int>> Nvml::compute_capability(Device device) const {
  Answer<std::pair<int, int>> a;
  a.code = nvml_->capability(device, &a.value.first, &a.value.second);
  return a;
}

// NVML counts cores, not SMs; how many cores make an SM follows from the
// architecture.
Answer<unsigned> Nvml::sm_count(Device device) const {
  Answer<unsigned> a;
  a.code = nvml_->cores(device, &a.value);
  if (!a) return a;
  const auto capability = compute_capability(device);
  if (!capability) return {capability.code, 0};
  const unsigned per_sm = nvml::cores_per_sm(capability.value.first, capability.value.second);
  if (per_sm == 0) return {Return::not_supported, 0};
  a.value /= per_sm;
  return a;
}

Answer<int> Nvml::numa_node(Device device) const {
  unsigned long nodes[16] = {};  // a bit per node
  if (nvml_->affinity(device, 16, nodes, nvml::kAffinityScopeNode) == Return::success) {
    int found = -1, how_many = 0;
    for (int bit = 0; bit < static_cast<int>(8 * sizeof nodes); ++bit) {
      constexpr int kWord = 8 * sizeof(unsigned long);
      if ((nodes[bit / kWord] >> (bit % kWord) & 1) == 0) continue;
      found = bit;
      ++how_many;
    }
    if (how_many == 1) return {Return::success, found};
  }
  const auto where = bus(device);
  return where ? sysfs_numa_node(where.value) : Answer<int>{where.code, 0};
}

Answer<bool> Nvml::nvlink_active(Device device, unsigned link) const {
  std::uint32_t active = 0;
  const Return code = nvml_->link_state(device, link, &active);
  return {code, active != 0};
}

Answer<unsigned> Nvml::nvlink_version(Device device, unsigned link) const {
  constexpr unsigned kVersions[] = {0, 1, 2, 2, 3, 3, 4, 5, 6};  // NVML's enum to NVLink's name
  std::uint32_t version = 0;
  const Return code = nvml_->link_version(device, link, &version);
  if (code != Return::success) return {code, 0};
  if (version == 0 || version >= std::size(kVersions)) return {Return::no_data, 0};
  return {code, kVersions[version]};
}

Answer<std::string> Nvml::nvlink_peer_bus(Device device, unsigned link) const {
  nvml::PciInfo pci{};
  const Return code = nvml_->link_peer(device, link, &pci);
  pci.bus_id[sizeof pci.bus_id - 1] = '\0';
  return {code, code == Return::success ? nvml::normalize_bus(pci.bus_id) : std::string()};
}

}  // namespace sluice::device
