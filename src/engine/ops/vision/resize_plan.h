// The plan of a resize, axis by axis, for backends with their own kernels.
#pragma once

#include <vector>

#include "engine/ops/op.h"

namespace sluice::engine {

// Output element i of an axis is the sum of source elements starting at first[i] (out-of-bounds
// elements repeat the edge) with weights [i * taps, (i + 1) * taps).
struct ResizedAxis {
  int axis;
  std::int64_t from;
  int taps = 1;
  std::vector<std::int64_t> first{};
  std::vector<float> weights{};
  std::vector<bool> outside_roi{};  // takes `extrapolation`
};

struct ResizePlan {
  bool nearest = false;  // copies elements without interpolation
  float extrapolation = 0;
  std::vector<ResizedAxis> axes{};  // the axes that change
};

// The plan of a Resize or Upsample. Only the shape of input 0 is used.
ResizePlan resize_plan(const OpCall& call);

}  // namespace sluice::engine
