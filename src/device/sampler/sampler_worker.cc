#include "device/sampler/sampler_worker.h"

#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "base/error.h"

namespace sluice::device {

namespace {

Steady::duration seconds(double s) {
  return std::chrono::duration_cast<Steady::duration>(Seconds(s));
}

double thread_cpu_s() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

bool has(const std::vector<Tier>& tiers, Tier tier) {
  return std::ranges::find(tiers, tier) != tiers.end();
}

std::optional<double> memory_used(const Sample& sample) {
  const auto found =
      std::ranges::find(sample.values, Metric::memory_used, [](const auto& v) { return v.first; });
  return found == sample.values.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

void MessageWriter::send(const Message& message) {
  const auto line = encode(message);
  const std::lock_guard lock(mutex_);
  std::string_view left = line;
  while (!left.empty() && !closed_) {
    const auto n = ::send(fd_, left.data(), left.size(), MSG_NOSIGNAL);
    if (n > 0)
      left.remove_prefix(static_cast<std::size_t>(n));
    else if (errno != EINTR)
      closed_ = true;
  }
  last_sent_ = Steady::now().time_since_epoch().count();
}

double interval_of(Tier tier, const ScaledIntervals& intervals) noexcept {
  // However dear the driver is, a GPU is felt for once a second: a lost one must
  // show within two. The other tiers keep to whole pulses, for fewer wake-ups.
  constexpr double kPulse = 1;
  const auto& base = intervals.base;
  const double pulse = std::min(base.interval_s * intervals.scale, kPulse);
  const auto scaled = [&](double s) {
    return std::ceil(s * intervals.scale / pulse - 1e-6) * pulse;
  };
  switch (tier) {
    case Tier::pulse: return pulse;
    case Tier::fast: return scaled(base.interval_s);
    case Tier::slow: return scaled(base.slow_interval_s);
    case Tier::processes: return scaled(base.process_interval_s);
  }
  return pulse;
}

std::vector<Tier> Schedule::due(Instant now, const ScaledIntervals& intervals) {
  constexpr double kTogether = 0.04;
  std::vector<Tier> tiers;
  for (const auto tier : kTiers) {
    auto& next = next_[static_cast<std::size_t>(tier)];
    if (next > now + seconds(kTogether)) continue;
    tiers.push_back(tier);
    const auto interval = seconds(interval_of(tier, intervals));
    // Keeps the phase while in time, so that tiers coincide; a late tier is due one interval from
    // now.
    next = next + interval > now ? next + interval : now + interval;
  }
  return tiers;
}

Instant Schedule::next() const noexcept { return std::ranges::min(next_); }

void EarlyList::follow(std::optional<std::uint64_t> number) {
  if (number == number_) return;
  number_ = number;
  is_requested_ = number.has_value();
}

bool EarlyList::is_due(std::optional<double> memory_used, Instant now) const {
  constexpr double kMinChangeBytes = 32 << 20;  // half of what counts as over-use
  if (!number_ || now < rests_until_) return false;
  return is_requested_ || (memory_used && (!listed_used_ || std::abs(*memory_used - *listed_used_) >
                                                                kMinChangeBytes));
}

void EarlyList::listed(std::optional<double> memory_used) {
  is_requested_ = false;
  if (memory_used) listed_used_ = memory_used;
}

void EarlyList::took(Steady::duration how_long, double budget, Instant now) {
  constexpr double kTimesTheBudget = 10;
  rests_until_ = now + seconds(Seconds(how_long).count() / (budget * kTimesTheBudget));
}

void EarlyCost::add(double cpu_s, double driver_s) noexcept {
  cpu_ns_ += static_cast<std::int64_t>(cpu_s * 1e9);
  driver_ns_ += static_cast<std::int64_t>(driver_s * 1e9);
}

Worker::Worker(std::string uuid, std::unique_ptr<Probe> probe, MessageWriter& out,
               Listener& listener)
    : uuid_(std::move(uuid)), out_(out), listener_(listener), probe_(std::move(probe)) {
  thread_ = std::thread([this] { run(); });
}

Worker::~Worker() {
  stop();
  thread_.join();
}

void Worker::sample_now() {
  const std::lock_guard lock(mutex_);
  for (const auto tier : {Tier::pulse, Tier::fast, Tier::slow})
    schedule_.make_due(tier, Steady::now());
  wake_.notify_one();
}

void Worker::follow(std::optional<std::uint64_t> number) {
  const std::lock_guard lock(mutex_);
  early_.follow(number);
}

void Worker::lose(std::string why) {
  // Sent under the lock, as samples are: no sample follows the word that it is gone.
  const std::lock_guard lock(mutex_);
  if (gone_) return;
  gone_ = true;
  listener_.lost();
  out_.send(Trouble{uuid_, Steady::now(), std::move(why), true});
}

void Worker::revive(std::unique_ptr<Probe> probe) {
  const std::lock_guard lock(mutex_);
  probe_ = std::move(probe);
  gone_ = described_ = false;
  schedule_ = Schedule();
  wake_.notify_one();
}

bool Worker::is_gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

void Worker::stop() {
  const std::lock_guard lock(mutex_);
  stop_ = true;
  wake_.notify_one();
}

bool Worker::wait() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (stop_) return false;
    const auto next = schedule_.next();
    if (!gone_ && next <= Steady::now()) return true;
    if (gone_)
      wake_.wait(lock);
    else
      wake_.wait_until(lock, next);
  }
}

void Worker::run() {
  const CallScope scope(calls_);
  while (wait()) {
    if (!describe()) continue;
    const auto intervals = listener_.intervals();
    std::vector<Tier> tiers;
    {
      const std::lock_guard lock(mutex_);
      tiers = schedule_.due(Steady::now(), intervals);
    }
    round(tiers, intervals.base.budget);
    last_round_ = Steady::now().time_since_epoch().count();
  }
  finished_ = true;
}

bool Worker::describe() {
  std::shared_ptr<Probe> probe;
  {
    const std::lock_guard lock(mutex_);
    if (described_) return true;
    probe = probe_;
  }
  try {
    listener_.described(probe->describe());
  } catch (const Error& e) {
    lose(e.what());
    return false;
  }
  const std::lock_guard lock(mutex_);
  described_ = true;
  return true;
}

void Worker::round(const std::vector<Tier>& tiers, double budget) {
  std::shared_ptr<Probe> probe;
  {
    const std::lock_guard lock(mutex_);
    probe = probe_;
  }
  Sample sample;
  sample.gpu = uuid_;
  bool answered = false;
  Outcome last;
  for (const auto tier : tiers) {
    if (tier == Tier::processes) will_list(sample);
    last = probe->read(tier, sample, budget);
    answered = answered || last.answered;
    if (last.gone) break;
  }
  if (answered && !last.gone && has(tiers, Tier::fast) && !has(tiers, Tier::processes))
    if (const auto listed = list_early(*probe, sample, budget); listed.gone) last = listed;
  sample.at = Steady::now();
  if (last.gone || !answered) return report(last, sample.at);
  const std::lock_guard lock(mutex_);
  // The GPU was lost or replaced during the round: the values of the old handle are discarded.
  if (gone_ || probe != probe_) return;
  out_.send(sample);
}

// Called before the list is read: a request made meanwhile gets another one.
void Worker::will_list(const Sample& sample) {
  const std::lock_guard lock(mutex_);
  early_.listed(memory_used(sample));
}

// Along with a sample, so that it costs no wake-up and what it says is of the same moment.
Outcome Worker::list_early(Probe& probe, Sample& sample, double budget) {
  const auto used = memory_used(sample);
  const auto began = Steady::now();
  {
    const std::lock_guard lock(mutex_);
    if (!early_.is_due(used, began)) return {};
  }
  will_list(sample);
  const double cpu = thread_cpu_s(), driver = calls_.driver_s();
  const auto outcome = probe.read(Tier::processes, sample, budget);
  early_cost_.add(thread_cpu_s() - cpu, calls_.driver_s() - driver);
  const auto now = Steady::now();
  const std::lock_guard lock(mutex_);
  early_.took(now - began, budget, now);
  return outcome;
}

void Worker::report(const Outcome& outcome, Instant at) {
  if (outcome.gone) return lose(outcome.why);
  out_.send(Trouble{uuid_, at, outcome.why, false});
}

}  // namespace sluice::device
