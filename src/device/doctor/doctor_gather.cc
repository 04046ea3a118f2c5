// Looks at the machine for the doctor. What cannot be seen stays absent.
#include <fmt/core.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "device/demo/demo.h"
#include "device/detect/detect_amd.h"
#include "device/detect/detect_intel.h"
#include "device/doctor/doctor.h"
#include "device/doctor/doctor_libraries.h"
#include "device/host/cgroup.h"
#include "device/host/cpu.h"
#include "device/nvml/driver_timeout.h"
#include "device/nvml/nvml.h"

namespace sluice::device {

namespace {

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.86.10  Wed Jul 26 …", and the
// open module says "… Open Kernel Module for x86_64  580.95.05  Release Build …".
std::string module_version(const Path& root) {
  const auto text = read_text(under(root, "/proc/driver/nvidia/version")).value_or("");
  const auto line = std::string_view(text).substr(0, text.find('\n'));
  for (const auto word : split(line, ' ')) {
    const bool number = word.find_first_not_of("0123456789.") == std::string_view::npos;
    if (number && word.find('.') != std::string_view::npos) return std::string(word);
  }
  return {};
}

std::string container_of(const Path& root) {
  std::error_code ignored;
  const auto has = [&](const char* path) {
    return std::filesystem::exists(under(root, path), ignored);
  };
  if (has("/var/run/secrets/kubernetes.io")) return "kubernetes";
  if (has("/.dockerenv")) return "docker";
  if (const auto text = read_text(under(root, "/run/.containerenv"))) return "podman";
  const auto groups = read_text(under(root, "/proc/1/cgroup")).value_or("");
  for (const auto* word : {"docker", "kubepods", "containerd", "libpod", "lxc"})
    if (groups.find(word) != std::string::npos) return word;
  const auto systemd = read_line(under(root, "/run/systemd/container"));
  return systemd.value_or("");
}

std::vector<NodeFacts> device_nodes(const Path& root, const std::vector<std::string>& cards) {
  std::vector<std::string> expected{"/dev/nvidiactl", "/dev/nvidia-uvm"};
  const auto present = numbered(under(root, "/dev"), "nvidia");
  for (const auto& name : present) expected.push_back("/dev/" + name);
  if (present.empty() && !cards.empty()) expected.push_back("/dev/nvidia0");
  std::vector<NodeFacts> nodes;
  for (const auto& path : expected) {
    const auto at = under(root, path);
    nodes.push_back({path, access(at.c_str(), F_OK) == 0, access(at.c_str(), R_OK | W_OK) == 0});
  }
  return nodes;
}

GpuFacts look_at(const Nvml& nvml, nvml::Device device) {
  GpuFacts g;
  const auto uuid = nvml.uuid(device);
  g.uuid = uuid.value;
  g.bus = nvml.bus(device).value;
  g.name = nvml.name(device).value;
  if (const auto memory = nvml.memory(device)) g.memory_total = memory.value.total;
  const auto temperature = nvml.temperature(device);
  const auto power = nvml.power_w(device);  // the query that failing drivers hang in first
  for (const auto code : {uuid.code, temperature.code, power.code})
    if (code == nvml::Return::gpu_is_lost || code == nvml::Return::reset_required)
      g.silence = nvml::describe(code);
  if (g.silence.empty() && !uuid) g.silence = nvml::describe(uuid.code);
  g.temperature = temperature.optional();
  g.compute = nvml.compute_capability(device).optional();
  g.persistence = nvml.persistence(device).optional();
  if (const auto ecc = nvml.ecc_mode(device)) {
    g.ecc_enabled = ecc.value.current;
    g.ecc_pending = ecc.value.pending;
  }
  g.ecc_uncorrected =
      nvml.ecc_errors(device, nvml::EccError::uncorrected, nvml::EccCounter::volatile_count)
          .optional();
  if (const auto rows = nvml.remapped_rows(device)) {
    g.rows_pending = rows.value.pending;
    g.rows_failed = rows.value.failed;
  }
  g.throttle = nvml.throttle_reasons(device).optional();
  g.recovery_action = nvml.recovery_action(device).optional();
  return g;
}

struct DriverFacts {
  std::string version, list_problem;
  std::optional<std::pair<int, int>> cuda;
  std::vector<GpuFacts> gpus;
};

DriverFacts ask_driver(const DoctorOptions& options) {
  const auto nvml =
      options.demo.empty() ? Nvml::open() : open_demo(options.demo, options.demo_options);
  DriverFacts facts{nvml->driver_version().value, {}, nvml->cuda_version().optional(), {}};
  const auto count = nvml->count();
  if (!count) facts.list_problem = nvml::describe(count.code);
  for (unsigned i = 0; count && i < count.value; ++i) {
    const auto device = nvml->by_index(i);
    if (device) {
      facts.gpus.push_back(look_at(*nvml, device.value));
    } else {
      GpuFacts lost;
      lost.uuid = fmt::format("GPU {} of {}", i + 1, count.value);
      lost.silence = nvml::describe(device.code);
      facts.gpus.push_back(std::move(lost));
    }
  }
  std::ranges::sort(facts.gpus, {}, &GpuFacts::bus);
  return facts;
}

void add_driver(const DoctorOptions& options, Facts& facts) try {
  auto found = within(options.timeout, [options] { return ask_driver(options); });
  facts.driver_version = std::move(found.version);
  facts.list_problem = std::move(found.list_problem);
  facts.cuda = found.cuda;
  facts.gpus = std::move(found.gpus);
} catch (const Error& e) {
  if (e.code() == Code::invalid_argument) throw;
  facts.nvml_problem = e.reason();
}

// The bus of a demo's machine: what its library lists when the story begins.
std::vector<std::string> demo_cards(const DoctorOptions& options) try {
  const auto nvml = open_demo(options.demo);
  freeze_demo(*nvml, 0);
  std::vector<std::string> buses;
  const auto count = nvml->count();
  for (unsigned i = 0; count && i < count.value; ++i)
    if (const auto device = nvml->by_index(i))
      if (auto bus = nvml->bus(device.value)) buses.push_back(std::move(bus.value));
  return buses;
} catch (const Error& e) {
  if (e.code() == Code::invalid_argument) throw;
  return {};
}

std::optional<std::uint64_t> bytes_of(const Path& folder, bool free) {
  struct statvfs disk {};
  if (statvfs(folder.c_str(), &disk) != 0) return std::nullopt;
  return static_cast<std::uint64_t>(free ? disk.f_bavail : disk.f_blocks) * disk.f_frsize;
}

// Uses the folder or, while it does not exist, its nearest existing parent.
std::optional<std::uint64_t> writable_bytes(Path folder) {
  std::error_code ignored;
  while (!folder.empty() && !std::filesystem::exists(folder, ignored)) {
    if (folder == folder.parent_path()) return std::nullopt;
    folder = folder.parent_path();
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) return std::nullopt;
  return bytes_of(folder, true);
}

void look_at_driver_files(const DoctorOptions& options, Facts& facts) {
  facts.nvidia_cards = nvidia_cards(options.root);
  facts.module_version = module_version(options.root);
  facts.module_loaded = !facts.module_version.empty();
  facts.nodes = device_nodes(options.root, facts.nvidia_cards);
  facts.container = container_of(options.root);
  if (options.root != "/") return;
  facts.libraries = find_libraries(options.library_dirs);
  facts.library_version = nvml_file_version();
  for (const auto& found : {detect_amd(options.root, ""), detect_intel(options.root)})
    for (const auto& gpu : found.gpus) facts.other_gpus.push_back(gpu.name);
}

}  // namespace

Facts gather(const DoctorOptions& options) {
  Facts facts;
  if (options.demo.empty()) {
    look_at_driver_files(options, facts);
    facts.code = gpu_code();
    facts.nvidia_visible = options.nvidia_visible;
    facts.cuda_visible = options.cuda_visible;
    facts.capabilities = options.capabilities;
  }
  if (!options.demo.empty() || options.root == "/") add_driver(options, facts);
  if (!options.demo.empty()) {
    facts.module_loaded = true;
    facts.container = "";
    facts.nvidia_cards = demo_cards(options);
  }
  facts.cpu = detect_cpu(options.root);
  facts.memory_used = read_cgroup(options.root).memory_used;
  facts.cache_dir = options.cache_dir;
  if (!options.cache_dir.empty()) facts.cache_free = writable_bytes(options.cache_dir);
  facts.shared_memory = bytes_of(under(options.root, "/dev/shm"), false);
  return facts;
}

}  // namespace sluice::device
