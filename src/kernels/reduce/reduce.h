// What the kernels are told that make several elements one.
#pragma once

#include <cstdint>

#include "kernels/common/launch_args.h"
#include "kernels/common/real_type.h"
#include "kernels/data_movement/moves.h"

namespace sluice::kernels::cuda {

inline constexpr int kMostGroups = 4;

// Axes of one fate, the outermost first; neighbours merged.
struct AxisGroups {
  int rank = 0;
  std::int64_t count = 1;  // of all combinations
  std::int64_t size[kMostGroups] = {}, step[kMostGroups] = {};
};

enum class Reduce { sum, mean, l1, l2, sum_square, log_sum, log_sum_exp, product, most, least };

struct ReduceCall {
  const void* from;
  void* to;
  AxisGroups kept, reduced;
  Reduce op;
};
void run_reduce(NumberType type, const ReduceCall& call, const LaunchArgs& args);

// Groups of elements brought to a mean of 0 and a variance of 1.
void run_mean_variance(RealType type, const ReduceCall& call, const LaunchArgs& args);

// Along the middle of outer x n x inner: the place of the largest (or least).
struct ArgCall {
  const void* from;
  std::int64_t* to;
  std::int64_t outer, n, inner;
  bool most, last;  // last of equals, otherwise the first
};
void run_arg(NumberType type, const ArgCall& call, const LaunchArgs& args);

// The k largest (or least), in order; the first of equals first.
struct TopCall {
  const void* from;
  void* values;           // or null
  std::int64_t* indices;  // or null
  std::int64_t outer, n, inner, k;
  bool most;
};
void run_top(NumberType type, const TopCall& call, const LaunchArgs& args);

}  // namespace sluice::kernels::cuda
