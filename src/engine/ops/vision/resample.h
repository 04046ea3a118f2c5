// One axis of a picture at another size: which elements each new one is made of, and how much
// of each.
#pragma once

#include <string>
#include <vector>

#include "engine/ops/op.h"

namespace sluice::engine {

// How a new element's place is found among the old ones.
enum class Coordinates {
  half_pixel,
  half_pixel_symmetric,
  pytorch_half_pixel,
  align_corners,
  asymmetric,
  tf_half_pixel_for_nn,
  tf_crop_and_resize
};
enum class Nearest { round_prefer_floor, round_prefer_ceil, floor, ceil, by_scale };
enum class Resampler { nearest, linear, cubic };

struct Resampling {
  Resampler kernel = Resampler::nearest;
  Coordinates coordinates = Coordinates::half_pixel;
  Nearest nearest = Nearest::round_prefer_floor;
  double cubic_a = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
};

struct AxisSize {
  std::int64_t from, to;
  double scale;                       // about to / from, but what the model says
  double roi_begin = 0, roi_end = 1;  // of tf_crop_and_resize

  bool same() const { return from == to && scale == 1 && roi_begin == 0 && roi_end == 1; }
};

// One new element: weights of the old ones from `first` on, which may lie outside.
struct Taps {
  std::int64_t first = 0;
  std::vector<double> weights{};
  bool beyond = false;  // of the region that is looked at: it is made of nothing
};

// Of all new elements.
struct AxisTaps {
  Tensor room;  // not used: it makes them count as memory of tensors
  std::vector<Taps> all{};
};

// Throws where an element would be made of too many.
void check_antialias(const Resampling& how, const AxisSize& axis);

AxisTaps taps_of(const Resampling& how, const AxisSize& axis);

// The nearest old element of each new one.
std::vector<std::int64_t> nearest_of(const std::vector<Taps>& taps, std::int64_t size);

// The axis resampled; float or double. Elements outside are those at the edge; new ones that
// are beyond become `otherwise`.
Tensor resampled(const Tensor& tensor, int axis, const std::vector<Taps>& taps, double otherwise,
                 compute::Workers& workers);

}  // namespace sluice::engine
