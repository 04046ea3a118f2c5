// The pieces history is made of: one row is one device during one step.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sluice::watch {

struct Step {
  std::int64_t seconds;
  std::int64_t keep_s;
};
inline constexpr std::array<Step, 3> kSteps{{{1, 3600}, {10, 86400}, {300, 90 * 86400}}};

// Rows live a little longer than promised, so that "the last hour" is whole even
// for an asker whose clock is a little behind.
inline constexpr std::int64_t kept_for(const Step& step) { return step.keep_s + step.keep_s / 20; }

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
  std::size_t step;  // index into kSteps
  std::int64_t t;    // start, seconds since 1970, a multiple of the step
  std::vector<Entry> entries;
};

// One write transaction. Rows are additions: the same device, step and t may
// come again, in this batch or a later one. Numbers grow, so that a reader knows
// whether a batch is already part of what it read.
struct Batch {
  std::int64_t number = 0;
  std::vector<Row> rows;
  std::map<std::string, std::string> kept;
};

}  // namespace sluice::watch
