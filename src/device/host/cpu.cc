#include "device/host/cpu.h"

#include <fmt/core.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <thread>

#include "device/host/cgroup.h"

namespace sluice::device {

namespace {

// The instruction sets a numeric kernel might choose by, oldest first. x86 as
// Linux spells them, then Arm ("asimd" is what Arm's kernels call NEON).
constexpr std::array kIsa =
    std::to_array<std::string_view>({"sse4_1",      "sse4_2",        "avx",
                                     "f16c",        "fma",           "avx2",
                                     "avx_vnni",    "avx512f",       "avx512cd",
                                     "avx512bw",    "avx512dq",      "avx512vl",
                                     "avx512ifma",  "avx512vbmi",    "avx512_vbmi2",
                                     "avx512_vnni", "avx512_bitalg", "avx512_vpopcntdq",
                                     "avx512_bf16", "avx512_fp16",   "amx_tile",
                                     "amx_int8",    "amx_bf16",      "amx_fp16",
                                     "neon",        "fphp",          "asimdhp",
                                     "asimddp",     "bf16",          "i8mm",
                                     "sve",         "sve2",          "sme",
                                     "sme2"});

struct ArmPart {
  unsigned implementer, part;
  std::string_view name;
};
constexpr ArmPart kArmParts[] = {
    {0x41, 0xd03, "Arm Cortex-A53"},   {0x41, 0xd07, "Arm Cortex-A57"},
    {0x41, 0xd08, "Arm Cortex-A72"},   {0x41, 0xd0b, "Arm Cortex-A76"},
    {0x41, 0xd0c, "Arm Neoverse-N1"},  {0x41, 0xd40, "Arm Neoverse-V1"},
    {0x41, 0xd42, "Arm Cortex-A78AE"}, {0x41, 0xd49, "Arm Neoverse-N2"},
    {0x41, 0xd4f, "Arm Neoverse-V2"},  {0x4e, 0x004, "NVIDIA Carmel"},
    {0xc0, 0xac3, "Ampere-1"},
};

// The first value of each key: the block of one CPU represents all.
std::map<std::string, std::string, std::less<>> parse_cpuinfo(std::string_view text) {
  std::map<std::string, std::string, std::less<>> values;
  for (const auto line : split(text, '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    values.emplace(trimmed(line.substr(0, colon)), trimmed(line.substr(colon + 1)));
  }
  return values;
}

using CpuInfo = decltype(parse_cpuinfo({}));

std::string value_of(const CpuInfo& info, std::string_view key) {
  const auto found = info.find(key);
  return found == info.end() ? std::string() : found->second;
}

std::string arm_model(const CpuInfo& info, const Path& root) {
  const auto implementer = to_int(value_of(info, "CPU implementer"));
  const auto part = to_int(value_of(info, "CPU part"));
  if (implementer && part) {
    for (const auto& known : kArmParts)
      if (known.implementer == *implementer && known.part == *part) return std::string(known.name);
    return fmt::format("Arm CPU, implementer {:#x}, part {:#x}", *implementer, *part);
  }
  auto board = read_line(under(root, "/proc/device-tree/model")).value_or("");
  std::erase(board, '\0');
  return board;
}

void read_model(const CpuInfo& info, const Path& root, Cpu& cpu) {
  const auto arm = value_of(info, "Features");
  const auto x86 = value_of(info, "flags");
  utsname host{};
  if (!x86.empty())
    cpu.architecture = "x86_64";
  else if (!arm.empty())
    cpu.architecture = "aarch64";
  else if (uname(&host) == 0)
    cpu.architecture = host.machine;

  cpu.model = value_of(info, "model name");
  if (cpu.model.empty()) cpu.model = value_of(info, "Model");
  if (cpu.model.empty()) cpu.model = arm_model(info, root);
  if (cpu.model.empty()) cpu.model = "unknown";

  const auto& flags = x86.empty() ? arm : x86;
  const auto words = split(flags, ' ');
  std::set<std::string_view> present(words.begin(), words.end());
  if (present.contains("asimd")) present.insert("neon");
  for (const auto name : kIsa)
    if (present.contains(name)) cpu.isa.emplace_back(name);
}

std::vector<unsigned> online_cpus(const Path& root, std::string_view cpuinfo) {
  if (const auto line = read_line(under(root, "/sys/devices/system/cpu/online")))
    if (auto cpus = cpu_list(*line); !cpus.empty()) return cpus;
  std::vector<unsigned> cpus;
  for (const auto line : split(cpuinfo, '\n'))
    if (line.starts_with("processor"))
      if (const auto colon = line.find(':'); colon != std::string_view::npos)
        if (const auto n = to_int(line.substr(colon + 1)))
          cpus.push_back(static_cast<unsigned>(*n));
  if (cpus.empty())
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
      cpus.push_back(i);
  return cpus;
}

// Counts by sharing, because core numbers repeat on every socket.
void read_topology(const Path& root, const std::vector<unsigned>& online, Cpu& cpu) {
  std::set<std::string> cores;
  std::set<std::int64_t> sockets;
  for (const auto n : online) {
    const auto topology = under(root, fmt::format("/sys/devices/system/cpu/cpu{}/topology", n));
    auto shares = read_line(topology / "core_cpus_list");
    if (!shares) shares = read_line(topology / "thread_siblings_list");
    cores.insert(shares.value_or(std::to_string(n)));
    if (const auto id = read_int(topology / "physical_package_id")) sockets.insert(*id);
  }
  cpu.logical_cores = static_cast<unsigned>(online.size());
  cpu.physical_cores = static_cast<unsigned>(cores.size());
  cpu.sockets = static_cast<unsigned>(std::max<std::size_t>(1, sockets.size()));
}

// One entry per level and type. If the cores of a hybrid CPU differ, it is the largest.
void read_caches(const Path& root, const std::vector<unsigned>& online, Cpu& cpu) {
  std::map<std::pair<unsigned, std::string>, std::uint64_t> sizes;
  for (const auto n : online) {
    const auto folder = under(root, fmt::format("/sys/devices/system/cpu/cpu{}/cache", n));
    for (const auto& index : numbered(folder, "index")) {
      const auto level = read_int(folder / index / "level");
      auto type = read_line(folder / index / "type");
      const auto size = read_size(folder / index / "size");
      if (!level || *level < 1 || !type || !size) continue;
      std::ranges::transform(*type, type->begin(),
                             [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
      auto& largest = sizes[{static_cast<unsigned>(*level), *type}];
      largest = std::max(largest, *size);
    }
  }
  for (const auto& [key, bytes] : sizes) cpu.caches.push_back({key.first, key.second, bytes});
}

void read_numa(const Path& root, Cpu& cpu) {
  const auto folder = under(root, "/sys/devices/system/node");
  for (const auto& name : numbered(folder, "node")) {
    NumaNode node{};
    node.node = static_cast<int>(to_int(std::string_view(name).substr(4)).value_or(0));
    node.cpus = read_line(folder / name / "cpulist").value_or("");
    if (const auto text = read_text(folder / name / "meminfo"))
      node.memory_total = meminfo_bytes(*text, "MemTotal:");
    cpu.numa.push_back(std::move(node));
  }
}

// The kernel keeps the allowed CPUs of a thread as affinity and cpuset together;
// this is what sched_getaffinity would answer.
std::vector<unsigned> allowed_cpus(const Path& root) {
  const auto status = read_text(under(root, "/proc/self/status"));
  if (!status) return {};
  constexpr std::string_view kKey = "Cpus_allowed_list:";
  for (const auto line : split(*status, '\n'))
    if (line.starts_with(kKey)) return cpu_list(line.substr(kKey.size()));
  return {};
}

void read_limits(const Path& root, const std::vector<unsigned>& online, Cpu& cpu) {
  const auto limits = read_cgroup(root);
  cpu.usable_cores = static_cast<double>(online.size());

  std::vector<unsigned> allowed;
  std::ranges::set_intersection(allowed_cpus(root), online, std::back_inserter(allowed));
  if (!allowed.empty() && allowed.size() < online.size()) {
    const bool by_group = cpu_list(limits.cpuset) == allowed;
    cpu.usable_cores = static_cast<double>(allowed.size());
    cpu.limited_by = (by_group ? "cgroup cpuset " : "affinity ") + to_cpu_list(allowed);
  }
  if (limits.cpus && *limits.cpus < cpu.usable_cores) {
    cpu.usable_cores = *limits.cpus;
    cpu.limited_by = fmt::format("cgroup quota {:.{}f}", *limits.cpus, *limits.cpus < 1 ? 2 : 1);
  }
  if (limits.memory && (cpu.memory_total == 0 || *limits.memory < cpu.memory_total))
    cpu.memory_limit = limits.memory;
}

}  // namespace

std::optional<std::uint64_t> meminfo_bytes(std::string_view text, std::string_view key) {
  for (auto line : split(text, '\n')) {
    const auto at = line.find(key);
    if (at == std::string_view::npos) continue;
    line.remove_prefix(at + key.size());
    const auto unit = line.find("kB");
    if (const auto kib = to_size(line.substr(0, unit))) return *kib * 1024;
  }
  return std::nullopt;
}

Cpu detect_cpu(const Path& root) {
  Cpu cpu;
  const auto cpuinfo = read_text(under(root, "/proc/cpuinfo")).value_or("");
  const auto memory = read_text(under(root, "/proc/meminfo")).value_or("");
  const auto online = online_cpus(root, cpuinfo);
  read_model(parse_cpuinfo(cpuinfo), root, cpu);
  read_topology(root, online, cpu);
  read_caches(root, online, cpu);
  read_numa(root, cpu);
  cpu.memory_total = meminfo_bytes(memory, "MemTotal:").value_or(0);
  cpu.memory_available = meminfo_bytes(memory, "MemAvailable:").value_or(0);
  read_limits(root, online, cpu);
  return cpu;
}

}  // namespace sluice::device
