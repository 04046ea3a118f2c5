// Resize and Upsample.
#include <cmath>

#include "engine/ops/axes.h"
#include "engine/ops/families.h"
#include "engine/ops/moves.h"
#include "engine/ops/vision/resample.h"
#include "engine/ops/vision/resize_plan.h"

namespace sluice::engine {
namespace {

template <class T>
struct Named {
  std::string_view name;
  T value;
};

template <class T, std::size_t N>
T one_of(const Attributes& attributes, std::string_view attribute, std::string_view default_value,
         const Named<T> (&names)[N]) {
  const std::string given = attributes.string(attribute, default_value);
  for (const Named<T>& named : names)
    if (named.name == given) return named.value;
  throw Error(Code::invalid_argument, "no " + std::string(attribute) + " '" + given + "'");
}

constexpr Named<Resampler> kKernels[] = {{"nearest", Resampler::nearest},
                                         {"linear", Resampler::linear},
                                         {"bilinear", Resampler::linear},
                                         {"cubic", Resampler::cubic}};
constexpr Named<Nearest> kNearest[] = {{"round_prefer_floor", Nearest::round_prefer_floor},
                                       {"round_prefer_ceil", Nearest::round_prefer_ceil},
                                       {"floor", Nearest::floor},
                                       {"ceil", Nearest::ceil}};
constexpr Named<Coordinates> kCoordinates[] = {
    {"half_pixel", Coordinates::half_pixel},
    {"half_pixel_symmetric", Coordinates::half_pixel_symmetric},
    {"pytorch_half_pixel", Coordinates::pytorch_half_pixel},
    {"align_corners", Coordinates::align_corners},
    {"asymmetric", Coordinates::asymmetric},
    {"tf_half_pixel_for_nn", Coordinates::tf_half_pixel_for_nn},
    {"tf_crop_and_resize", Coordinates::tf_crop_and_resize}};
enum class Aspect { stretch, not_larger, not_smaller };
constexpr Named<Aspect> kAspects[] = {{"stretch", Aspect::stretch},
                                      {"not_larger", Aspect::not_larger},
                                      {"not_smaller", Aspect::not_smaller}};

Resampling resampling_of(const OpCall& call) {
  const Attributes& a = call.attributes();
  Resampling how;
  how.kernel = one_of(a, "mode", "nearest", kKernels);
  if (call.node.op == "Upsample" || call.version() < 11) {
    how.coordinates = Coordinates::asymmetric;
    how.nearest = Nearest::by_scale;
    return how;
  }
  how.coordinates = one_of(a, "coordinate_transformation_mode", "half_pixel", kCoordinates);
  how.nearest = one_of(a, "nearest_mode", "round_prefer_floor", kNearest);
  how.cubic_a = static_cast<double>(a.real("cubic_coeff_a", -0.75f));
  how.exclude_outside = a.flag("exclude_outside");
  how.antialias = a.flag("antialias") && how.kernel != Resampler::nearest;
  return how;
}

std::vector<double> reals_of(const Tensor& tensor) {
  std::vector<double> list;
  if (!tensor) return list;
  visit_reals(tensor.dtype(), [&]<class T>() {
    for (const T& value : tensor.values<T>()) list.push_back(static_cast<double>(value));
  });
  return list;
}

std::int64_t checked_dim(double size) {
  require(size >= 0 && size < 1e12, "a dimension of " + std::to_string(size));
  return static_cast<std::int64_t>(size);
}

// `scales` and `sizes` may be given for some axes only.
void set_scales(std::vector<AxisSize>& all, const std::vector<int>& axes,
                const std::vector<double>& scales) {
  require(scales.size() == axes.size(),
          std::to_string(scales.size()) + " scales for " + std::to_string(axes.size()) + " axes");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    require(scales[i] > 0 && std::isfinite(scales[i]), "a scale of " + std::to_string(scales[i]));
    AxisSize& axis = all[static_cast<std::size_t>(axes[i])];
    axis.scale = scales[i];
    axis.to = checked_dim(std::floor(static_cast<double>(axis.from) * scales[i]));
  }
}

void set_sizes(std::vector<AxisSize>& all, const std::vector<int>& axes,
               const std::vector<std::int64_t>& sizes, Aspect aspect) {
  require(sizes.size() == axes.size(),
          std::to_string(sizes.size()) + " sizes for " + std::to_string(axes.size()) + " axes");
  double common = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    AxisSize& axis = all[static_cast<std::size_t>(axes[i])];
    require(sizes[i] >= 0 && (axis.from > 0 || sizes[i] == 0),
            "a size of " + std::to_string(sizes[i]) + " for " + std::to_string(axis.from));
    axis.to = checked_dim(static_cast<double>(sizes[i]));
    axis.scale = axis.from > 0 ? static_cast<double>(axis.to) / static_cast<double>(axis.from) : 1;
    const bool better = aspect == Aspect::not_larger ? axis.scale < common : axis.scale > common;
    if (i == 0 || better) common = axis.scale;
  }
  if (aspect == Aspect::stretch) return;
  for (const int a : axes) {
    AxisSize& axis = all[static_cast<std::size_t>(a)];
    axis.scale = common;
    axis.to = checked_dim(std::floor(static_cast<double>(axis.from) * common + 0.5));
  }
}

