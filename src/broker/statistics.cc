#include "broker/statistics.h"

#include <algorithm>

namespace sluice::broker {

namespace {

constexpr std::size_t kRecent = 64;

}  // namespace

void Latencies::add(double s) {
  if (last_.size() < kKept)
    last_.push_back(s);
  else
    last_[next_] = s;
  next_ = (next_ + 1) % kKept;
}

double Latencies::percentile(double p) const {
  if (last_.empty()) return 0;
  auto sorted = last_;
  const auto n = static_cast<std::ptrdiff_t>(static_cast<double>(sorted.size() - 1) * p);
  std::ranges::nth_element(sorted, sorted.begin() + n);
  return sorted[static_cast<std::size_t>(n)];
}

void Statistics::count(const Change& change, const Lease& lease) {
  switch (change.what) {
    case Change::What::granted: ++stats_.granted; return;
    case Change::What::yield_requested: ++stats_.yields_requested; return;
    case Change::What::over_use: ++stats_.over_uses; return;
    case Change::What::sent_to_cpu: ++stats_.sent_to_cpu; return;
    case Change::What::drained: return count_yield(lease);
    case Change::What::ended:
      if (lease.ending == EndReason::expired) ++stats_.expired;
      if (lease.ending == EndReason::holder_died) ++stats_.holders_died;
      if (lease.yield_requested_at != Instant{}) yielded_.insert(lease.id);
      return show_ended(lease);
    default: return;
  }
}

void Statistics::show_ended(const Lease& lease) {
  recent_.push_back(lease);
  if (recent_.size() > kRecent) recent_.pop_front();
}

// Counts the cost of a preemption once it is known of all its cards.
void Statistics::count_yield(const Lease& lease) {
  if (lease.state != State::ended || yielded_.erase(lease.id) == 0) return;
  if (lease.yield_freed_at == Instant{}) return;
  const auto shown = std::ranges::find(recent_, lease.id, &Lease::id);
  if (shown != recent_.end())
    shown->yield_freed_at = lease.yield_freed_at, shown->yield_kept = lease.yield_kept;
  ++stats_.yields_done;
  stats_.yield_s += seconds_between(lease.yield_requested_at, lease.yield_freed_at);
  stats_.yield_bytes += promised(lease) - lease.yield_kept;
}

Broker::Stats Statistics::stats(std::span<const Lease* const> live) const {
  auto stats = stats_;
  for (const auto* lease : live) {
    if (lease->state == State::waiting) ++stats.waiting;
    if (lease->state == State::on_cpu) ++stats.on_cpu;
    if (!is_held(*lease)) continue;
    ++stats.held;
    ++stats.held_by_tier[static_cast<std::size_t>(lease->enforcement)];
  }
  stats.grant_p50_s = latencies_.percentile(0.5);
  stats.grant_p99_s = latencies_.percentile(0.99);
  return stats;
}

}  // namespace sluice::broker
