#include "memory/trace/trace_summary.h"

#include <algorithm>
#include <map>

namespace sluice::memory {

namespace {

using Size = TraceSummary::Size;
using Bucket = TraceSummary::Bucket;

constexpr std::size_t kListed = 8;

class Histogram {
 public:
  Histogram(std::uint64_t first, std::uint64_t factor) : factor_(factor), buckets_{{first, 0, 0}} {}

  void add(std::uint64_t value, std::uint64_t bytes) {
    while (buckets_.back().up_to < value) buckets_.push_back({next(), 0, 0});
    auto& bucket = *std::ranges::lower_bound(buckets_, value, {}, &Bucket::up_to);
    ++bucket.count;
    bucket.bytes += bytes;
  }

  std::vector<Bucket> taken() && { return std::move(buckets_); }

 private:
  std::uint64_t next() const {
    const auto last = buckets_.back().up_to;
    return last > UINT64_MAX / factor_ ? UINT64_MAX : last * factor_;
  }
  std::uint64_t factor_;
  std::vector<Bucket> buckets_;
};

template <class Order>
std::vector<Size> first_of(const std::map<std::uint64_t, std::uint64_t>& counts, Order order) {
  std::vector<Size> sizes;
  for (const auto& [bytes, count] : counts) sizes.push_back({bytes, count});
  std::ranges::stable_sort(sizes, std::ranges::greater{}, order);
  sizes.resize(std::min(sizes.size(), kListed));
  return sizes;
}

std::uint64_t median(std::vector<std::uint64_t> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// The high-water mark of each interval and of the whole trace.
void follow(const Trace& trace, std::size_t moments, TraceSummary& summary) {
  const std::uint64_t length = summary.duration_us / std::max<std::size_t>(moments, 1) + 1;
  for (std::size_t i = 0; i < moments; ++i) summary.over_time.push_back({i * length, 0});
  std::uint64_t live = 0, blocks = 0, peak = 0;
  std::size_t now = 0;
  for (const auto& event : trace.events) {
    for (; now + 1 < moments && event.time_us >= (now + 1) * length; ++now)
      summary.over_time[now + 1].live_bytes = live;
    live = event.free ? live - event.bytes : live + event.bytes;
    blocks = event.free ? blocks - 1 : blocks + 1;
    if (live > peak) {
      peak = live;
      summary.peak_time_us = event.time_us;
    }
    summary.peak_blocks = std::max(summary.peak_blocks, blocks);
    if (moments > 0) {
      auto& here = summary.over_time[now].live_bytes;
      here = std::max(here, live);
    }
  }
  for (++now; now < moments; ++now) summary.over_time[now].live_bytes = live;
}

}  // namespace

TraceSummary summarize(const Trace& trace, std::size_t moments) {
  TraceSummary summary;
  Histogram sizes(256, 4), lifetimes(10, 10);
  std::map<std::uint64_t, std::uint64_t> by_size, left;
  std::vector<std::uint64_t> lived, born(trace.header.allocations, 0);
  for (const auto& event : trace.events) {
    summary.duration_us = event.time_us;
    if (event.free) {
      lived.push_back(event.time_us - born[event.block]);
      lifetimes.add(lived.back(), event.bytes);
      if (--left[event.bytes] == 0) left.erase(event.bytes);
    } else {
      born[event.block] = event.time_us;
      sizes.add(event.bytes, event.bytes);
      ++by_size[event.bytes];
      ++left[event.bytes];
    }
  }
  summary.sizes = std::move(sizes).taken();
  summary.lifetimes = std::move(lifetimes).taken();
  summary.median_lifetime_us = median(std::move(lived));
  summary.largest = first_of(by_size, [](const Size& s) { return s.bytes; });
  summary.most_frequent = first_of(by_size, [](const Size& s) { return s.count; });
  summary.live_at_end = first_of(left, [](const Size& s) { return s.bytes * s.count; });
  follow(trace, moments, summary);
  return summary;
}

}  // namespace sluice::memory