void set_roi(std::vector<AxisSize>& all, const std::vector<int>& axes,
             const std::vector<double>& roi) {
  require(roi.size() == 2 * axes.size(), "a region of " + std::to_string(roi.size()) +
                                             " numbers for " + std::to_string(axes.size()) +
                                             " axes");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    require(std::isfinite(roi[i]) && std::isfinite(roi[i + axes.size()]), "an endless region");
    all[static_cast<std::size_t>(axes[i])].roi_begin = roi[i];
    all[static_cast<std::size_t>(axes[i])].roi_end = roi[i + axes.size()];
  }
}

std::vector<double> upsample_scales(const OpCall& call) {
  const Attributes& a = call.attributes();
  if (call.version() < 7)
    return {1, 1, static_cast<double>(a.real("height_scale", 0)),
            static_cast<double>(a.real("width_scale", 0))};
  if (call.version() >= 9) return reals_of(call.input(1));
  const Attributes::Reals given = a.reals("scales");
  return {given.begin(), given.end()};
}

std::vector<AxisSize> sizes_of(const OpCall& call, const Resampling& how) {
  const Tensor& data = call.input(0);
  std::vector<AxisSize> all;
  for (const std::int64_t dim : data.shape()) all.push_back({.from = dim, .to = dim, .scale = 1});
  std::vector<int> axes = all_axes(data.rank());
  if (call.node.op == "Upsample") {
    set_scales(all, axes, upsample_scales(call));
    return all;
  }
  if (call.version() < 11) {
    set_scales(all, axes, reals_of(call.input(1)));
    return all;
  }
  const Attributes& a = call.attributes();
  if (a.has("axes")) axes = resolve_axes(a.integers("axes"), data.rank());
  const std::vector<double> scales = reals_of(call.input_or_none(2));
  if (!scales.empty() || axes.empty())
    set_scales(all, axes, scales);
  else
    set_sizes(all, axes, call.integers(3),
              one_of(a, "keep_aspect_ratio_policy", "stretch", kAspects));
  if (how.coordinates == Coordinates::tf_crop_and_resize)
    set_roi(all, axes, reals_of(call.input_or_none(1)));
  return all;
}

// Nearest: elements are copied, so any type works.
Tensor moved(OpCall& call, const Resampling& how, const std::vector<AxisSize>& sizes) {
  Tensor data = call.input(0);
  const double extrapolation =
      static_cast<double>(call.attributes().real("extrapolation_value", 0));
  for (int axis = 0; axis < data.rank(); ++axis) {
    const AxisSize& size = sizes[static_cast<std::size_t>(axis)];
    if (size.same()) continue;
    const AxisTaps held = taps_of(how, size);
    const std::vector<Taps>& taps = held.all;
    data = gathered(data, axis, nearest_of(taps, size.from), call.workers);
    const std::int64_t inner = data.shape().size(axis + 1, data.rank());
    const std::int64_t outer = data.shape().size(0, axis);
    for (std::size_t i = 0; i < taps.size(); ++i) {
      if (!taps[i].outside_roi) continue;
      visit_numbers(data.dtype(), [&]<class T>() {
        for (std::int64_t o = 0; o < outer; ++o)
          std::fill_n(
              data.values<T>().data() + (o * size.to + static_cast<std::int64_t>(i)) * inner, inner,
              static_cast<T>(static_cast<Wide<T>>(extrapolation)));
      });
    }
  }
  return data;
}

