// The rows of history: one row holds the metrics of one device during one step of a resolution.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sluice::watch {

struct Resolution {
  std::int64_t seconds;  // of a step
  std::int64_t keep_s;   // how long its rows are kept
};
inline constexpr std::array<Resolution, 3> kResolutions{
    {{1, 3600}, {10, 86400}, {300, 90 * 86400}}};

// Rows are kept 5 % longer than promised, so that "the last hour" is complete even for a client
// whose clock is behind.
inline constexpr std::int64_t kept_for(const Resolution& resolution) {
  return resolution.keep_s + resolution.keep_s / 20;
}

struct Agg {
  double min = 0, max = 0, sum = 0;
  std::uint32_t n = 0;

  double mean() const noexcept { return sum / n; }
  void add(double value) noexcept { merge({value, value, value, 1}); }
  void merge(const Agg& other) noexcept {
    if (other.n == 0) return;
    min = n == 0 ? other.min : std::min(min, other.min);
    max = n == 0 ? other.max : std::max(max, other.max);
    sum += other.sum;
    n += other.n;
  }
};

struct Entry {
  std::uint32_t id;  // a device::Metric; inside a file's blob the file's own number for it
  Agg agg;
};

struct Row {
  std::string device;
  std::size_t resolution;  // index into kResolutions
  std::int64_t t;          // start, seconds since 1970, a multiple of the step's seconds
  std::vector<Entry> entries;
};

// One write transaction. Rows are additions: the same device, resolution and t may
// come again, in this batch or a later one. Numbers grow, so that a reader knows
// whether a batch is already part of what it read.
struct Batch {
  std::int64_t number = 0;
  std::vector<Row> rows;
  std::map<std::string, std::string> kept;
};

}  // namespace sluice::watch
