// NVML queries of an NVIDIA GPU, tier by tier.
#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/printable.h"
#include "device/detect/detect_nvidia.h"
#include "device/sampler/sampler_probe.h"

namespace sluice::device {

namespace {

using nvml::Return;

bool is_gone(Return code) {
  using enum Return;
  return code == gpu_is_lost || code == gpu_not_found || code == reset_required ||
         code == driver_not_loaded || code == uninitialized ||
         code == lib_rm_version_mismatch;  // a new driver was loaded: only a new process sees it
}

// Codes with which the driver says that it could not find out, as against "this
// card does not have that".
bool is_no_answer(Return code) {
  using enum Return;
  return is_gone(code) || code == unknown || code == timeout || code == operating_system ||
         code == irq_issue;
}

bool is_end_of_links(Return code) {
  using enum Return;
  return code == invalid_argument || code == not_supported || code == function_not_found;
}

template <class T>
Answer<double> number(const Answer<T>& a) {
  return {a.code, static_cast<double>(a.value)};
}

// A query with one number as its result.
struct Question {
  Metric metric;
  Answer<double> (*ask)(const Nvml&, nvml::Device);
};

using N = const Nvml&;
using D = nvml::Device;
using nvml::Clock;
using nvml::EccCounter;
using nvml::EccError;
// clang-format off
constexpr Question kFast[] = {
    {Metric::throttle_reasons, [](N n, D d) { return number(n.throttle_reasons(d)); }},
};
constexpr Question kSlow[] = {
    {Metric::recovery_action, [](N n, D d) { return number(n.recovery_action(d)); }},
    {Metric::temperature, [](N n, D d) { return n.temperature(d); }},
    {Metric::temperature_margin, [](N n, D d) { return n.temperature_margin(d); }},
    {Metric::memory_temperature, [](N n, D d) { return n.memory_temperature(d); }},
    {Metric::power, [](N n, D d) { return n.power_w(d); }},
    {Metric::power_limit, [](N n, D d) { return n.enforced_power_limit_w(d); }},
    {Metric::energy, [](N n, D d) { return n.energy_j(d); }},
    {Metric::memory_clock, [](N n, D d) { return number(n.clock_mhz(d, Clock::memory)); }},
    {Metric::fan, [](N n, D d) { return n.fan(d); }},
    {Metric::ecc_corrected, [](N n, D d) { return number(n.ecc_errors(d, EccError::corrected, EccCounter::volatile_count)); }},
    {Metric::ecc_uncorrected, [](N n, D d) { return number(n.ecc_errors(d, EccError::uncorrected, EccCounter::volatile_count)); }},
    {Metric::ecc_corrected_total, [](N n, D d) { return number(n.ecc_errors(d, EccError::corrected, EccCounter::aggregate)); }},
    {Metric::ecc_uncorrected_total, [](N n, D d) { return number(n.ecc_errors(d, EccError::uncorrected, EccCounter::aggregate)); }},
    {Metric::pages_retired, [](N n, D d) { return number(n.retired_pages(d)); }},
    {Metric::pcie_replays, [](N n, D d) { return number(n.pcie_replays(d)); }},
};
constexpr Question kLinks[] = {
    {Metric::nvlink_tx, [](N n, D d) { return number(n.nvlink_tx_bytes(d)); }},
    {Metric::nvlink_rx, [](N n, D d) { return number(n.nvlink_rx_bytes(d)); }},
    {Metric::nvlink_errors, [](N n, D d) { return number(n.nvlink_errors(d)); }},
};
// clang-format on

std::string_view name_of(ProcessKind kind) {
  switch (kind) {
    case ProcessKind::compute: return "compute";
    case ProcessKind::graphics: return "graphics";
    case ProcessKind::mps: return "mps";
  }
  return "";
}

// The pause after a query that took `took`; at most the age at which a reading becomes
// stale.
Steady::duration rest_after(Steady::duration took, double budget) {
  constexpr double kShare = 0.1, kMaxPeriod_s = 25;
  if (took < std::chrono::microseconds(300)) return {};  // as nearly all do
  const double s = std::min(Seconds(took).count() / (budget * kShare), kMaxPeriod_s);
  return std::chrono::duration_cast<Steady::duration>(Seconds(s));
}

constexpr auto kLongRest = std::chrono::minutes(5);  // of what a card does not have

// Collects the answers of one round and what they say about the GPU itself.
class Round {
 public:
  explicit Round(Sample& sample) : sample_(sample) {}

