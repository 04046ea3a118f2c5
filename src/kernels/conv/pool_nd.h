// MaxPool, AveragePool, LpPool and LRN on tensors [batch, channels, ...] with one to three spatial
// axes.
#pragma once

#include <cstdint>

#include "kernels/common/launch_args.h"
#include "kernels/common/real_type.h"

namespace sluice::kernels::cuda {

struct PoolAxis {
  int in, out, kernel, stride, dilation, before, after;  // before, after: padding
};

struct PoolNdCall {
  enum class Kind { max, average, lp } kind;
  const void* from;
  void* to;
  std::int64_t* indices;  // of the maxima; may be null
  std::int64_t channels;  // batch * channels
  PoolAxis axis[3];       // with fewer than three axes, the first have size 1
  float p;                // of lp
  bool counts_padding;    // count_include_pad of average
  bool column_major;      // storage_order of the indices
};
void run_pool_nd(RealType type, const PoolNdCall& call, const LaunchArgs& args);

// y = x / (bias + alpha * sum of x^2 over neighbouring channels)^beta.
struct LrnCall {
  const void* from;
  void* to;
  std::int64_t images, channels, pixels;
  int before, after;        // neighbouring channels
  float alpha, beta, bias;  // alpha is divided by the size already
};
void run_lrn(RealType type, const LrnCall& call, const LaunchArgs& args);

}  // namespace sluice::kernels::cuda
