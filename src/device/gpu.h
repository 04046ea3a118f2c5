// The inventory of a machine: GPUs of any vendor and the CPU, as plain values.
// A fact that could not be learned is absent; there are no sentinels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "device/catalogue.h"

namespace sluice::device {

enum class Vendor { nvidia, amd, intel, apple };

struct NvLink {
  unsigned link;
  bool active;
  std::optional<unsigned> version;
  std::string peer_bus;  // empty when unknown
};

struct Clocks {
  std::optional<unsigned> sm_mhz, memory_mhz, sm_max_mhz, memory_max_mhz;
};

struct PowerLimits {
  std::optional<double> current_w, enforced_w, default_w, min_w, max_w;
};

struct Ecc {
  std::optional<bool> enabled, pending;
};

struct Mig {
  bool enabled;
  unsigned instances;
};

// One physical GPU. Known by uuid and bus, never by index: indexes change
// between boots and differ between libraries.
struct Gpu {
  Vendor vendor;
  std::string uuid;  // "GPU-…" from NVIDIA; "AMD-<bus>" and so on where there is none
  std::string bus;   // PCI, lower case, "0000:04:00.0"; empty on Apple
  std::string name;

  std::optional<std::uint64_t> memory_total, memory_free, memory_used, memory_reserved;  // bytes
  std::optional<int> compute_major, compute_minor;
  std::string driver_version;                 // empty when unknown
  std::optional<int> cuda_major, cuda_minor;  // the highest the driver supports
  std::optional<unsigned> sm_count;
  std::optional<int> numa_node;
  std::optional<bool> persistence;
  Clocks clocks;
  PowerLimits power;
  Ecc ecc;
  std::optional<Mig> mig;
  std::vector<NvLink> nvlinks;

  std::optional<Card> card;  // from the catalogue, when the model is known
  Precision recommended_precision = Precision::fp32;
  std::string recommended_because;
};

struct Cache {
  unsigned level;
  std::string type;  // "data", "instruction", "unified"
  std::uint64_t bytes;
};

struct NumaNode {
  int node;
  std::string cpus;  // "0-15"
  std::optional<std::uint64_t> memory_total;
};

struct Cpu {
  std::string model;
  std::string architecture;                                     // "x86_64"
  unsigned sockets = 1, physical_cores = 1, logical_cores = 1;  // of the machine
  double usable_cores = 1;       // after affinity and the cgroup's CPU quota: what we may plan with
  std::string limited_by;        // "cgroup quota 2.0", "affinity 0-1", or empty
  std::vector<std::string> isa;  // lower case, e.g. "avx2", "avx512f", "amx_bf16"
  std::vector<Cache> caches;
  std::vector<NumaNode> numa;
  std::uint64_t memory_total = 0, memory_available = 0;  // bytes, of the machine
  std::optional<std::uint64_t> memory_limit;             // of our cgroup, when lower
};

// The result of detection, with notes on what could not be read and why.
struct Inventory {
  std::vector<Gpu> gpus;
  Cpu cpu;
  std::vector<std::string> notes;   // "NVIDIA: libnvidia-ml.so.1 not found; no NVIDIA driver here"
  std::string driver_trouble = {};  // why a driver that is installed does not start; else empty
};

const char* to_string(Vendor vendor) noexcept;
Json to_json(const Gpu& gpu);
Json to_json(const Cpu& cpu);
Json to_json(const Inventory& inventory);
Gpu gpu_from_json(const Json& json);  // the inverse; throws invalid_argument

}  // namespace sluice::device
