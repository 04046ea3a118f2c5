#include "engine/quantize/quantize_range.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "engine/session/session.h"

namespace sluice::engine {
namespace {

constexpr int kLevels = 128;  // magnitudes of signed 8 bits

// Runs the graph with `values` added to its outputs. Indices past the outputs refer to inputs.
class Observer {
 public:
  Observer(const Graph& graph, const std::vector<ValueId>& values, compute::Workers& workers)
      : values_(values), session_(with_outputs(graph), workers) {}

  // Calls body(i, value i) for one run.
  template <class Body>
  void run(const Sample& sample, const Body& body) const {
    const std::vector<Datum> given(sample.begin(), sample.end());
    const std::vector<Datum> made = session_.run(given);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const std::size_t at = indices_[i];
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
        from_inputs.push_back(indices_.size());
        indices_.push_back(static_cast<std::size_t>(given - graph.inputs.begin()));
        continue;
      }
      indices_.push_back(static_cast<std::size_t>(known - graph.outputs.begin()));
      if (known == graph.outputs.end()) graph.outputs.push_back(value);
    }
    for (const std::size_t i : from_inputs) indices_[i] += graph.outputs.size();
    return graph;
  }

  std::vector<ValueId> values_;
  std::vector<std::size_t> indices_;
  Session session_;
};

void widen(ValueRange& range, std::span<const float> values, const std::string& name) {
  float low = range.low, high = range.high, odd = 0;
  for (const float x : values) {
    low = std::min(low, x);
    high = std::max(high, x);
    odd += x * 0;  // NaN if any value is infinite or NaN
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

// The KL divergence of quantizing counts[0, end) to `levels` levels, with values beyond clamped to
// the last bin.
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
  double sum = 0;
  for (std::size_t i = 0; i < end; ++i) {
    if (p[i] == 0) continue;
    const double min = 1e-9;  // smoothing where q is 0
    sum += p[i] / sum_p * std::log(p[i] / sum_p / std::max(min, q[i] / sum_q));
  }
  return sum;
}

}  // namespace

void Histogram::add(std::span<const float> values) {
  if (max <= 0) return;
  const float by = static_cast<float>(kBins) / max;
  for (const float x : values)
    ++counts[std::min(kBins - 1, static_cast<std::size_t>(std::fabs(x) * by))];
}

float percentile_limit(const Histogram& histogram, double percent) {
  double all = 0, seen = 0;
  for (const std::uint64_t count : histogram.counts) all += static_cast<double>(count);
  std::size_t bins = 0;
  while (bins < Histogram::kBins && seen < all * percent / 100)
    seen += static_cast<double>(histogram.counts[bins++]);
  return histogram.max * static_cast<float>(std::max<std::size_t>(1, bins)) /
         static_cast<float>(Histogram::kBins);
}

float entropy_limit(const Histogram& histogram, int levels) {
  double min = std::numeric_limits<double>::infinity();
  std::size_t best = Histogram::kBins;
  for (auto end = static_cast<std::size_t>(levels); end <= Histogram::kBins; end += 16) {
    const double loss = divergence(histogram, end, static_cast<std::size_t>(levels));
    if (loss < min) min = loss, best = end;
  }
  return histogram.max * static_cast<float>(best) / static_cast<float>(Histogram::kBins);
}

std::map<ValueId, ValueRange> find_ranges(const Graph& graph, const std::vector<ValueId>& values,
                                          std::size_t samples,
                                          const std::function<Sample(std::size_t)>& sample,
                                          const RangeMethod& method, compute::Workers& workers,
                                          const std::function<void(double)>& progress) {
  const Observer observer(graph, values, workers);
  const bool twice = method.kind != RangeMethod::Kind::minmax;
  const double runs = static_cast<double>(samples * (twice ? 2 : 1));
  std::vector<ValueRange> ranges(values.size());
  for (std::size_t k = 0; k < samples; ++k) {
    observer.run(sample(k), [&](std::size_t i, const Tensor& tensor) {
      widen(ranges[i], tensor.values<float>(), graph[values[i]].name);
    });
    progress(static_cast<double>(k + 1) / runs);
  }
  if (twice) {
    std::vector<Histogram> seen(values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      seen[i].max = std::max(-ranges[i].low, ranges[i].high);
    for (std::size_t k = 0; k < samples; ++k) {
      observer.run(sample(k), [&](std::size_t i, const Tensor& tensor) {
        seen[i].add(tensor.values<float>());
      });
      progress(static_cast<double>(samples + k + 1) / runs);
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float max = limit_of(seen[i], method);
      ranges[i] = {std::max(ranges[i].low, -max), std::min(ranges[i].high, max)};
    }
  }
  std::map<ValueId, ValueRange> found;
  for (std::size_t i = 0; i < values.size(); ++i) found[values[i]] = ranges[i];
  return found;
}

}  // namespace sluice::engine
