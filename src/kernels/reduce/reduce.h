// Reductions, ArgMax, ArgMin and TopK on CUDA.
#pragma once

#include <cstdint>

#include "kernels/common/launch_args.h"
#include "kernels/common/real_type.h"
#include "kernels/data_movement/data_movement.h"

namespace sluice::kernels::cuda {

inline constexpr int kMaxAxisGroups = 4;

// Axes that are all kept or all reduced, the outermost first; neighbouring axes are merged.
struct AxisGroups {
  int rank = 0;
  std::int64_t count = 1;  // product of the sizes
  std::int64_t size[kMaxAxisGroups] = {}, stride[kMaxAxisGroups] = {};
};

enum class Reduce { sum, mean, l1, l2, sum_square, log_sum, log_sum_exp, product, max, min };

struct ReduceCall {
  const void* from;
  void* to;
  AxisGroups kept, reduced;
  Reduce op;
};
void run_reduce(NumberType type, const ReduceCall& call, const LaunchArgs& args);

// MeanVarianceNormalization: the reduced elements get a mean of 0 and a variance of 1.
void run_mean_variance(RealType type, const ReduceCall& call, const LaunchArgs& args);

// ArgMax and ArgMin along the middle axis of outer x n x inner.
struct ArgReduceCall {
  const void* from;
  std::int64_t* to;
  std::int64_t outer, n, inner;
  bool max;                // false: ArgMin
  bool select_last_index;  // of equal elements
};
void run_arg_reduce(NumberType type, const ArgReduceCall& call, const LaunchArgs& args);

// TopK along the middle axis, sorted; of equal elements the first comes first.
struct TopKCall {
  const void* from;
  void* values;           // or null
  std::int64_t* indices;  // or null
  std::int64_t outer, n, inner, k;
  bool largest;  // false: the smallest
};
void run_top_k(NumberType type, const TopKCall& call, const LaunchArgs& args);

}  // namespace sluice::kernels::cuda
