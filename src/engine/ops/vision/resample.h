// Resampling along one axis: the source elements and weights of each output element.
#pragma once

#include <string>
#include <vector>

#include "engine/ops/op.h"

namespace sluice::engine {

// coordinate_transformation_mode of Resize.
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
  double scale;                       // to / from, or as given by the model
  double roi_begin = 0, roi_end = 1;  // for tf_crop_and_resize

  bool same() const { return from == to && scale == 1 && roi_begin == 0 && roi_end == 1; }
};

// One output element: weights of source elements starting at `first`, which may be out of bounds.
struct Taps {
  std::int64_t first = 0;
  std::vector<double> weights{};
  bool outside_roi = false;  // takes the extrapolation value
};

// The taps of all output elements.
struct AxisTaps {
  Tensor reservation;  // accounts for the memory of `all`
  std::vector<Taps> all{};
};

// Throws if an output element would need too many source elements.
void check_antialias(const Resampling& how, const AxisSize& axis);

AxisTaps taps_of(const Resampling& how, const AxisSize& axis);

// The nearest source element of each output element.
std::vector<std::int64_t> nearest_of(const std::vector<Taps>& taps, std::int64_t size);

// Resamples an axis; float or double. Out-of-bounds elements repeat the edge; outputs outside the
// region of interest become `extrapolation`.
Tensor resampled(const Tensor& tensor, int axis, const std::vector<Taps>& taps,
                 double extrapolation, compute::Workers& workers);

}  // namespace sluice::engine
