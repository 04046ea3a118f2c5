// Checks of the machine: driver, libraries, permissions, container, host. Those of
// single GPUs are in doctor_gpu.cc.
#include "device/doctor/doctor.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "device/doctor/doctor_checks.h"

namespace sluice::device {

namespace {

constexpr std::string_view kMinDriver = "535.86.10";
constexpr std::uint64_t kGiB = 1ull << 30;

// Takes the leading number and the dot after it; 0 when there is none.
int take_number(std::string_view& text) noexcept {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (!text.empty()) text.remove_prefix(1);
  return value;
}

bool in_container(const Facts& f) { return f.container && !f.container->empty(); }

// The first sentence: what follows is advice, and the checks have their own.
std::string first_part(const std::string& text) { return text.substr(0, text.find(';')); }

std::string advice_in(const std::string& problem) {
  const auto end = problem.find("; ");
  return end == problem.npos ? "see the checks below; dmesg | grep NVRM says more"
                             : problem.substr(end + 2);
}

// The control node is there where a driver was loaded, or passed into a container.
bool has_control_node(const Facts& f) {
  return f.nodes && std::ranges::any_of(*f.nodes, [](const NodeFacts& n) {
           return n.exists && n.path == "/dev/nvidiactl";
         });
}

bool expects_gpu(const Facts& f) {
  return !f.nvidia_cards.empty() || f.module_loaded || !f.gpus.empty() || has_control_node(f);
}

MaybeCheck check_gpu(const Facts& f) {
  Check c{"gpu", "GPU", Verdict::pass, {}, {}};
  if (!f.gpus.empty()) {
    c.detail = fmt::format("{} NVIDIA GPU{}", f.gpus.size(), f.gpus.size() == 1 ? "" : "s");
    return c;
  }
  c.status = f.list_problem.empty() ? Verdict::warn : Verdict::fail;
  if (!f.list_problem.empty()) {
    c.detail = "the driver cannot list its GPUs: " + f.list_problem;
    c.fix = "dmesg | grep NVRM says why; reload the driver or reboot";
  } else if (expects_gpu(f)) {
    c.detail = f.nvidia_cards.empty()
                   ? "the NVIDIA driver is loaded but shows no GPU"
                   : fmt::format("NVIDIA GPU at {}, but the driver does not show it",
                                 fmt::join(f.nvidia_cards, ", "));
    c.fix = "see the checks below; until then Sluice runs on the CPU";
  } else if (!f.other_gpus.empty()) {
    c.detail = fmt::format("no NVIDIA GPU; {} is shown by sluice detect but not computed on",
                           fmt::join(f.other_gpus, ", "));
    c.fix = "none needed: Sluice runs on the CPU";
  } else {
    c.detail = "no GPU found";
    c.fix = "none needed: Sluice runs on the CPU. In a container, start it with --gpus all";
  }
  return c;
}

MaybeCheck check_driver(const Facts& f) {
  if (!expects_gpu(f)) return std::nullopt;
  Check c{"driver", "NVIDIA driver", Verdict::pass, {}, {}};
  if (!f.driver_version.empty()) {
    c.detail = f.driver_version + " loaded";
    if (f.cuda) c.detail += fmt::format(", CUDA up to {}.{}", f.cuda->first, f.cuda->second);
    return c;
  }
  c.status = Verdict::fail;
  if (f.module_loaded) {
    c.detail = "loaded, but " + (f.nvml_problem.empty() ? std::string("it does not answer")
                                                        : first_part(f.nvml_problem));
    c.fix = advice_in(f.nvml_problem);
  } else {
    c.detail = "not loaded";
    c.fix =
        "install the driver (Debian: apt install nvidia-driver; Ubuntu: ubuntu-drivers install), "
        "then sudo modprobe nvidia; dmesg | grep -i nvidia says why it does not load";
  }
  return c;
}

MaybeCheck check_driver_version(const Facts& f) {
  const auto& version = f.driver_version.empty() ? f.module_version : f.driver_version;
  if (version.empty()) return std::nullopt;
  Check c{"driver-version",
          "driver is new enough",
          Verdict::pass,
          fmt::format("{}, at least {} needed", version, kMinDriver),
          {}};
  if (compare_versions(version, kMinDriver) < 0) {
    c.status = Verdict::fail;
    c.fix = "install a driver of the 535 branch or newer and reboot";
  }
  return c;
}

MaybeCheck check_driver_match(const Facts& f) {
  const bool refused = f.nvml_problem.find("versions differ") != std::string::npos;
  const bool differs = !f.module_version.empty() && !f.library_version.empty() &&
                       f.module_version != f.library_version;
  if (!refused && !differs && f.driver_version.empty()) return std::nullopt;
  Check c{"driver-match", "driver and library", Verdict::pass, "the same version", {}};
  if (refused || differs) {
    c.status = Verdict::fail;
    c.detail =
        differs ? fmt::format("kernel module {}, library {}", f.module_version, f.library_version)
                : "kernel module and library are of different versions";
    c.detail += ": upgraded without a restart";
    c.fix =
        "reboot, or stop every GPU program and reload the modules: sudo rmmod nvidia_uvm "
        "nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia";
  }
  return c;
}

std::string versions(const std::vector<LibraryFacts>& libraries, bool of_driver, bool found) {
  std::vector<std::string> words;
  for (const auto& library : libraries)
    if (library.of_driver == of_driver && library.version.empty() != found)
      words.push_back(found ? library.name + " " + library.version : library.name);
  return fmt::format("{}", fmt::join(words, ", "));
}

MaybeCheck check_libraries(const Facts& f, bool of_driver) {
  if (!f.libraries || (!expects_gpu(f) && of_driver)) return std::nullopt;
  const auto have = versions(*f.libraries, of_driver, true);
  const auto lack = versions(*f.libraries, of_driver, false);
  Check c;
  c.id = of_driver ? "driver-libraries" : "compute-libraries";
  c.title = of_driver ? "driver libraries" : "compute libraries";
  c.detail = have;
  if (lack.empty()) return c;
  c.detail += (have.empty() ? "not found: " : "; not found: ") + lack;
  if (!expects_gpu(f)) {
    c.detail += "; not needed without a GPU";
    return c;
  }
  c.status = of_driver ? Verdict::fail : Verdict::warn;
  c.fix = of_driver && in_container(f)
              ? "start the container through the NVIDIA container toolkit: --gpus all"
          : of_driver
              ? "install the driver's libraries (Debian: apt install libcuda1 "
                "libnvidia-ml1), of the same version as the kernel module"
              : "install them from NVIDIA's CUDA repository (cuda-libraries, cudnn9-cuda-13, "
                "libnccl2), or put their folder in LD_LIBRARY_PATH; what needs a missing "
                "one runs on the CPU or more slowly";
  return c;
}

MaybeCheck check_driver_libraries(const Facts& f) { return check_libraries(f, true); }
MaybeCheck check_compute_libraries(const Facts& f) { return check_libraries(f, false); }

MaybeCheck check_nodes(const Facts& f) {
  if (!f.nodes || !expects_gpu(f)) return std::nullopt;
  Check c{"device-nodes", "device nodes", Verdict::pass, {}, {}};
  std::vector<std::string> missing, closed;
  for (const auto& node : *f.nodes)
    if (!node.usable) (node.exists ? closed : missing).push_back(node.path);
  if (missing.empty() && closed.empty()) {
    c.detail = fmt::format("{} of /dev/nvidia* readable and writable", f.nodes->size());
    return c;
  }
  c.status = Verdict::fail;
  if (!missing.empty()) {
    c.detail = fmt::format("missing: {}", fmt::join(missing, ", "));
    c.fix = !in_container(f)
                ? "sudo nvidia-modprobe -u -c 0 makes them; nvidia-persistenced does it at boot"
                : "start the container with --gpus all; if it worked before, the host's systemctl "
                  "daemon-reload took the devices away: restart the container";
  }
  if (!closed.empty()) {
    c.detail +=
        fmt::format("{}no permission: {}", c.detail.empty() ? "" : "; ", fmt::join(closed, ", "));
    c.fix += std::string(c.fix.empty() ? "" : "; ") +
             "sudo usermod -aG video,render $USER and log in again (ls -l /dev/nvidia* shows the "
             "group)";
  }
  return c;
}

MaybeCheck check_container(const Facts& f) {
  if (!f.container) return std::nullopt;
  Check c{"container", "container", Verdict::pass, "not in a container", {}};
  if (f.container->empty()) return c;
  c.detail = "in " + *f.container;
  const bool sees_gpu = !f.gpus.empty();
  const auto has = [&](std::string_view word) {
    return f.capabilities->find(word) != std::string::npos ||
           f.capabilities->find("all") != std::string::npos;
  };
  if (f.module_loaded && !sees_gpu) {
    c.status = Verdict::fail;
    c.detail += "; the host has an NVIDIA driver, the container does not see its GPUs";
    c.fix =
        "install nvidia-container-toolkit on the host, run 'nvidia-ctk runtime configure' and "
        "restart its runtime, then start with --gpus all (Kubernetes: limits nvidia.com/gpu)";
  } else if (sees_gpu && f.capabilities && (!has("compute") || !has("utility"))) {
    c.status = Verdict::warn;
    c.detail += "; NVIDIA_DRIVER_CAPABILITIES=" + *f.capabilities;
    c.fix = "set NVIDIA_DRIVER_CAPABILITIES=compute,utility";
  } else {
    c.detail += sees_gpu ? ", GPUs passed in" : ", no NVIDIA driver on the host";
  }
  return c;
}

bool hides_all(const std::optional<std::string>& value) {
  return value && (value->empty() || *value == "void" || *value == "none" || *value == "-1" ||
                   *value == "NoDevFiles");
}

MaybeCheck check_visible(const Facts& f) {
  if (!f.nvidia_visible && !f.cuda_visible) return std::nullopt;
  Check c{"visible-devices", "visible devices", Verdict::pass, {}, {}};
  if (f.nvidia_visible) c.detail = "NVIDIA_VISIBLE_DEVICES=" + *f.nvidia_visible;
  if (f.cuda_visible)
    c.detail += (c.detail.empty() ? "" : ", ") + ("CUDA_VISIBLE_DEVICES=" + *f.cuda_visible);
  const bool by_index = f.cuda_visible && !f.cuda_visible->empty() &&
                        f.cuda_visible->find_first_not_of("0123456789, ") == std::string::npos;
  if ((hides_all(f.nvidia_visible) || hides_all(f.cuda_visible)) && expects_gpu(f)) {
    c.status = Verdict::warn;
    c.detail += ": every GPU is hidden";
    c.fix = "unset the variable, or name the GPUs by UUID (sluice detect lists them)";
  } else if (by_index && f.gpus.size() > 1) {
    c.status = Verdict::warn;
    c.detail += ": numbers may mean another GPU after a reboot";
    c.fix = "name the GPUs by UUID (sluice detect lists them)";
  }
  return c;
}

MaybeCheck check_cpu(const Facts& f) {
  Check c{"cpu", "CPU", Verdict::pass, {}, {}};
  c.detail =
      fmt::format("{:g} usable core{}", f.cpu.usable_cores, f.cpu.usable_cores == 1 ? "" : "s");
  if (!f.cpu.limited_by.empty()) c.detail += " (" + f.cpu.limited_by + ")";
  const auto has = [&](std::string_view name) {
    return std::ranges::find(f.cpu.isa, name) != f.cpu.isa.end();
  };
  for (const auto* best : {"amx_bf16", "avx512f", "avx2", "sve", "neon"})
    if (has(best)) {
      c.detail += fmt::format(", {}", best);
      break;
    }
  if (f.cpu.architecture == "x86_64" && !has("avx2")) {
    c.status = Verdict::warn;
    c.detail += ", no AVX2";
    c.fix = "CPU work will be slow; in a virtual machine, choose the host's CPU model";
  }
  return c;
}

MaybeCheck check_memory_limit(const Facts& f) {
  Check c{"host-memory", "host memory", Verdict::pass, {}, {}};
  const auto memory = f.cpu.memory_limit.value_or(f.cpu.memory_total);
  c.detail = human_bytes(memory);
  c.detail += f.cpu.memory_limit ? " allowed by the cgroup, of " + human_bytes(f.cpu.memory_total)
                                 : ", no cgroup limit";
  if (f.cpu.memory_limit && f.memory_used && *f.memory_used > memory / 10 * 9) {
    c.status = Verdict::warn;
    c.detail += ", " + human_bytes(*f.memory_used) + " in use";
    c.fix = "raise the limit (docker run --memory, resources.limits.memory) or stop something";
  } else if (memory < 2 * kGiB) {
    c.status = Verdict::warn;
    c.fix = "give Sluice at least 2 GiB; models are read into host memory first";
  }
  return c;
}

MaybeCheck check_cache(const Facts& f) {
  if (f.cache_dir.empty()) return std::nullopt;
  Check c{"cache", "cache folder", Verdict::pass, f.cache_dir, {}};
  if (!f.cache_free) {
    c.status = Verdict::fail;
    c.detail += " cannot be written";
    c.fix = "make the folder writable for this user, or choose another with XDG_CACHE_HOME";
    return c;
  }
  c.detail += ", " + human_bytes(*f.cache_free) + " free";
  if (*f.cache_free < 10 * kGiB) {
    c.status = *f.cache_free < kGiB ? Verdict::fail : Verdict::warn;
    c.fix =
        "free 10 GiB there, or choose another disk with XDG_CACHE_HOME: models and compiled "
        "plans are kept in it";
  }
  return c;
}

MaybeCheck check_shared_memory(const Facts& f) {
  if (!f.shared_memory) return std::nullopt;
  Check c{"shared-memory",
          "shared memory",
          Verdict::pass,
          "/dev/shm holds " + human_bytes(*f.shared_memory),
          {}};
  if (*f.shared_memory < kGiB) {
    c.status = Verdict::warn;
    c.fix = "docker run --shm-size=2g (Kubernetes: an emptyDir of medium Memory at /dev/shm)";
  }
  return c;
}

// The checks in the order of the report. The GPU rules are in doctor_gpu.cc.
constexpr MaybeCheck (*kChecks[])(const Facts&) = {
    check_gpu,
    check_driver,
    check_driver_version,
    check_driver_match,
    check_nodes,
    check_container,
    check_visible,
    check_driver_libraries,
    check_compute_libraries,
    check_answers,
    check_compute,
    check_gpu_code,
    check_cuda_version,
    check_gpu_memory,
    check_persistence,
    check_ecc,
    check_rows,
    check_throttle,
    check_recovery,
    check_cpu,
    check_memory_limit,
    check_cache,
    check_shared_memory,
};

}  // namespace

std::vector<Check> diagnose(const Facts& facts) {
  std::vector<Check> checks;
  for (const auto check : kChecks)
    if (auto result = check(facts)) checks.push_back(std::move(*result));
  return checks;
}

int compare_versions(std::string_view a, std::string_view b) noexcept {
  while (!a.empty() || !b.empty()) {
    const auto x = take_number(a), y = take_number(b);
    if (x != y) return x < y ? -1 : 1;
  }
  return 0;
}

const char* to_string(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::pass: return "pass";
    case Verdict::warn: return "warn";
    case Verdict::fail: return "fail";
  }
  return "fail";
}

bool any_failed(const std::vector<Check>& checks) noexcept {
  return std::ranges::any_of(checks, [](const Check& c) { return c.status == Verdict::fail; });
}

Json to_json(const std::vector<Check>& checks) {
  Json list = Json::array();
  Json counts = {{"pass", 0}, {"warn", 0}, {"fail", 0}};
  for (const auto& c : checks) {
    list.push_back({{"id", c.id},
                    {"title", c.title},
                    {"status", to_string(c.status)},
                    {"detail", c.detail},
                    {"fix", c.fix}});
    counts[to_string(c.status)] = counts[to_string(c.status)].get<int>() + 1;
  }
  return {{"checks", std::move(list)}, {"summary", std::move(counts)}};
}

}  // namespace sluice::device
