#include "device/host/host.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "device/host/cpu.h"

namespace sluice::device {

namespace {

// One "cpu…" line of /proc/stat: user nice system idle iowait irq softirq steal.
// Time waiting for the disk is time a core was free.
std::optional<double> busy_ticks(std::string_view line) {
  double sum = 0;
  int field = 0;
  for (const auto word : split(line.substr(line.find(' ')), ' ')) {
    if (word.empty()) continue;
    const auto ticks = to_int(word);
    if (!ticks) return std::nullopt;
    const bool idle = field == 3 || field == 4;
    if (!idle && field < 8) sum += static_cast<double>(*ticks);
    ++field;
  }
  return field >= 4 ? std::optional(sum) : std::nullopt;
}

bool is_allowed(std::string_view name, const cpu_set_t& allowed) {
  const auto number = to_int(name.substr(3));
  return number && *number >= 0 && *number < CPU_SETSIZE &&
         CPU_ISSET(static_cast<std::size_t>(*number), &allowed);
}

// Sensors that measure the CPU itself, best first.
constexpr std::array<std::string_view, 5> kCpuSensors = {"coretemp", "k10temp", "zenpower",
                                                         "cpu_thermal", "soc_thermal"};

void put(Readings& readings, Metric metric, std::optional<double> value, Instant now) {
  if (value)
    readings.set(metric, *value, now);
  else
    readings.clear(metric);
}

}  // namespace

HostSampler::HostSampler(Cpu cpu, Path root)
    : cpu_(std::move(cpu)), root_(std::move(root)), thermometer_(find_thermometer()) {}

std::optional<HostSampler::Busy> HostSampler::busy(const CgroupLimits& group, Instant now) const {
  if (group.cpus && group.cpu_used_s)
    return Busy{*group.cpu_used_s, std::min(*group.cpus, double(cpu_.logical_cores)), now};

  const auto stat = read_text(under(root_, "/proc/stat"));
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (!stat || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return std::nullopt;
  double ticks = 0;
  int cores = 0;
  for (const auto line : split(*stat, '\n')) {
    const auto name = line.substr(0, line.find(' '));
    if (!name.starts_with("cpu") || name.size() == 3 || !is_allowed(name, allowed)) continue;
    if (const auto busy = busy_ticks(line)) ticks += *busy, ++cores;
  }
  if (cores == 0) return std::nullopt;
  return Busy{ticks / static_cast<double>(sysconf(_SC_CLK_TCK)), double(cores), now};
}

void HostSampler::sample_cpu(const CgroupLimits& group, Readings& readings, Instant now) {
  auto after = busy(group, now);
  std::optional<double> percent;
  if (after && before_ && after->capacity > 0) {
    const double possible = seconds_between(before_->at, now) * after->capacity;
    if (possible > 0)
      percent = std::clamp((after->busy_s - before_->busy_s) / possible * 100, 0.0, 100.0);
  }
  before_ = after;
  put(readings, Metric::cpu_utilization, percent, now);

  std::optional<double> load;
  if (const auto line = read_line(under(root_, "/proc/loadavg"))) load = std::atof(line->c_str());
  put(readings, Metric::cpu_load, load, now);

  std::optional<double> celsius;
  if (thermometer_)
    if (const auto milli = read_int(*thermometer_)) celsius = static_cast<double>(*milli) / 1000;
  put(readings, Metric::cpu_temperature, celsius, now);
}

void HostSampler::sample_memory(const CgroupLimits& group, Readings& readings, Instant now) const {
  const auto text = read_text(under(root_, "/proc/meminfo")).value_or("");
  auto total = meminfo_bytes(text, "MemTotal:");
  auto free = meminfo_bytes(text, "MemAvailable:");
  if (total && group.memory && group.memory_used && *group.memory < *total) {
    total = group.memory;
    const auto left = *group.memory - std::min(*group.memory, *group.memory_used);
    free = free ? std::min(*free, left) : left;
  }
  put(readings, Metric::host_memory_total, total, now);
  put(readings, Metric::host_memory_free, free, now);
  std::optional<double> used;
  if (total && free) used = static_cast<double>(*total - std::min(*total, *free));
  put(readings, Metric::host_memory_used, used, now);
}

void HostSampler::sample(Readings& readings, Instant now) {
  const auto group = read_cgroup(root_);
  sample_cpu(group, readings, now);
  sample_memory(group, readings, now);
}

std::optional<Path> HostSampler::find_thermometer() const {
  const auto folder = under(root_, "/sys/class/hwmon");
  std::optional<Path> best;
  std::size_t best_rank = kCpuSensors.size();
  for (const auto& name : numbered(folder, "hwmon")) {
    const auto sensor = read_line(folder / name / "name").value_or("");
    const auto rank =
        static_cast<std::size_t>(std::ranges::find(kCpuSensors, sensor) - kCpuSensors.begin());
    if (rank < best_rank && read_int(folder / name / "temp1_input")) {
      best = folder / name / "temp1_input";
      best_rank = rank;
    }
  }
  return best;
}

}  // namespace sluice::device
