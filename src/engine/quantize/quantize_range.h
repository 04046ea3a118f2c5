// Calibration: the ranges of values while a model runs on representative data.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "compute/workers.h"
#include "engine/graph/graph.h"

namespace sluice::engine {

struct ValueRange {
  float low = 0, high = 0;  // the range includes 0
};

// How a range is chosen from the observed values: all of them, or fewer for a higher resolution.
struct RangeMethod {
  enum class Kind {
    minmax,
    percentile,  // covers `percent` of the values
    entropy,     // minimizes the KL divergence of the quantized distribution
  } kind = Kind::minmax;
  double percent = 99.99;
};

// Counts of magnitudes in equal bins up to `max`.
struct Histogram {
  static constexpr std::size_t kBins = 2048;
  float max = 0;
  std::array<std::uint64_t, kBins> counts{};

  void add(std::span<const float> values);
};

// The magnitude that a range should cover.
float percentile_limit(const Histogram& histogram, double percent);
// `levels`: the number of quantized magnitudes, 128 for signed 8 bits.
float entropy_limit(const Histogram& histogram, int levels);

// One set of inputs, in graph order.
using Sample = std::vector<Tensor>;

// The ranges of `values` while the graph runs on the samples; `sample` may be called repeatedly for
// the same index. `progress` is called after each run with the completed fraction. Throws
// invalid_argument if a value is NaN or infinite.
std::map<ValueId, ValueRange> find_ranges(const Graph& graph, const std::vector<ValueId>& values,
                                          std::size_t samples,
                                          const std::function<Sample(std::size_t)>& sample,
                                          const RangeMethod& method, compute::Workers& workers,
                                          const std::function<void(double)>& progress);

}  // namespace sluice::engine
