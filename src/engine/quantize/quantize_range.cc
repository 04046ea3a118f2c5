#include "engine/quantize/quantize_range.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "engine/session/session.h"

namespace sluice::engine {
namespace {

constexpr int kLevels = 128;  // magnitudes of 8 bits with a sign

// The graph with `values` among its outputs, and where each of them is: an output, or, past
// those, an input.
class Watched {
 public:
  Watched(const Graph& graph, const std::vector<ValueId>& values, compute::Workers& workers)
      : values_(values), session_(with_outputs(graph), workers) {}

  // Calls body(i, value i) for one run.
  template <class Body>
  void run(const Sample& sample, const Body& body) const {
    const std::vector<Datum> given(sample.begin(), sample.end());
    const std::vector<Datum> made = session_.run(given);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const std::size_t at = places_[i];
      body(i, at < made.size() ? made[at].tensor : sample[at - made.size()]);
    }
  }

 private:
  Graph with_outputs(Graph graph) {
    std::vector<std::size_t> from_inputs;
    for (const ValueId value : values_) {
      const auto given = std::find(graph.inputs.begin(), graph.inputs.end(), value);
      const auto known = std::find(graph.outputs.begin(), graph.outputs.end(), value);
      if (given != graph.inputs.end()) {
        from_inputs.push_back(places_.size());
        places_.push_back(static_cast<std::size_t>(given - graph.inputs.begin()));
        continue;
      }
      places_.push_back(static_cast<std::size_t>(known - graph.outputs.begin()));
      if (known == graph.outputs.end()) graph.outputs.push_back(value);
    }
    for (const std::size_t i : from_inputs) places_[i] += graph.outputs.size();
    return graph;
  }

  std::vector<ValueId> values_;
  std::vector<std::size_t> places_;
  Session session_;
};

void widen(ValueRange& range, std::span<const float> values, const std::string& name) {
  float low = range.low, high = range.high, odd = 0;
  for (const float x : values) {
    low = std::min(low, x);
    high = std::max(high, x);
    odd += x * 0;  // not 0 where one is infinite or no number
  }
  if (!(odd == 0))
    throw Error(Code::invalid_argument,
                "'" + name + "' is infinite or not a number on this data: it has no range");
  range = {low, high};
}

float limit_of(const Histogram& histogram, const RangeMethod& method) {
  return method.kind == RangeMethod::Kind::percentile ? percentile_limit(histogram, method.percent)
                                                      : entropy_limit(histogram, kLevels);
}

// The information lost where counts[0, end), what is beyond among the last of them, are told
// apart in `levels` steps.
double divergence(const Histogram& h, std::size_t end, std::size_t levels) {
  std::vector<double> p(h.counts.begin(), h.counts.begin() + static_cast<std::ptrdiff_t>(end));
  for (std::size_t i = end; i < Histogram::kBins; ++i)
    p[end - 1] += static_cast<double>(h.counts[i]);
  double sum_p = 0, sum_q = 0;
  std::vector<double> q(end, 0.0);
  for (std::size_t level = 0; level < levels; ++level) {
    const std::size_t from = level * end / levels, to = (level + 1) * end / levels;
    double count = 0;
    std::size_t seen = 0;
    for (std::size_t i = from; i < to; ++i) {
      count += static_cast<double>(h.counts[i]);
      seen += p[i] > 0 ? 1 : 0;
    }
    for (std::size_t i = from; i < to; ++i)
      if (p[i] > 0) q[i] = count / static_cast<double>(seen);
  }
  for (std::size_t i = 0; i < end; ++i) sum_p += p[i], sum_q += q[i];
  if (sum_q == 0) return std::numeric_limits<double>::infinity();
  double lost = 0;
  for (std::size_t i = 0; i < end; ++i) {
    if (p[i] == 0) continue;
    const double least = 1e-9;  // where q has nothing of what p has
    lost += p[i] / sum_p * std::log(p[i] / sum_p / std::max(least, q[i] / sum_q));
  }
  return lost;
}

}  // namespace

void Histogram::add(std::span<const float> values) {
  if (most <= 0) return;
  const float by = static_cast<float>(kBins) / most;
  for (const float x : values)
    ++counts[std::min(kBins - 1, static_cast<std::size_t>(std::fabs(x) * by))];
}

float percentile_limit(const Histogram& histogram, double percent) {
  double all = 0, seen = 0;
  for (const std::uint64_t count : histogram.counts) all += static_cast<double>(count);
  std::size_t bins = 0;
  while (bins < Histogram::kBins && seen < all * percent / 100)
    seen += static_cast<double>(histogram.counts[bins++]);
  return histogram.most * static_cast<float>(std::max<std::size_t>(1, bins)) /
         static_cast<float>(Histogram::kBins);
}

float entropy_limit(const Histogram& histogram, int levels) {
  const auto steps = static_cast<std::size_t>(levels);
  double least = std::numeric_limits<double>::infinity();
  std::size_t best = Histogram::kBins;
  for (std::size_t end = steps; end <= Histogram::kBins; end += 16) {
    const double lost = divergence(histogram, end, steps);
    if (lost < least) least = lost, best = end;
  }
  return histogram.most * static_cast<float>(best) / static_cast<float>(Histogram::kBins);
}

std::map<ValueId, ValueRange> find_ranges(const Graph& graph, const std::vector<ValueId>& values,
                                          std::size_t samples,
                                          const std::function<Sample(std::size_t)>& sample,
                                          const RangeMethod& method, compute::Workers& workers,
                                          const std::function<void(double)>& step) {
  const Watched watched(graph, values, workers);
  const bool twice = method.kind != RangeMethod::Kind::minmax;
  const double runs = static_cast<double>(samples * (twice ? 2 : 1));
  std::vector<ValueRange> ranges(values.size());
  for (std::size_t k = 0; k < samples; ++k) {
    watched.run(sample(k), [&](std::size_t i, const Tensor& tensor) {
      widen(ranges[i], tensor.values<float>(), graph[values[i]].name);
    });
    step(static_cast<double>(k + 1) / runs);
  }
  if (twice) {
    std::vector<Histogram> seen(values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      seen[i].most = std::max(-ranges[i].low, ranges[i].high);
    for (std::size_t k = 0; k < samples; ++k) {
      watched.run(sample(k), [&](std::size_t i, const Tensor& tensor) {
        seen[i].add(tensor.values<float>());
      });
      step(static_cast<double>(samples + k + 1) / runs);
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float most = limit_of(seen[i], method);
      ranges[i] = {std::max(ranges[i].low, -most), std::min(ranges[i].high, most)};
    }
  }
  std::map<ValueId, ValueRange> found;
  for (std::size_t i = 0; i < values.size(); ++i) found[values[i]] = ranges[i];
  return found;
}

}  // namespace sluice::engine
