// Resize along one axis: each output element is a weighted sum of neighbouring inputs.
#pragma once

#include <cstdint>

#include "kernels/common/launch_args.h"
#include "kernels/common/real_type.h"

namespace sluice::kernels::cuda {

struct ResizeAxis {
  const void* from;
  void* to;
  RealType from_type, to_type;  // one of them f32, or both the same
  const std::int32_t* first;    // first input of each output; INT_MIN: it is extrapolation_value
  const float* weights;
  std::int64_t outer, size, out_size, inner;
  int taps;
  float extrapolation_value;
};
void run_resize_axis(const ResizeAxis& call, const LaunchArgs& args);

}  // namespace sluice::kernels::cuda
