#include "memory/trace/replay.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/quantile.h"
#include "base/units.h"

namespace sluice::memory {

namespace {

constexpr std::size_t kUnlimited = static_cast<std::size_t>(-1);
constexpr std::size_t kGranule = 2 << 20;
constexpr std::size_t kSamples = 1000;  // of the averages over time

using Step = std::function<void()>;  // called after each walk through the trace

// Enough addresses for any strategy; they cost nothing.
std::size_t addresses_for(const Trace& trace) {
  return round_up(std::max<std::size_t>(trace.header.peak_live_bytes, 1 << 30) * 16, 1 << 30);
}

// One pool and the blocks it has out, by their number in the trace.
class Player {
 public:
  Player(const Trace& trace, const PoolOptions& options)
      : arena_(addresses_for(trace)),
        pool_("replay", arena_, options),
        out_(trace.header.allocations, nullptr) {}
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;
  ~Player() {
    for (std::size_t i = 0; i < out_.size(); ++i)
      if (out_[i] != nullptr) pool_.deallocate(out_[i], sizes_[i]);
  }

  void keep_sizes(const Trace& trace) {
    sizes_.resize(out_.size());
    for (const auto& event : trace.events) sizes_[event.block] = event.bytes;
  }

  // False when the pool was exhausted.
  bool allocate(const TraceEvent& event) {
    try {
      out_[event.block] = pool_.allocate(event.bytes);
      return true;
    } catch (const Error&) {
      return false;
    }
  }
  bool is_out(const TraceEvent& event) const { return out_[event.block] != nullptr; }
  void free(const TraceEvent& event) {
    pool_.deallocate(std::exchange(out_[event.block], nullptr), event.bytes);
  }

  const Pool& pool() const { return pool_; }

 private:
  ImaginaryArena arena_;
  Pool pool_;
  std::vector<void*> out_;
  std::vector<std::size_t> sizes_;
};

double share(double part, double of) { return of > 0 ? part / of : 0; }

// Averages that weigh a state by how long it lasted.
class OverTime {
 public:
  explicit OverTime(const Trace& trace) : every_(trace.events.size() / kSamples + 1) {}

  void after(std::size_t index, const TraceEvent& event, const Pool& pool) {
    if (index % every_ != 0) return;
    const auto time = static_cast<double>(event.time_us);
    if (index > 0) {
      scattered_ += (time - since_) * now_.external_fragmentation;
      stranded_ += (time - since_) * static_cast<double>(now_.stranded);
      free_ += (time - since_) * static_cast<double>(now_.committed - now_.taken);
      lasted_ += time - since_;
    }
    now_ = pool.statistics();
    since_ = time;
  }

  double scattered() const { return share(scattered_, lasted_); }
  double stranded() const { return share(stranded_, free_); }

