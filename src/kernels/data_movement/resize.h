// One axis of a tensor made larger or smaller by weighing neighbours.
#pragma once

#include <cstdint>

#include "kernels/common/launch_args.h"
#include "kernels/common/real_type.h"

namespace sluice::kernels::cuda {

struct ResizeAxis {
  const void* from;
  void* to;
  RealType from_type, to_type;  // one of them f32, or both the same
  const std::int32_t* first;    // of each new element; the least number: it is `otherwise`
  const float* weights;
  std::int64_t outer, size, made, inner;
  int taps;
  float otherwise;
};
void run_resize_axis(const ResizeAxis& call, const LaunchArgs& args);

}  // namespace sluice::kernels::cuda
