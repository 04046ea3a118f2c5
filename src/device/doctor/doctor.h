// Checks whether this machine can run Sluice and names the fix for each failure.
//
// gather() looks at the machine once; diagnose() judges what was seen and is a
// pure function, so every rule is tested without the machine it is about.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "device/demo/demo.h"
#include "device/gpu.h"
#include "device/gpu_code.h"
#include "device/sysfs.h"

namespace sluice::device {

// One NVIDIA GPU, as far as its fitness goes. Absent: the card has no such thing.
struct GpuFacts {
  std::string uuid, bus, name;
  std::string silence;  // why it does not answer; empty when it does
  std::optional<std::pair<int, int>> compute;
  std::optional<std::uint64_t> memory_total;
  std::optional<bool> persistence;
  std::optional<bool> ecc_enabled, ecc_pending;
  std::optional<std::uint64_t> ecc_uncorrected;  // since the driver was loaded
  std::optional<bool> rows_pending, rows_failed;
  std::optional<std::uint64_t> throttle;  // bits, see throttle_names()
  std::optional<double> temperature;      // C
  std::optional<int> recovery_action;     // NVML's; 0 is none
};

struct LibraryFacts {
  std::string name;     // "cuDNN"
  std::string version;  // "9.13.0"; empty when it did not load
  std::string problem;  // why not
  bool of_driver;       // comes with the driver: nothing works without it
};

struct NodeFacts {
  std::string path;     // "/dev/nvidia0"
  bool exists, usable;  // usable: we may read and write it
};

// A part that was not looked at is absent, and its check is left out.
struct Facts {
  std::vector<std::string> nvidia_cards;  // PCI buses of NVIDIA GPUs, whatever the driver says
  std::vector<std::string> other_gpus;    // names of GPUs of other vendors
  bool module_loaded = false;
  std::string module_version;               // of the kernel module
  std::string library_version;              // of libnvidia-ml's file
  std::string nvml_problem;                 // why NVML does not start; empty when it does
  std::string list_problem;                 // why it does not list its GPUs; else empty
  std::string driver_version;               // as NVML says
  std::optional<std::pair<int, int>> cuda;  // highest the driver supports
  std::vector<GpuFacts> gpus;
  std::optional<GpuCode> code;  // of this binary
  std::optional<std::vector<LibraryFacts>> libraries;
  std::optional<std::vector<NodeFacts>> nodes;

  std::optional<std::string> container;  // "docker", "kubernetes", …; empty for none
  std::optional<std::string> nvidia_visible, cuda_visible, capabilities;  // environment
  Cpu cpu;
  std::optional<std::uint64_t> memory_used;  // of the group that limits us
  std::string cache_dir;
  std::optional<std::uint64_t> cache_free;     // bytes; absent when it cannot be made or written
  std::optional<std::uint64_t> shared_memory;  // size of /dev/shm
};

enum class Verdict { pass, warn, fail };

struct Check {
  std::string id;  // stable, for scripts: "driver-version"
  std::string title;
  Verdict status = Verdict::pass;
  std::string detail;  // what was seen
  std::string fix;     // what to do; empty for a pass
};

// The checks that apply, most basic first.
std::vector<Check> diagnose(const Facts& facts);

struct DoctorOptions {
  Path root = "/";
  std::string demo;  // a scenario: the GPUs are the fake library's, the rest is this machine
  DemoOptions demo_options;
  std::chrono::milliseconds timeout = std::chrono::seconds(20);  // with the NVIDIA driver
  std::string cache_dir;
  std::vector<std::string> library_dirs;  // looked in after the loader's own places
  std::optional<std::string> nvidia_visible, cuda_visible, capabilities;
};

// Throws invalid_argument for an unknown scenario, and nothing for what it finds. A
// driver that hangs is a finding; the thread that asked it stays behind (see
// driver_timeout.h).
Facts gather(const DoctorOptions& options);

const char* to_string(Verdict verdict) noexcept;
Json to_json(const std::vector<Check>& checks);  // {"checks": […], "summary": {…}}
bool any_failed(const std::vector<Check>& checks) noexcept;

// -1, 0 or 1 as `a` is older than, the same as or newer than `b`: "535.86.10".
int compare_versions(std::string_view a, std::string_view b) noexcept;

}  // namespace sluice::device