 private:
  const std::size_t every_;
  PoolStatistics now_;
  double since_ = 0, scattered_ = 0, stranded_ = 0, free_ = 0, lasted_ = 0;
};

ReplayFigures figures_of(const PoolStatistics& s, const PoolOptions& options) {
  ReplayFigures figures;
  figures.ceiling = options.ceiling;
  figures.peak_used = s.peak_used;
  figures.peak_taken = s.peak_taken;
  figures.peak_committed = s.peak_committed;
  figures.efficiency = s.efficiency;
  const auto taken = static_cast<double>(s.peak_taken);
  figures.internal = 1 - share(static_cast<double>(s.peak_used), taken);
  figures.external = 1 - share(taken, static_cast<double>(s.peak_committed));
  figures.commits = s.commits;
  figures.remapped_bytes = s.remapped_bytes;
  figures.failures = s.failures;
  return figures;
}

ReplayFigures observe(const Trace& trace, const PoolOptions& options) {
  Player player(trace, options);
  player.keep_sizes(trace);
  OverTime over_time(trace);
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const auto& event = trace.events[i];
    if (!event.free)
      player.allocate(event);
    else if (player.is_out(event))
      player.free(event);
    over_time.after(i, event, player.pool());
  }
  auto figures = figures_of(player.pool().statistics(), options);
  figures.scattered = over_time.scattered();
  figures.stranded = over_time.stranded();
  return figures;
}

bool serves_all(const Trace& trace, const PoolOptions& options) {
  Player player(trace, options);
  player.keep_sizes(trace);
  for (const auto& event : trace.events) {
    if (event.free)
      player.free(event);
    else if (!player.allocate(event))
      return false;
  }
  return true;
}

// Returns the minimum ceiling, to a granule, at which every request is served; `enough` is one.
std::size_t min_ceiling(const Trace& trace, PoolOptions options, std::size_t enough,
                        const Step& step) {
  std::size_t too_little = trace.header.peak_live_bytes / kGranule;
  std::size_t enough_granules = enough / kGranule;
  if (too_little > 0) --too_little;
  for (; enough_granules > too_little + 1; step()) {
    const auto middle = too_little + (enough_granules - too_little) / 2;
    options.ceiling = middle * kGranule;
    (serves_all(trace, options) ? enough_granules : too_little) = middle;
  }
  return enough_granules * kGranule;
}

// Replays in memory of which 95 % is used at the peak, where that is more than the minimum.
std::optional<ReplayFigures> with_spare(const Trace& trace, PoolOptions minimal) {
  const auto peak = static_cast<double>(trace.header.peak_live_bytes);
  const auto ceiling = static_cast<std::size_t>(peak / 0.95) / kGranule * kGranule;
  if (ceiling <= minimal.ceiling) return std::nullopt;
  minimal.ceiling = ceiling;
  const auto figures = observe(trace, minimal);
  return figures.failures > 0 ? std::nullopt : std::optional(figures);
}

// ---- times ---------------------------------------------------------------------------

double nanoseconds(Instant from, Instant to) {
  return std::chrono::duration<double, std::nano>(to - from).count();
}

// The overhead of two clock reads with nothing between them.
double clock_overhead() {
  std::vector<double> costs(10'001);
  for (auto& cost : costs) {
    const auto from = Steady::now();
    cost = nanoseconds(from, Steady::now());
  }
  return quantile(std::move(costs), 0.5);
}

ReplayTimes timed_pass(const Trace& trace, const PoolOptions& options, double overhead) {
  Player player(trace, options);
  player.keep_sizes(trace);
  std::vector<double> allocations, frees;
  allocations.reserve(trace.header.allocations);
  frees.reserve(trace.header.frees);
  for (const auto& event : trace.events) {
    if (event.free && !player.is_out(event)) continue;
    const auto from = Steady::now();
    if (event.free)
      player.free(event);
    else
      player.allocate(event);
    const auto took = std::max(0.0, nanoseconds(from, Steady::now()) - overhead);
    (event.free ? frees : allocations).push_back(took);
  }
  ReplayTimes times{quantile(allocations, 0.5), quantile(allocations, 0.99), quantile(frees, 0.5),
                    quantile(frees, 0.99), 0};
  times.quietest_pair = times.allocate_p50 + times.free_p50;
  return times;
}

ReplayTimes times_of(const Trace& trace, const PoolOptions& options, int passes, const Step& step) {
  const double overhead = clock_overhead();
  std::vector<ReplayTimes> all;
  for (int i = 0; i < passes; ++i, step()) all.push_back(timed_pass(trace, options, overhead));
  ReplayTimes times;
  for (const auto field : {&ReplayTimes::allocate_p50, &ReplayTimes::allocate_p99,
                           &ReplayTimes::free_p50, &ReplayTimes::free_p99}) {
    std::vector<double> values;
    for (const auto& pass : all) values.push_back(pass.*field);
    times.*field = quantile(std::move(values), 0.5);
  }
  times.quietest_pair =
      std::ranges::min_element(all, {}, &ReplayTimes::quietest_pair)->quietest_pair;
  return times;
}

}  // namespace

ReplayResult replay(const Trace& trace, StrategyKind strategy, const ReplayOptions& options,
                    const ReplayProgress& progress) {
  require(options.passes > 0, "at least one pass must be timed");
  constexpr int kSearch = 11;  // walks of a search, about
  const int walks = options.ceiling ? options.passes + 1 : 2 * (options.passes + 1) + kSearch;
  int walked = 0;
  const Step step = [&] {
    ++walked;
    if (progress) progress(std::min(1.0, static_cast<double>(walked) / walks));
  };
  ReplayResult result;
  result.strategy = strategy;
  PoolOptions pool{strategy, 0, options.growth, options.ceiling.value_or(kUnlimited)};
  if (!options.ceiling) {
    result.roomy = observe(trace, pool);
    step();
    result.roomy_times = times_of(trace, pool, options.passes, step);
    pool.ceiling = min_ceiling(trace, pool, result.roomy->peak_committed, step);
  }
  result.figures = observe(trace, pool);
  step();
  result.times = times_of(trace, pool, options.passes, step);
  if (!options.ceiling) result.spare = with_spare(trace, pool);
  return result;
}

}  // namespace sluice::memory