  template <class T>
  bool hear(const Answer<T>& answer) {
    if (is_no_answer(answer.code))
      bad_ = answer.code;
    else
      answered_ = true;
    return static_cast<bool>(answer);
  }
  void put(Metric metric, double value) { sample_.values.emplace_back(metric, value); }
  void missing(Metric metric) { sample_.absent.push_back(metric); }
  bool gone() const { return bad_ && is_gone(*bad_); }

  Outcome outcome() const {
    if (gone()) return {false, true, nvml::describe(*bad_)};
    if (!answered_ && bad_) return {false, false, nvml::describe(*bad_)};
    return {};
  }

 private:
  Sample& sample_;
  bool answered_ = false;
  std::optional<Return> bad_;
};

class NvidiaProbe final : public Probe {
 public:
  NvidiaProbe(const Nvml& nvml, nvml::Device device, Enrich enrich)
      : nvml_(nvml), device_(device), enrich_(std::move(enrich)) {}

  Gpu describe() override { return describe_nvidia(nvml_, device_); }
  Outcome read(Tier tier, Sample& sample, double budget) override;

 private:
  void pulse(Round& round);
  void memory(Round& round);
  void slow(Round& round);
  void clocks(Round& round);
  void rows(Round& round);
  void links(Round& round);
  void processes(Round& round, Sample& sample);
  void add_utilization(std::vector<Process>& list, Round& round);
  void ask(const Question& question, Round& round);

