// Plans a query (its step, and the resolution to read) and builds the answer from the rows read.
#pragma once

#include <bitset>
#include <cstdint>
#include <vector>

#include "base/json.h"
#include "device/metric.h"
#include "watch/history/history_row.h"
#include "watch/trend.h"

namespace sluice::watch {

struct QueryPlan {
  std::size_t source;     // index into kResolutions of the rows to read
  std::int64_t step_s;    // of the answer: a multiple of the source's
  std::int64_t from, to;  // first and last step of the answer, seconds
  std::int64_t end;       // rows from here on are no part of it
};

// Returns the finest step that reaches back to `from_s` and needs at most `points` points
// (1 or more) for from_s..to_s; rows are read from the coarsest source that divides it.
// Steps are round: 1, 2, 5, 10, 20, 30 s, 1, 2, 5, 10, 15, 30 min, 1 h, … days. One
// point is the range alone, in a step that begins with it: the next round one that is long
// enough.
QueryPlan plan_query(std::int64_t from_s, std::int64_t to_s, std::int64_t points,
                     std::int64_t now_s);

using MetricSet = std::bitset<device::kMetricCount>;

// Merges rows into the steps of a plan.
class Downsampler {
 public:
  Downsampler(const QueryPlan& plan, const MetricSet& selected);

  void add(const Row& row);

  // {"unit", "t", "mean", "min", "max"} of one metric; with nulls where values are
  // missing for more than 2.5 times their usual distance.
  Json json(device::Metric metric) const;
  std::vector<Point> points(device::Metric metric) const;  // means, at the middle of their step
  bool has(device::Metric metric) const;

 private:
  std::vector<std::size_t> filled(device::Metric metric) const;

  QueryPlan plan_;
  MetricSet selected_;
  std::array<std::vector<Agg>, device::kMetricCount> aggs_;  // by step; empty until used
};

}  // namespace sluice::watch
