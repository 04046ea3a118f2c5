// Loading, initialising, enumerating, and what a device is.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>

#include "base/error.h"
#include "entry.h"

namespace sluice::fake {

namespace {

struct Library {
  std::mutex mutex;
  std::shared_ptr<Machine> loaded;
  int inits = 0;
  std::string error;
};

Library& library() {
  static Library instance;
  return instance;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Empty on success, else what is wrong.
std::string load(std::string_view json, std::int64_t epoch_ns, const std::string& state_file) {
  try {
    auto fresh = std::make_shared<Machine>(parse_scenario(json), epoch_ns, state_file);
    const std::lock_guard lock(library().mutex);
    library().loaded = std::move(fresh);
    return "";
  } catch (const std::exception& e) {
    return e.what();
  }
}

// For programs that do not configure this library: the environment names the scenario.
Return load_from_environment() {
  const std::string path = variable("SLUICE_FAKE_NVML");
  std::ifstream in(path);
  if (!in) {
    std::fprintf(stderr, "fake libnvidia-ml: SLUICE_FAKE_NVML must name a scenario file; '%s'\n",
                 path.c_str());
    return Return::driver_not_loaded;
  }
  std::stringstream text;
  text << in.rdbuf();
  const std::string epoch = variable("SLUICE_FAKE_NVML_EPOCH_NS");
  const std::string problem =
      load(text.str(), epoch.empty() ? monotonic_ns() : std::atoll(epoch.c_str()),
           variable("SLUICE_FAKE_NVML_STATE"));
  if (problem.empty()) return Return::success;
  std::fprintf(stderr, "fake libnvidia-ml: %s: %s\n", path.c_str(), problem.c_str());
  return Return::driver_not_loaded;
}

bool is_loaded() {
  const std::lock_guard lock(library().mutex);
  return library().loaded != nullptr;
}

Return initialise(std::string_view call) {
  if (!is_loaded()) {
    const Return code = load_from_environment();
    if (code != Return::success) return code;
  }
  std::shared_ptr<Machine> m;
  {
    const std::lock_guard lock(library().mutex);
    m = library().loaded;
  }
  if (const Return code = m->enter(call, nullptr); code != Return::success) return code;
  if (m->scenario().init != Return::success) return m->scenario().init;
  const std::lock_guard lock(library().mutex);
  ++library().inits;
  return Return::success;
}

std::string same_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text.starts_with("00000000:") ? text.substr(4) : text;
}

void fill_pci(const std::string& bus, nvml::PciInfo& out) {
  unsigned domain = 0, number = 0, device = 0;
  std::sscanf(bus.c_str(), "%x:%x:%x", &domain, &number, &device);
  out = {};
  std::snprintf(out.bus_id_legacy, sizeof out.bus_id_legacy, "%04X:%02X:%02X.0", domain, number,
                device);
  std::snprintf(out.bus_id, sizeof out.bus_id, "%08X:%02X:%02X.0", domain, number, device);
  out.domain = domain;
  out.bus = number;
  out.device = device;
  out.pci_device_id = 0x233510de;
}

template <class Matches>
Return find_listed(std::string_view call, Device* out, Matches matches) {
  const auto m = machine();
  if (!m) return Return::uninitialized;
  if (out == nullptr) return Return::invalid_argument;
  for (const GpuSpec* gpu : m->listed()) {
    if (!matches(*gpu)) continue;
    const Return code = m->enter(call, gpu);
    if (code == Return::success) *out = Machine::handle_of(*gpu);
    return code;
  }
  return Return::not_found;
}

}  // namespace

std::shared_ptr<Machine> machine() {
  const std::lock_guard lock(library().mutex);
  return library().inits > 0 ? library().loaded : nullptr;
}

extern "C" {

// Ours, for the demo and the tests. 0 on success; else sluice_fake_nvml_error says
// why. A null state file means none.
int sluice_fake_nvml_load(const char* json, std::size_t size, std::int64_t epoch_ns,
                          const char* state_file) {
  const std::string problem = load({json, size}, epoch_ns == 0 ? monotonic_ns() : epoch_ns,
                                   state_file == nullptr ? "" : state_file);
  const std::lock_guard lock(library().mutex);
  library().error = problem;
  return problem.empty() ? 0 : 1;
}

const char* sluice_fake_nvml_error() { return library().error.c_str(); }

// Stops the scenario's clock at a second, so that a test need not wait.
void sluice_fake_nvml_freeze(double t_s) {
  if (const auto m = machine()) m->freeze(t_s);
}

// 1 passes, 0 fails, -1 no such GPU.
int sluice_fake_nvml_canary(const char* uuid) {
  const auto m = machine();
  if (!m || uuid == nullptr) return -1;
  for (const GpuSpec& gpu : m->scenario().gpus)
    if (gpu.uuid == uuid) return passes_canary(gpu, m->now_s()) ? 1 : 0;
  return -1;
}

Return nvmlInit_v2() { return initialise("nvmlInit_v2"); }
Return nvmlInitWithFlags(u32) { return initialise("nvmlInit_v2"); }

Return nvmlShutdown() {
  const std::lock_guard lock(library().mutex);
  if (library().inits == 0) return Return::uninitialized;
  --library().inits;
  return Return::success;
}

const char* nvmlErrorString(Return code) {
  return code == Return::success ? "Success" : "An error of the fake NVML";
}

Return nvmlSystemGetDriverVersion(char* out, u32 size) {
  return handle_call(__func__,
                     [&](Machine& m) { return give_text(m.scenario().driver, out, size); });
}

Return nvmlSystemGetNVMLVersion(char* out, u32 size) {
  return handle_call(__func__, [&](Machine& m) {
    return give_text(
        m.scenario().cuda.substr(0, m.scenario().cuda.find('.')) + "." + m.scenario().driver, out,
        size);
  });
}

Return nvmlSystemGetCudaDriverVersion_v2(int* out) {
  return handle_call(__func__, [&](Machine& m) {
    int major = 0, minor = 0;
    std::sscanf(m.scenario().cuda.c_str(), "%d.%d", &major, &minor);
    return give(out, major * 1000 + minor * 10);
  });
}

Return nvmlSystemGetProcessName(u32 pid, char* out, u32 size) {
  return handle_call(__func__, [&](Machine& m) {
    for (const GpuSpec& gpu : m.scenario().gpus)
      for (const ProcessSpec& p : gpu.processes)
        if (p.pid == pid && !p.name.empty()) return give_text(p.name, out, size);
    return Return::not_found;
  });
}

Return nvmlDeviceGetCount_v2(u32* out) {
  return handle_call(__func__, [&](Machine& m) { return give(out, m.listed().size()); });
}

Return nvmlDeviceGetHandleByIndex_v2(u32 index, Device* out) {
  const auto m = machine();
  if (!m) return Return::uninitialized;
  const auto listed = m->listed();
  if (index >= listed.size()) return Return::invalid_argument;
  return find_listed(__func__, out, [&](const GpuSpec& g) { return &g == listed[index]; });
}

Return nvmlDeviceGetHandleByUUID(const char* uuid, Device* out) {
  if (uuid == nullptr) return Return::invalid_argument;
  return find_listed(__func__, out, [&](const GpuSpec& g) { return g.uuid == uuid; });
}

Return nvmlDeviceGetHandleByPciBusId_v2(const char* bus, Device* out) {
  if (bus == nullptr) return Return::invalid_argument;
  return find_listed(__func__, out, [&](const GpuSpec& g) { return g.bus == same_case(bus); });
}

Return nvmlDeviceGetUUID(Device d, char* out, u32 size) {
  return handle_call(__func__, d,
                     [&](Machine&, const GpuSpec& g) { return give_text(g.uuid, out, size); });
}

Return nvmlDeviceGetName(Device d, char* out, u32 size) {
  return handle_call(__func__, d,
                     [&](Machine&, const GpuSpec& g) { return give_text(g.name, out, size); });
}

Return nvmlDeviceGetPciInfo_v3(Device d, nvml::PciInfo* out) {
  return handle_call(__func__, d, [&](Machine&, const GpuSpec& g) {
    if (out == nullptr) return Return::invalid_argument;
    fill_pci(g.bus, *out);
    return Return::success;
  });
}

Return nvmlDeviceGetMinorNumber(Device d, u32* out) {
  return handle_call(__func__, d, [&](Machine& m, const GpuSpec& g) {
    return give(out, &g - m.scenario().gpus.data());
  });
}

Return nvmlDeviceGetCudaComputeCapability(Device d, int* major, int* minor) {
  return handle_call(__func__, d, [&](Machine&, const GpuSpec& g) {
    give(minor, g.compute_minor);
    return give(major, g.compute_major);
  });
}

Return nvmlDeviceGetNumGpuCores(Device d, u32* out) {
  return handle_call(__func__, d, [&](Machine&, const GpuSpec& g) {
    return g.cores == 0 ? Return::not_supported : give(out, g.cores);
  });
}

Return nvmlDeviceGetMemoryAffinity(Device d, u32 words, unsigned long* out, u32) {
  return handle_call(__func__, d, [&](Machine&, const GpuSpec& g) {
    if (out == nullptr || words == 0) return Return::invalid_argument;
    std::fill(out, out + words, 0ul);
    out[0] = 1ul << g.numa_node;
    return Return::success;
  });
}

Return nvmlDeviceGetNvLinkState(Device d, u32 link, u32* out) {
  return handle_call(__func__, d, [&](Machine& m, const GpuSpec& g) {
    if (g.nvlinks == 0) return Return::not_supported;
    if (link >= g.nvlinks) return Return::invalid_argument;
    return give(out, (m.observe(g).links_down >> link & 1) == 0);
  });
}

Return nvmlDeviceGetNvLinkVersion(Device d, u32 link, u32* out) {
  return handle_call(__func__, d, [&](Machine&, const GpuSpec& g) {
    return link >= g.nvlinks ? Return::not_supported : give(out, g.nvlink_version);
  });
}

// The far ends are four switches, as on an HGX board.
Return nvmlDeviceGetNvLinkRemotePciInfo_v2(Device d, u32 link, nvml::PciInfo* out) {
  return handle_call(__func__, d, [&](Machine&, const GpuSpec& g) {
    if (link >= g.nvlinks || out == nullptr) return Return::invalid_argument;
    fill_pci("0000:f" + std::to_string(link % 4) + ":00.0", *out);
    return Return::success;
  });
}

}  // extern "C"

}  // namespace sluice::fake
