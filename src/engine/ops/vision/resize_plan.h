// What resizing a tensor comes to, axis by axis: for backends that do it their own way.
#pragma once

#include <vector>

#include "engine/ops/op.h"

namespace sluice::engine {

// New element i of an axis is made of old ones from first[i] on (those outside are the one at
// the edge), with weights [i * taps, (i + 1) * taps).
struct ResizedAxis {
  int axis;
  std::int64_t from;
  int taps = 1;
  std::vector<std::int64_t> first{};
  std::vector<float> weights{};
  std::vector<bool> beyond{};  // of the region that is looked at: it becomes `otherwise`
};

struct ResizePlan {
  bool nearest = false;  // elements are moved as they are
  float otherwise = 0;
  std::vector<ResizedAxis> axes{};  // those that change
};

// Of a Resize or Upsample. Only the shape of input 0 is looked at.
ResizePlan resize_plan(const OpCall& call);

}  // namespace sluice::engine