  const Nvml& nvml_;
  const nvml::Device device_;
  const Enrich enrich_;
  // Skips queries for a while: unsupported ones, such as the fan of a card without a fan, and slow
  // ones (the energy meter of an H200 takes 4 ms).
  struct Rest {
    Instant until{};
    Steady::duration last_took{};
  };
  std::array<Rest, kMetricCount> rests_;
  double budget_ = 0;
  std::optional<unsigned> link_count_, max_clock_;
  double utilization_ = 0;
  std::uint64_t samples_since_us_ = 0;
};

void NvidiaProbe::ask(const Question& question, Round& round) {
  if (round.gone()) return;
  const auto began = Steady::now();
  auto& rest = rests_[static_cast<std::size_t>(question.metric)];
  if (began < rest.until) return;
  const auto answer = question.ask(nvml_, device_);
  const auto took = Steady::now() - began;
  // Twice in a row: a single delay says nothing about the query.
  rest.until = began + rest_after(std::min(took, rest.last_took), budget_);
  rest.last_took = took;
  if (round.hear(answer)) return round.put(question.metric, answer.value);
  round.missing(question.metric);
  const bool never =
      answer.code == Return::not_supported || answer.code == Return::function_not_found;
  if (never) rest.until = began + kLongRest;
}

void NvidiaProbe::pulse(Round& round) {
  const auto busy = nvml_.utilization(device_);
  if (!round.hear(busy)) {
    round.missing(Metric::utilization);
    return round.missing(Metric::memory_activity);
  }
  utilization_ = busy.value.gpu;
  round.put(Metric::utilization, busy.value.gpu);
  round.put(Metric::memory_activity, busy.value.memory);
}

void NvidiaProbe::memory(Round& round) {
  const auto memory = nvml_.memory(device_);
  if (!round.hear(memory)) {
    for (const auto m :
         {Metric::memory_total, Metric::memory_used, Metric::memory_free, Metric::memory_reserved})
      round.missing(m);
    return;
  }
  const auto& bytes = memory.value;
  round.put(Metric::memory_total, static_cast<double>(bytes.total));
  round.put(Metric::memory_used, static_cast<double>(bytes.used));
  round.put(Metric::memory_free, static_cast<double>(bytes.free));
  if (bytes.reserved)
    round.put(Metric::memory_reserved, static_cast<double>(*bytes.reserved));
  else
    round.missing(Metric::memory_reserved);
}

void NvidiaProbe::clocks(Round& round) {
  constexpr double kBusy = 50;  // an idle GPU rests at a low clock: that says nothing
  const auto clock = nvml_.clock_mhz(device_, Clock::sm);
  if (!round.hear(clock)) {
    round.missing(Metric::sm_clock);
    return round.missing(Metric::clock_ratio);
  }
  round.put(Metric::sm_clock, clock.value);
  if (utilization_ >= kBusy && !max_clock_)  // the card's own: never changes
    if (const auto max = nvml_.max_clock_mhz(device_, Clock::sm); round.hear(max) && max.value)
      max_clock_ = max.value;
  if (utilization_ >= kBusy && max_clock_)
    return round.put(Metric::clock_ratio, 100.0 * clock.value / *max_clock_);
  round.missing(Metric::clock_ratio);
}

void NvidiaProbe::rows(Round& round) {
  const auto rows = nvml_.remapped_rows(device_);
  if (!round.hear(rows)) {
    for (const auto m : {Metric::rows_remapped_corrected, Metric::rows_remapped_uncorrected,
                         Metric::rows_pending, Metric::rows_failed})
      round.missing(m);
    return;
  }
  round.put(Metric::rows_remapped_corrected, rows.value.corrected);
  round.put(Metric::rows_remapped_uncorrected, rows.value.uncorrected);
  round.put(Metric::rows_pending, rows.value.pending);
  round.put(Metric::rows_failed, rows.value.failed);
}

void NvidiaProbe::links(Round& round) {
  unsigned count = 0, active = 0;
  bool sure = true;  // that there are no more: an error that may pass says nothing
  for (; count < link_count_.value_or(nvml::kMaxNvLinks) && !round.gone(); ++count) {
    const auto state = nvml_.nvlink_active(device_, count);
    if (!round.hear(state)) {
      sure = is_end_of_links(state.code);
      break;
    }
    active += state.value ? 1 : 0;
  }
  if (round.gone()) return;
  if (!sure) return round.missing(Metric::nvlink_active);
  if (!link_count_) link_count_ = count;
  if (*link_count_ == 0) return;
  round.put(Metric::nvlink_active, active);
  for (const auto& question : kLinks) ask(question, round);
}

void NvidiaProbe::slow(Round& round) {
  for (const auto& question : kSlow) ask(question, round);
  if (!round.gone()) clocks(round);
  if (!round.gone()) rows(round);
  if (!round.gone()) links(round);
}

void NvidiaProbe::add_utilization(std::vector<Process>& list, Round& round) {
  const auto samples = nvml_.process_utilization(device_, samples_since_us_);
  if (!round.hear(samples)) return;
  struct Sum {
    double sm = 0, memory = 0;
    int n = 0;
  };
  std::map<std::int64_t, Sum> sums;
  for (const auto& s : samples.value) {
    auto& sum = sums[s.pid];
    sum.sm += s.sm, sum.memory += s.memory, ++sum.n;
    samples_since_us_ = std::max(samples_since_us_, s.timestamp_us);
  }
  for (auto& process : list)
    if (const auto found = sums.find(process.pid); found != sums.end()) {
      process.utilization = found->second.sm / found->second.n;
      process.memory_activity = found->second.memory / found->second.n;
    }
}

void NvidiaProbe::processes(Round& round, Sample& sample) {
  const auto running = nvml_.processes(device_);
  if (!round.hear(running)) return round.missing(Metric::process_count);
  std::vector<Process> list;
  for (const auto& r : running.value) {
    // Graphics and compute lists may both name a process.
    const auto twice = std::ranges::find(list, r.pid, &Process::pid);
    if (twice != list.end()) continue;
    auto& p =
        list.emplace_back(Process{r.pid, "", "", std::string(name_of(r.kind)), r.memory, {}, {}});
    enrich_(p);
  }
  add_utilization(list, round);
  round.put(Metric::process_count, static_cast<double>(list.size()));
  sample.processes = std::move(list);
}

Outcome NvidiaProbe::read(Tier tier, Sample& sample, double budget) {
  budget_ = budget;
  Round round(sample);
  switch (tier) {
    case Tier::pulse: pulse(round); break;
    case Tier::fast:
      memory(round);
      for (const auto& question : kFast) ask(question, round);
      break;
    case Tier::slow: slow(round); break;
    case Tier::processes: processes(round, sample); break;
  }
  return round.outcome();
}

}  // namespace

Enrich enrich_from_demo(const Nvml& nvml) {
  using GetName = nvml::Return (*)(unsigned pid, char* name, unsigned size);
  const auto get_name = reinterpret_cast<GetName>(nvml.symbol("nvmlSystemGetProcessName"));
  return [get_name](Process& process) {
    char name[256] = "";
    if (get_name != nullptr &&
        get_name(static_cast<unsigned>(process.pid), name, sizeof name) == nvml::Return::success)
      process.name =
          printable(std::string_view(name).substr(std::string_view(name).rfind('/') + 1));
    process.user = "demo";
  };
}

std::unique_ptr<Probe> make_nvidia_probe(const Nvml& nvml, nvml::Device device, Enrich enrich) {
  return std::make_unique<NvidiaProbe>(nvml, device, std::move(enrich));
}

}  // namespace sluice::device
