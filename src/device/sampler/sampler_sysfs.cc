// AMD and Intel GPUs through the kernel's files, and the identity of processes.
#include <sys/stat.h>

#include <optional>
#include <system_error>

#include "base/printable.h"
#include "device/sampler/sampler_probe.h"
#include "device/sysfs.h"

namespace sluice::device {

namespace {

class SysfsProbe final : public Probe {
 public:
  SysfsProbe(Gpu gpu, DrmCard card)
      : gpu_(std::move(gpu)), card_(std::move(card)), sensors_(hwmon_of(card_)) {}

  Gpu describe() override { return gpu_; }
  Outcome read(Tier tier, Sample& sample, double) override;

 private:
  void put(Sample& sample, Metric metric, std::optional<double> value) const;
  std::optional<double> sensor(const char* file, double scale) const;
  std::optional<double> own(const char* file) const;
  void memory(Sample& sample) const;
  void slow(Sample& sample);
  std::optional<double> power(std::optional<double> energy_j);

  struct Energy {
    double joules;
    Instant at;
  };
  const Gpu gpu_;
  const DrmCard card_;
  const std::optional<Path> sensors_;
  std::optional<Energy> before_;
};

void SysfsProbe::put(Sample& sample, Metric metric, std::optional<double> value) const {
  if (value)
    sample.values.emplace_back(metric, *value);
  else
    sample.absent.push_back(metric);
}

std::optional<double> SysfsProbe::own(const char* file) const {
  const auto value = read_int(card_.device / file);
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

std::optional<double> SysfsProbe::sensor(const char* file, double scale) const {
  if (!sensors_) return std::nullopt;
  const auto value = read_int(*sensors_ / file);
  return value ? std::optional(static_cast<double>(*value) * scale) : std::nullopt;
}

void SysfsProbe::memory(Sample& sample) const {
  const auto total = own("mem_info_vram_total"), used = own("mem_info_vram_used");
  put(sample, Metric::memory_total, total);
  put(sample, Metric::memory_used, used);
  put(sample, Metric::memory_free, total && used ? std::optional(*total - *used) : std::nullopt);
}

// Cards that only count energy: what they used since the last round.
std::optional<double> SysfsProbe::power(std::optional<double> energy_j) {
  if (auto watts = sensor("power1_average", 1e-6)) return watts;
  if (auto watts = sensor("power1_input", 1e-6)) return watts;
  if (!energy_j) return std::nullopt;
  const Energy now{*energy_j, Steady::now()};
  std::optional<double> watts;
  if (before_ && now.joules >= before_->joules && now.at > before_->at)
    watts = (now.joules - before_->joules) / seconds_between(before_->at, now.at);
  before_ = now;
  return watts;
}

void SysfsProbe::slow(Sample& sample) {
  const auto energy = sensor("energy1_input", 1e-6);
  put(sample, Metric::energy, energy);
  put(sample, Metric::power, power(energy));
  put(sample, Metric::power_limit, sensor("power1_cap", 1e-6));
  // Intel's xe driver names the package temp2; temp1 is the others' only or main one.
  auto celsius = sensor("temp1_input", 1e-3);
  put(sample, Metric::temperature, celsius ? celsius : sensor("temp2_input", 1e-3));
  put(sample, Metric::memory_temperature, sensor("temp3_input", 1e-3));
  put(sample, Metric::sm_clock, sensor("freq1_input", 1e-6));
  put(sample, Metric::memory_clock, sensor("freq2_input", 1e-6));
  const auto pwm = sensor("pwm1", 100.0 / 255);
  put(sample, Metric::fan, pwm);
}

Outcome SysfsProbe::read(Tier tier, Sample& sample, double) {
  std::error_code ignored;
  if (!std::filesystem::exists(card_.device, ignored))
    return {false, true, "the kernel no longer lists it"};
  switch (tier) {
    case Tier::pulse:
      put(sample, Metric::utilization, own("gpu_busy_percent"));
      put(sample, Metric::memory_activity, own("mem_busy_percent"));
      break;
    case Tier::fast: memory(sample); break;
    case Tier::slow: slow(sample); break;
    case Tier::processes: break;
  }
  return {};
}

// /etc/passwd itself, because the C library would ask directory services, which
// may take seconds.
std::string user_name(unsigned uid) {
  const auto text = read_text("/etc/passwd").value_or("");
  for (const auto line : split(text, '\n')) {
    const auto fields = split(line, ':');
    if (fields.size() > 2 && to_int(fields[2]) == std::optional<std::int64_t>(uid))
      return std::string(fields[0]);
  }
  return std::to_string(uid);
}

}  // namespace

void enrich_from_proc(Process& process) {
  const Path folder = "/proc/" + std::to_string(process.pid);
  // Anybody may call a process anything: what reaches logs and terminals is plain text.
  process.name = printable(read_line(folder / "comm").value_or(""));
  struct stat status {};
  if (stat(folder.c_str(), &status) == 0) process.user = user_name(status.st_uid);
}

std::unique_ptr<Probe> make_sysfs_probe(Gpu gpu, DrmCard card) {
  return std::make_unique<SysfsProbe>(std::move(gpu), std::move(card));
}

}  // namespace sluice::device
