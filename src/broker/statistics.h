// Counts what happens to leases, and remembers the last that ended. Not thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <set>
#include <span>
#include <vector>

#include "broker/broker.h"

namespace sluice::broker {

// Times of the last grants.
class Latencies {
 public:
  void add(double s);
  double percentile(double p) const;  // 0..1; 0 without any

 private:
  static constexpr std::size_t kKept = 4096;
  std::vector<double> last_;
  std::size_t next_ = 0;
};

class Statistics {
 public:
  void count(const Change& change, const Lease& lease);
  void count_refused() { ++stats_.refused; }
  void add_grant(double s) { latencies_.add(s); }
  void show_ended(const Lease& lease);                                  // among recent()
  const std::deque<Lease>& recent() const noexcept { return recent_; }  // newest last
  // With the leases as they are now; without stores_failed.
  Broker::Stats stats(std::span<const Lease* const> live) const;

 private:
  void count_yield(const Lease& lease);

  Broker::Stats stats_;
  Latencies latencies_;
  std::deque<Lease> recent_;
  std::set<LeaseId> yielded_;  // ended on request; not all seen free yet
};

}  // namespace sluice::broker
