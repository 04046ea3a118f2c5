#include "cli/detect/detect_report.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"

namespace sluice::cli {

namespace {

using device::Cpu;
using device::Gpu;
using device::Precision;

using Words = std::vector<std::string>;

std::string joined(const Words& words, const char* by) {
  return fmt::format("{}", fmt::join(words, by));
}

// Each of the words stays on one line.
std::string listed(const Words& words) {
  std::string list;
  for (const auto& word : words) list += (list.empty() ? "" : ", ") + glued(word);
  return list;
}

std::string memory_of(const Gpu& gpu, bool with_free) {
  Words words;
  if (gpu.memory_total) words.push_back(human_bytes(*gpu.memory_total));
  if (gpu.memory_free && with_free) words.push_back(human_bytes(*gpu.memory_free) + " free");
  if (gpu.memory_used && with_free) words.push_back(human_bytes(*gpu.memory_used) + " used");
  if (gpu.memory_reserved)
    words.push_back(human_bytes(*gpu.memory_reserved) + " kept by the driver");
  return listed(words);
}

std::string architecture_of(const Gpu& gpu) {
  Words words;
  if (gpu.compute_major && gpu.compute_minor)
    words.push_back(fmt::format("compute {}.{}", *gpu.compute_major, *gpu.compute_minor));
  if (gpu.sm_count) words.push_back(fmt::format("{} SMs", *gpu.sm_count));
  if (!gpu.driver_version.empty()) words.push_back("driver " + gpu.driver_version);
  if (gpu.cuda_major && gpu.cuda_minor)
    words.push_back(fmt::format("CUDA up to {}.{}", *gpu.cuda_major, *gpu.cuda_minor));
  return listed(words);
}

std::string clock_of(const char* name, std::optional<unsigned> now,
                     std::optional<unsigned> max_mhz) {
  if (now && max_mhz) return fmt::format("{} {} of {} MHz", name, *now, *max_mhz);
  if (max_mhz) return fmt::format("{} up to {} MHz", name, *max_mhz);
  return now ? fmt::format("{} {} MHz", name, *now) : std::string();
}

std::string clocks_of(const Gpu& gpu, bool with_now) {
  const auto& c = gpu.clocks;
  const std::optional<unsigned> none;
  Words words{clock_of("SM", with_now ? c.sm_mhz : none, c.sm_max_mhz),
              clock_of("memory", with_now ? c.memory_mhz : none, c.memory_max_mhz)};
  std::erase(words, "");
  return listed(words);
}

std::string power_of(const Gpu& gpu) {
  const auto& p = gpu.power;
  Words words;
  if (p.current_w) words.push_back(fmt::format("limit {:g} W", *p.current_w));
  if (p.enforced_w && p.current_w && std::abs(*p.enforced_w - *p.current_w) > 0.5)
    words.push_back(fmt::format("{:g} W enforced", *p.enforced_w));
  if (p.default_w) words.push_back(fmt::format("default {:g} W", *p.default_w));
  if (p.min_w && p.max_w)
    words.push_back(fmt::format("{:g} to {:g} W allowed", *p.min_w, *p.max_w));
  return listed(words);
}

std::string nvlink_of(const Gpu& gpu) {
  if (gpu.nvlinks.empty()) return {};
  const auto up = std::ranges::count_if(gpu.nvlinks, &device::NvLink::active);
  const auto version = gpu.nvlinks.front().version;
  return fmt::format("NVLink {} of {} up{}", up, gpu.nvlinks.size(),
                     version ? fmt::format(" (version {})", *version) : "");
}

std::string modes_of(const Gpu& gpu) {
  Words words;
  const auto on_off = [](bool on) { return on ? "on" : "off"; };
  if (gpu.ecc.enabled) {
    words.push_back(fmt::format("ECC {}", on_off(*gpu.ecc.enabled)));
    if (gpu.ecc.pending && *gpu.ecc.pending != *gpu.ecc.enabled)
      words.back() += fmt::format(" ({} after a reset)", on_off(*gpu.ecc.pending));
  }
  if (gpu.mig)
    words.push_back(gpu.mig->enabled ? fmt::format("MIG on ({} instances)", gpu.mig->instances)
                                     : "MIG off");
  if (gpu.persistence) words.push_back(fmt::format("persistence {}", on_off(*gpu.persistence)));
  if (auto links = nvlink_of(gpu); !links.empty()) words.push_back(std::move(links));
  return listed(words);
}

// Fastest first, precisions of one rate together: "bf16, fp16 989 TFLOP/s".
std::string peaks_of(const Gpu& gpu) {
  if (!gpu.card) return {};
  struct Rate {
    double rate;
    bool integer;
    Words names;
  };
  std::vector<Rate> rates;
  for (const auto p : {Precision::int8, Precision::fp8, Precision::bf16, Precision::fp16,
                       Precision::tf32, Precision::fp32, Precision::fp64}) {
    const auto rate = gpu.card->peaks.of(p);
    if (!rate) continue;
    const bool integer = p == Precision::int8;
    const auto same = std::ranges::find_if(
        rates, [&](const Rate& r) { return r.rate == *rate && r.integer == integer; });
    if (same == rates.end())
      rates.push_back({*rate, integer, {std::string(to_string(p))}});
    else
      same->names.emplace_back(to_string(p));
  }
  std::ranges::stable_sort(rates, std::greater{}, &Rate::rate);
  Words words;
  for (const auto& r : rates)
    words.push_back(joined(r.names, "/") + " " + human_rate(r.rate, r.integer ? "OP" : "FLOP"));
  words.push_back("memory " + human_rate(gpu.card->bandwidth, "B"));
  return listed(words);
}

std::string place_of(const Gpu& gpu) {
  Words words;
  if (!gpu.bus.empty()) words.push_back(gpu.bus);
  if (gpu.numa_node) words.push_back(fmt::format("NUMA node {}", *gpu.numa_node));
  return listed(words);
}

// The properties that put two GPUs into separate blocks.
std::string kind_of(const Gpu& gpu) {
  return joined({gpu.name, memory_of(gpu, false), architecture_of(gpu), clocks_of(gpu, false),
                 power_of(gpu), modes_of(gpu)},
                "|");
}

void print_members(const std::vector<const Gpu*>& gpus, Report& report) {
  const auto width = [&](auto text, std::size_t min_width) {
    for (const auto* gpu : gpus) min_width = std::max(min_width, text(*gpu).size());
    return min_width;
  };
  const auto uuid = width([](const Gpu& g) { return g.uuid; }, 4);
  report.line(
      paint(fmt::format("  {:<12}  {:<{}}  {:>4}  {:>10}", "Bus", "UUID", uuid, "NUMA", "free"),
            Ink::dim, report.pen()));
  for (const auto* gpu : gpus)
    report.line(fmt::format("  {:<12}  {:<{}}  {:>4}  {:>10}", gpu->bus, gpu->uuid, uuid,
                            gpu->numa_node ? std::to_string(*gpu->numa_node) : "-",
                            gpu->memory_free ? human_bytes(*gpu->memory_free) : "-"));
}

void print_gpus(const std::vector<const Gpu*>& gpus, Report& report) {
  const auto& gpu = *gpus.front();
  const bool alone = gpus.size() == 1;
  report.heading(alone ? "GPU" : fmt::format("{} GPUs", gpus.size()), gpu.name);
  if (alone) {
    report.row("UUID", gpu.uuid);
    report.row("Bus", place_of(gpu));
  }
  report.row("Memory", memory_of(gpu, alone));
  report.row("Architecture", architecture_of(gpu));
  report.row("Clocks", clocks_of(gpu, alone));
  report.row("Power", power_of(gpu));
  report.row("Modes", modes_of(gpu));
  report.row("Peak rates", peaks_of(gpu));
  report.row("Compute in",
             fmt::format("{}: {}", to_string(gpu.recommended_precision), gpu.recommended_because));
  if (!alone) print_members(gpus, report);
}

std::string caches_of(const Cpu& cpu) {
  Words words;
  for (const auto& cache : cpu.caches) {
    const char* letter = cache.type == "data" ? "d" : cache.type == "instruction" ? "i" : "";
    words.push_back(fmt::format("L{}{} {}", cache.level, letter, human_bytes(cache.bytes)));
  }
  return listed(words);
}

std::string numa_of(const Cpu& cpu) {
  if (cpu.numa.size() < 2) return {};
  Words words;
  for (const auto& node : cpu.numa)
    words.push_back(fmt::format("node {}: CPUs {}{}", node.node, node.cpus,
                                node.memory_total ? ", " + human_bytes(*node.memory_total) : ""));
  return listed(words);
}

// Features implied by AVX2 are omitted, and the parts of AVX-512 are grouped.
std::string isa_of(const Cpu& cpu) {
  const bool avx2 = std::ranges::find(cpu.isa, "avx2") != cpu.isa.end();
  Words words, parts;
  for (std::string_view name : cpu.isa) {
    if (avx2 && (name.starts_with("sse") || name == "avx")) continue;
    constexpr std::string_view kLong = "avx512";
    if (!name.starts_with(kLong)) {
      words.emplace_back(name);
      continue;
    }
    name.remove_prefix(kLong.size());
    if (name.starts_with('_')) name.remove_prefix(1);
    parts.emplace_back(name);
  }
  if (!parts.empty()) words.push_back("avx512 (" + joined(parts, " ") + ")");
  return joined(words, ", ");
}

void print_cpu(const Cpu& cpu, Report& report) {
  report.heading("CPU", cpu.model);
  auto cores = fmt::format("{:g} usable of {} logical, {} physical in {} socket{}, {}",
                           cpu.usable_cores, cpu.logical_cores, cpu.physical_cores, cpu.sockets,
                           cpu.sockets == 1 ? "" : "s", cpu.architecture);
  report.row("Cores", cores);
  report.row("Limited by", cpu.limited_by);
  auto memory =
      human_bytes(cpu.memory_total) + ", " + human_bytes(cpu.memory_available) + " available";
  if (cpu.memory_limit) memory += ", " + human_bytes(*cpu.memory_limit) + " allowed by the cgroup";
  report.row("Memory", memory);
  report.row("Caches", caches_of(cpu));
  report.row("NUMA", numa_of(cpu));
  report.row("Instructions", isa_of(cpu));
}

// Prints one line per GPU, for a machine whose blocks do not fit a screen.
void print_overview(const std::vector<Gpu>& gpus, Report& report) {
  report.heading("Overview", "");
  const auto row = [](const auto&... cells) {
    return fmt::format("  {:<12} {:<26} {:>9} {:>9} {:<4} {:>12}", cells...);
  };
  report.line(paint(row("Bus", "GPU", "memory", "free", "use", "peak"), Ink::dim, report.pen()));
  for (const auto& gpu : gpus) {
    const auto bytes = [](const auto& value) { return value ? human_bytes(*value) : "-"; };
    const auto rate = gpu.card ? gpu.card->peaks.of(gpu.recommended_precision) : std::nullopt;
    report.line(row(gpu.bus, left(gpu.name, 26, report.pen()), bytes(gpu.memory_total),
                    bytes(gpu.memory_free), to_string(gpu.recommended_precision),
                    rate ? human_rate(*rate, "FLOP") : "-"));
  }
}

}  // namespace

void print(const device::Inventory& inventory, Report& report) {
  std::vector<std::vector<const Gpu*>> kinds;
  for (const auto& gpu : inventory.gpus) {
    const auto same = std::ranges::find_if(
        kinds, [&](const auto& kind) { return kind_of(*kind.front()) == kind_of(gpu); });
    if (same == kinds.end())
      kinds.push_back({&gpu});
    else
      same->push_back(&gpu);
  }
  const auto& trouble = inventory.driver_trouble;
  if (kinds.empty() && trouble.empty()) report.heading("GPU", "none found");
  for (const auto& kind : kinds) print_gpus(kind, report);
  if (!trouble.empty()) {
    report.heading("GPU", "its driver does not start; see sluice doctor");
    report.row("Cause", trouble);
  }
  print_cpu(inventory.cpu, report);
  if (kinds.size() > 1) print_overview(inventory.gpus, report);
  auto notes = inventory.notes;
  std::erase(notes, trouble);
  if (notes.empty()) return;
  report.heading("Notes", "");
  for (const auto& note : notes) report.item("  - ", 4, note);
}

}  // namespace sluice::cli
