#include "serve/traffic.h"

#include <algorithm>

namespace sluice::serve {

namespace {

constexpr auto kErrorWindow = std::chrono::seconds(60);

constexpr auto kBounds = [] {
  constexpr std::array<double, 10> steps = {1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8};
  std::array<double, kLatencyBuckets - 1> made{};
  double decade = 1e-6;
  for (std::size_t i = 0; i < made.size(); ++i) {
    made[i] = steps[i % steps.size()] * decade;
    if (i % steps.size() == steps.size() - 1) decade *= 10;
  }
  return made;
}();

std::size_t status_index(int status) noexcept {
  const auto found = std::ranges::find(kCountedStatuses, status);
  return std::min(static_cast<std::size_t>(found - kCountedStatuses.begin()),
                  kCountedStatuses.size() - 1);
}

}  // namespace

std::span<const double, kLatencyBuckets - 1> latency_bounds() noexcept { return kBounds; }

std::optional<double> latency_quantile(const LatencyCounts& counts, double quantile) {
  std::uint64_t total = 0;
  for (const auto n : counts) total += n;
  if (total == 0) return std::nullopt;
  const double rank = quantile * static_cast<double>(total);
  double below = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto here = static_cast<double>(counts[i]);
    if (here > 0 && below + here >= rank) {
      if (i == kBounds.size()) return kBounds.back();
      const double low = i == 0 ? 0 : kBounds[i - 1];
      return low + (kBounds[i] - low) * std::max(0.0, rank - below) / here;
    }
    below += here;
  }
  return kBounds.back();
}

void Traffic::Counters::request(std::size_t route, int status, double seconds) noexcept {
  add(by_route_[route * kCountedStatuses.size() + status_index(status)], 1);
  const auto bucket = std::ranges::lower_bound(kBounds, seconds) - kBounds.begin();
  add(latency_[static_cast<std::size_t>(bucket)], 1);
  add(nanoseconds_, static_cast<std::uint64_t>(seconds * 1e9));
}

Traffic::Traffic(std::size_t threads, std::vector<std::string> routes)
    : routes_(std::move(routes)) {
  routes_.emplace_back("unmatched");
  for (std::size_t i = 0; i < threads; ++i)
    counters_.push_back(std::make_unique<Counters>(routes_.size()));
}

Traffic::Totals Traffic::totals() const {
  constexpr auto relaxed = std::memory_order_relaxed;
  Totals sum;
  for (std::size_t r = 0; r < routes_.size(); ++r)
    for (std::size_t s = 0; s < kCountedStatuses.size(); ++s) {
      std::uint64_t n = 0;
      for (const auto& counters : counters_)
        n += counters->by_route_[r * kCountedStatuses.size() + s].load(relaxed);
      if (n == 0) continue;
      sum.requests.push_back({routes_[r], kCountedStatuses[s], n});
      sum.total += n;
      if (kCountedStatuses[s] == 500) sum.server_errors += n;
    }
  for (const auto& counters : counters_) {
    for (std::size_t b = 0; b < kLatencyBuckets; ++b)
      sum.latency[b] += counters->latency_[b].load(relaxed);
    sum.latency_sum_s += static_cast<double>(counters->nanoseconds_.load(relaxed)) * 1e-9;
    sum.bytes_sent += counters->bytes_.load(relaxed);
    sum.streams += static_cast<std::int64_t>(counters->streams_.load(relaxed));
  }
  sum.refused = refused.load(relaxed);
  sum.timed_out = timed_out.load(relaxed);
  sum.wrong_keys = wrong_keys.load(relaxed);
  sum.throttled_keys = throttled_keys.load(relaxed);
  sum.connections = connections.load(relaxed);
  return sum;
}

TrafficRates rates_between(const Traffic::Totals& before, const Traffic::Totals& now,
                           double seconds) {
  TrafficRates made;
  const auto requests = static_cast<double>(now.total - before.total);
  if (seconds <= 0 || requests <= 0) return made;
  made.rate = requests / seconds;
  LatencyCounts between;
  for (std::size_t i = 0; i < between.size(); ++i) between[i] = now.latency[i] - before.latency[i];
  const auto milli = [&](double q) {
    const auto s = latency_quantile(between, q);
    return s ? std::optional(*s * 1000) : std::nullopt;
  };
  made.p50_ms = milli(0.5);
  made.p99_ms = milli(0.99);
  return made;
}

double ErrorShare::add(const Traffic::Totals& totals, Instant now) {
  marks_.push_back({now, totals.total, totals.server_errors});
  while (marks_.size() > 2 && marks_[1].at <= now - kErrorWindow) marks_.pop_front();
  const auto requests = totals.total - marks_.front().total;
  const auto errors = totals.server_errors - marks_.front().errors;
  return requests == 0 ? 0 : 100 * static_cast<double>(errors) / static_cast<double>(requests);
}

}  // namespace sluice::serve
