// Which range of numbers a value has while a model runs on data like what it is made for.
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
  float low = 0, high = 0;  // 0 is between them
};

// How much of what was seen a range covers: all of it, or less where that makes the steps finer
// for the rest.
struct RangeMethod {
  enum class Kind {
    minmax,
    percentile,  // `percent` of the values
    entropy,     // where the steps lose least of the distribution's information
  } kind = Kind::minmax;
  double percent = 99.99;
};

// How often magnitudes were seen, in equal bins up to `most`.
struct Histogram {
  static constexpr std::size_t kBins = 2048;
  float most = 0;
  std::array<std::uint64_t, kBins> counts{};

  void add(std::span<const float> values);
};

// The magnitude up to which a range should reach.
float percentile_limit(const Histogram& histogram, double percent);
// `levels`: how many magnitudes can be told apart, 128 of 8 bits with a sign.
float entropy_limit(const Histogram& histogram, int levels);

// One set of inputs, in the order of the graph's.
using Sample = std::vector<Tensor>;

// The ranges of `values` while the graph runs on the samples, which `sample` gives as often as
// asked. `step` is called after each run with the share of the work that is done. Throws
// invalid_argument where a value is no number or infinite.
std::map<ValueId, ValueRange> find_ranges(const Graph& graph, const std::vector<ValueId>& values,
                                          std::size_t samples,
                                          const std::function<Sample(std::size_t)>& sample,
                                          const RangeMethod& method, compute::Workers& workers,
                                          const std::function<void(double)>& step);

}  // namespace sluice::engine
