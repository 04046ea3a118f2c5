// Request counters by route and status, and latency histograms. Each thread writes its own
// counters without locks; readers add them up.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace sluice::serve {

// Upper bounds in seconds: ten per decade from 1 us to 10 s, and what is above.
inline constexpr std::size_t kLatencyBuckets = 71;
std::span<const double, kLatencyBuckets - 1> latency_bounds() noexcept;
using LatencyCounts = std::array<std::uint64_t, kLatencyBuckets>;

// The statuses counted by themselves; any other counts as the last one, 0.
inline constexpr std::array<int, 21> kCountedStatuses = {200, 204, 304, 400, 401, 403, 404,
                                                         405, 408, 413, 414, 415, 417, 421,
                                                         429, 431, 500, 501, 503, 505, 0};

// Within `counts`, interpolated; nothing when they are all zero.
std::optional<double> latency_quantile(const LatencyCounts& counts, double quantile);

class Traffic {
 public:
  // The counters of one thread, which is the only writer. Any thread may read.
  class Counters {
   public:
    explicit Counters(std::size_t routes) : by_route_(routes * kCountedStatuses.size()) {}

    void request(std::size_t route, int status, double seconds) noexcept;
    void sent(std::size_t bytes) noexcept { add(bytes_, bytes); }
    void streams(std::int64_t change) noexcept {
      add(streams_, static_cast<std::uint64_t>(change));
    }

   private:
    friend class Traffic;
    using Count = std::atomic<std::uint64_t>;
    static void add(Count& to, std::uint64_t n) noexcept {
      to.store(to.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    }

    std::vector<Count> by_route_;  // (routes, kCountedStatuses)
    std::array<Count, kLatencyBuckets> latency_{};
    Count nanoseconds_{0}, bytes_{0}, streams_{0};
  };

  // `routes`: names for the exposition; one more is added for what matches none.
  Traffic(std::size_t threads, std::vector<std::string> routes);

  Counters& counters(std::size_t thread) noexcept { return *counters_[thread]; }
  std::size_t unmatched() const noexcept { return routes_.size() - 1; }

  std::atomic<std::int64_t> connections{0};      // open now
  std::atomic<std::uint64_t> refused{0};         // over the limit
  std::atomic<std::uint64_t> timed_out{0};       // closed for being slow
  std::atomic<std::uint64_t> wrong_keys{0};      // sent
  std::atomic<std::uint64_t> throttled_keys{0};  // not looked at: too many wrong ones before

  struct Totals {
    struct Row {
      std::string_view route;
      int status;  // 0: any other
      std::uint64_t count;
    };
    std::vector<Row> requests;  // those that occurred
    LatencyCounts latency{};
    double latency_sum_s = 0;
    std::uint64_t total = 0, server_errors = 0, bytes_sent = 0, refused = 0, timed_out = 0;
    std::uint64_t wrong_keys = 0, throttled_keys = 0;
    std::int64_t connections = 0, streams = 0;
  };
  Totals totals() const;

 private:
  std::vector<std::string> routes_;
  std::vector<std::unique_ptr<Counters>> counters_;  // each on its own cache lines
};

// Request rate and latencies over one interval, for the dashboard and the alert rules.
struct TrafficRates {
  double rate = 0;                       // per second
  std::optional<double> p50_ms, p99_ms;  // nothing when there was no request
};
TrafficRates rates_between(const Traffic::Totals& before, const Traffic::Totals& now,
                           double seconds);

// The share of requests answered 500, over the last minute (503 and the like are limits that hold,
// or have alerts of their own): a second of a quiet
// server holds one request or none, and its share says nothing. Not thread-safe.
class ErrorShare {
 public:
  // `totals` of now, about once a second. Percent; 0 when a minute had no request.
  double add(const Traffic::Totals& totals, Instant now);

 private:
  struct Mark {
    Instant at;
    std::uint64_t total, errors;
  };
  std::deque<Mark> marks_ = {{Instant::min(), 0, 0}};  // the first is where the minute begins
};

}  // namespace sluice::serve