// Converts between the data type and the compute type; integers saturate.
Tensor saturating_convert(const Tensor& from, DType to) {
  if (from.dtype() == to) return from;
  Tensor out(to, from.shape());
  const auto copy = [&]<class Wider, class T>(bool widen) {
    const auto narrow = (widen ? from : out).values<T>();
    const auto wide = (widen ? out : from).values<Wider>();
    for (std::size_t i = 0; i < narrow.size(); ++i) {
      if (widen) {
        wide[i] = static_cast<Wider>(static_cast<Wide<T>>(narrow[i]));
      } else if constexpr (std::is_integral_v<T>) {
        const auto min = static_cast<double>(std::numeric_limits<T>::min());
        const auto max = static_cast<double>(std::numeric_limits<T>::max());
        const auto value = static_cast<double>(wide[i]);
        narrow[i] =
            value >= max ? std::numeric_limits<T>::max() : static_cast<T>(std::max(value, min));
      } else {
        narrow[i] = static_cast<T>(static_cast<Wide<T>>(wide[i]));
      }
    }
  };
  const bool widen = to == DType::f64 || to == DType::f32;
  visit_numbers(widen ? from.dtype() : to, [&]<class T>() {
    if constexpr (std::is_integral_v<T>)
      copy.template operator()<double, T>(widen);
    else
      copy.template operator()<float, T>(widen);
  });
  return out;
}

void resize(OpCall& call) {
  const Tensor& data = call.input(0);
  const Resampling how = resampling_of(call);
  const std::vector<AxisSize> sizes = sizes_of(call, how);
  Shape shape;
  for (const AxisSize& size : sizes) shape.push_back(size.to);
  if (checked_size(shape.dims()) == 0) {
    call.output(0, data.dtype(), shape);
    return;
  }
  require(data.size() > 0, "an empty tensor cannot be made larger");
  for (const AxisSize& size : sizes) check_antialias(how, size);
  // Unsupported types are reported later.
  if (kNumbers.has(data.dtype())) call.declare_output(0, data.dtype(), shape);
  if (how.kernel == Resampler::nearest) return call.set_output(0, moved(call, how, sizes));
  const double extrapolation =
      static_cast<double>(call.attributes().real("extrapolation_value", 0));
  const bool whole = is_integer(data.dtype());
  Tensor now =
      data.dtype() == DType::f64 ? data : saturating_convert(data, whole ? DType::f64 : DType::f32);
  for (int axis = 0; axis < data.rank(); ++axis) {
    const AxisSize& size = sizes[static_cast<std::size_t>(axis)];
    if (!size.same())
      now = resampled(now, axis, taps_of(how, size).all, extrapolation, call.workers);
  }
  call.set_output(0, saturating_convert(now, data.dtype()));
}

constexpr Op kResizeOps[] = {
    {"Resize", 10, kAnyType, resize},
    {"Upsample", 1, kAnyType, resize},
};

}  // namespace

ResizePlan resize_plan(const OpCall& call) {
  const Resampling how = resampling_of(call);
  ResizePlan plan;
  plan.nearest = how.kernel == Resampler::nearest;
  plan.extrapolation = call.attributes().real("extrapolation_value", 0);
  const std::vector<AxisSize> sizes = sizes_of(call, how);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].same()) continue;
    ResizedAxis& axis = plan.axes.emplace_back();
    axis.axis = static_cast<int>(i);
    axis.from = sizes[i].from;
    const AxisTaps held = taps_of(how, sizes[i]);
    for (const Taps& taps : held.all) {
      axis.taps = static_cast<int>(taps.weights.size());
      axis.first.push_back(taps.first);
      axis.weights.insert(axis.weights.end(), taps.weights.begin(), taps.weights.end());
      axis.outside_roi.push_back(taps.outside_roi);
    }
  }
  return plan;
}

std::span<const Op> resize_ops() { return kResizeOps; }

}  // namespace sluice::engine
