// RoiAlign, MaxRoiPool and NonMaxSuppression.
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/ops/families.h"
#include "engine/ops/wide.h"

namespace sluice::engine {
namespace {

struct Image {
  std::int64_t count, channels, height, width;

  explicit Image(const Shape& shape) {
    require(shape.rank() == 4, "an image has four axes, not " + to_string(shape));
    count = shape[0];
    channels = shape[1];
    height = shape[2];
    width = shape[3];
  }
};

std::int64_t pooled_size(std::int64_t size) {
  require(size > 0 && size < (1 << 16), "an output of " + std::to_string(size));
  return size;
}

// One axis of a box in integer pixels, divided into `bins`.
struct Cut {
  std::int64_t start;
  double bin;
  std::int64_t size;

  Cut(double from, double to, std::int64_t bins, std::int64_t of) : size(of) {
    // Clamps boxes far outside, which would overflow.
    const auto whole = [](double x) {
      return static_cast<std::int64_t>(std::round(std::clamp(std::isnan(x) ? 0 : x, -1e9, 1e9)));
    };
    start = whole(from);
    bin = static_cast<double>(std::max<std::int64_t>(whole(to) - start + 1, 1)) /
          static_cast<double>(bins);
  }
  std::int64_t first(std::int64_t i) const {
    const auto at = static_cast<std::int64_t>(std::floor(static_cast<double>(i) * bin));
    return std::clamp<std::int64_t>(start + at, 0, size);
  }
  std::int64_t last(std::int64_t i) const {
    const auto at = static_cast<std::int64_t>(std::ceil(static_cast<double>(i + 1) * bin));
    return std::clamp<std::int64_t>(start + at, 0, size);
  }
};

template <class T>
void pool_box(const Image& image, const T* channel, const Cut& rows, const Cut& columns,
              std::int64_t height, std::int64_t width, T* to) {
  for (std::int64_t i = 0; i < height; ++i)
    for (std::int64_t j = 0; j < width; ++j, ++to) {
      bool any = false;
      for (std::int64_t y = rows.first(i); y < rows.last(i); ++y)
        for (std::int64_t x = columns.first(j); x < columns.last(j); ++x) {
          const T value = channel[y * image.width + x];
          if (!any || value > *to) *to = value;
          any = true;
        }
      if (!any) *to = 0;
    }
}

std::int64_t image_of(double index, const Image& image) {
  require(index >= 0 && index < static_cast<double>(image.count),
          "a region of image " + std::to_string(index) + " of " + std::to_string(image.count));
  return static_cast<std::int64_t>(index);
}

// The number of regions, in rows of `width` values.
std::int64_t regions_of(const OpCall& call, std::int64_t width) {
  const Shape& shape = call.input(1).shape();
  require(shape.rank() == 2 && shape[1] == width &&
              wide_type(call.input(1).dtype()) == wide_type(call.input(0).dtype()),
          "regions of shape " + to_string(shape));
  return shape[0];
}

// Regions are rows of image, x1, y1, x2, y2.
void max_roi_pool(OpCall& call) {
  const Image image(call.input(0).shape());
  const auto pooled = call.attributes().integers("pooled_shape");
  require(pooled.size() == 2, "pooled_shape must be two numbers");
  const std::int64_t height = pooled_size(pooled[0]), width = pooled_size(pooled[1]);
  const double scale = static_cast<double>(call.attributes().real("spatial_scale", 1));
  const std::int64_t count = regions_of(call, 5);
  const Shape shape{count, image.channels, height, width};
  call.declare_output(0, call.input(0).dtype(), shape);
  const Tensor x = widened(call.input(0)), rois = widened(call.input(1)), y(x.dtype(), shape);
  visit_wide(x.dtype(), [&]<class T>() {
    T* to = as<T>(y).data();
    for (std::int64_t r = 0; r < count; ++r) {
      const T* const roi = as<T>(rois).data() + r * 5;
      const auto at = [&](int i) { return static_cast<double>(roi[i]) * scale; };
      const std::int64_t of = image_of(static_cast<double>(roi[0]), image);
      const Cut rows(at(2), at(4), height, image.height), columns(at(1), at(3), width, image.width);
      for (std::int64_t c = 0; c < image.channels; ++c, to += height * width)
        pool_box(image, as<T>(x).data() + (of * image.channels + c) * image.height * image.width,
                 rows, columns, height, width, to);
    }
  });
  call.set_output(0, narrowed(y, call.input(0).dtype()));
}

// A bilinear sample: four pixels and their weights.
struct Sample {
  std::array<std::int64_t, 4> offset{};
  std::array<double, 4> weight{};

  Sample(const Image& image, double y, double x) {
    if (!(y >= -1 && y <= static_cast<double>(image.height) && x >= -1 &&
          x <= static_cast<double>(image.width)))
      return;
    const auto [top, bottom, down] = between(y, image.height);
    const auto [left, right, along] = between(x, image.width);
    offset = {top * image.width + left, top * image.width + right, bottom * image.width + left,
              bottom * image.width + right};
    weight = {(1 - down) * (1 - along), (1 - down) * along, down * (1 - along), down * along};
  }

 private:
  struct Between {
    std::int64_t low, high;
    double part;
  };
  static Between between(double at, std::int64_t size) {
    at = std::max(at, 0.0);
    const auto low = static_cast<std::int64_t>(at);
    if (low >= size - 1) return {size - 1, size - 1, 0};
    return {low, low + 1, at - static_cast<double>(low)};
  }
};

struct Region {
  double start, bin;
  std::int64_t samples;  // along one bin

  Region(double from, double to, std::int64_t bins, std::int64_t wanted, bool half_pixel)
      : start(from) {
    double size = to - from;
    if (!half_pixel) size = std::max(size, 1.0);
    bin = size / static_cast<double>(bins);
    const double needed = wanted > 0 ? static_cast<double>(wanted) : std::ceil(bin);
    require(needed <= 4096, "a region is too large to sample");
    samples = std::isnan(needed) ? 0 : static_cast<std::int64_t>(std::max(needed, 0.0));
  }
  double at(std::int64_t i, std::int64_t sample) const {
    return start + static_cast<double>(i) * bin +
           (static_cast<double>(sample) + 0.5) * bin / static_cast<double>(samples);
  }
};

// One bin of one channel. Max mode takes the maximum of the weighted pixels, not of the samples.
template <class T>
double pool_samples(const T* channel, std::span<const Sample> samples, bool average) {
  double sum = 0;
  bool any = false;
  for (const Sample& sample : samples)
    for (std::size_t k = 0; k < 4; ++k) {
      const double value = sample.weight[k] * static_cast<double>(channel[sample.offset[k]]);
      if (average)
        sum += value;
      else
        sum = any ? std::max(sum, value) : value;
      any = true;
    }
  return average ? sum / static_cast<double>(std::max<std::size_t>(1, samples.size())) : sum;
}

struct Align {
  Image image;
  std::int64_t height, width, ratio;
  double scale;
  bool half_pixel, average;

  Align(const Attributes& attributes, const Shape& shape, bool half_pixel_default)
      : image(shape),
        height(pooled_size(attributes.integer("output_height", 1))),
        width(pooled_size(attributes.integer("output_width", 1))),
        ratio(attributes.integer("sampling_ratio", 0)),
        scale(static_cast<double>(attributes.real("spatial_scale", 1))),
        half_pixel(attributes.string("coordinate_transformation_mode",
                                     half_pixel_default ? "half_pixel" : "output_half_pixel") ==
                   "half_pixel"),
        average(attributes.string("mode", "avg") == "avg") {}
};

template <class T>
void align_region(const Align& align, const T* x, const T* roi, std::int64_t of, T* to) {
  const auto at = [&](int i) {
    return static_cast<double>(roi[i]) * align.scale - (align.half_pixel ? 0.5 : 0);
  };
  const Region rows(at(1), at(3), align.height, align.ratio, align.half_pixel);
  const Region columns(at(0), at(2), align.width, align.ratio, align.half_pixel);
  const std::int64_t bins = align.height * align.width;
  const std::int64_t size = align.image.height * align.image.width;
  std::vector<Sample> samples;
  for (std::int64_t bin = 0; bin < bins; ++bin) {
    samples.clear();
    for (std::int64_t i = 0; i < rows.samples; ++i)
      for (std::int64_t j = 0; j < columns.samples; ++j)
        samples.emplace_back(align.image, rows.at(bin / align.width, i),
                             columns.at(bin % align.width, j));
    for (std::int64_t c = 0; c < align.image.channels; ++c)
      to[c * bins + bin] =
          static_cast<T>(pool_samples(x + (of * align.image.channels + c) * size,
                                      std::span<const Sample>(samples), align.average));
  }
}

// Regions are rows of x1, y1, x2, y2.
void roi_align(OpCall& call) {
  const Align align(call.attributes(), call.input(0).shape(), call.version() >= 16);
  const std::int64_t count = regions_of(call, 4);
  require(call.input(2).size() == count, std::to_string(call.input(2).size()) + " images for " +
                                             std::to_string(count) + " regions");
  require(align.image.height > 0 && align.image.width > 0, "the image is empty");
  const std::int64_t each = align.image.channels * align.height * align.width;
  const Shape shape{count, align.image.channels, align.height, align.width};
  call.declare_output(0, call.input(0).dtype(), shape);
  const Tensor x = widened(call.input(0)), rois = widened(call.input(1)), y(x.dtype(), shape);
  const std::vector<std::int64_t> images = call.integers(2);
  visit_wide(x.dtype(), [&]<class T>() {
    call.workers.each(images.size(), 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t r = begin; r < end; ++r)
        align_region(align, as<T>(x).data(), as<T>(rois).data() + r * 4,
                     image_of(static_cast<double>(images[r]), align.image),
                     as<T>(y).data() + static_cast<std::int64_t>(r) * each);
    });
  });
  call.set_output(0, narrowed(y, call.input(0).dtype()));
}

struct Box {
  float top, left, bottom, right;

  Box(const float* from, bool centred) {
    if (centred) {  // x, y, width, height
      left = from[0] - from[2] / 2;
      right = from[0] + from[2] / 2;
      top = from[1] - from[3] / 2;
      bottom = from[1] + from[3] / 2;
    } else {  // two corners, either first
      top = std::min(from[0], from[2]);
      bottom = std::max(from[0], from[2]);
      left = std::min(from[1], from[3]);
      right = std::max(from[1], from[3]);
    }
  }
  float area() const { return (bottom - top) * (right - left); }
};

bool overlap(const Box& a, const Box& b, float max) {
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (!(height > 0 && width > 0)) return false;
  const float both = height * width, either = a.area() + b.area() - both;
  return either > 0 && both / either > max;
}

struct Limits {
  std::int64_t max = 0;
  float overlap = 0, score = -std::numeric_limits<float>::infinity();
};

// The selected boxes of one class, best first.
std::vector<std::int64_t> best_boxes(std::span<const Box> boxes, const float* scores,
                                     const Limits& limits) {
  std::vector<std::int64_t> order(boxes.size()), kept;
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](std::int64_t i) { return !(scores[i] > limits.score); });
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return scores[a] > scores[b]; });
  for (const std::int64_t i : order) {
    if (static_cast<std::int64_t>(kept.size()) >= limits.max) break;
    const bool same = std::any_of(kept.begin(), kept.end(), [&](std::int64_t other) {
      return overlap(boxes[static_cast<std::size_t>(i)], boxes[static_cast<std::size_t>(other)],
                     limits.overlap);
    });
    if (!same) kept.push_back(i);
  }
  return kept;
}

void non_max_suppression(OpCall& call) {
  const Tensor &boxes = call.input(0), &scores = call.input(1);
  require(boxes.dtype() == DType::f32 && scores.dtype() == DType::f32, "boxes and scores are f32");
  require(boxes.rank() == 3 && boxes.shape()[2] == 4 && scores.rank() == 3 &&
              boxes.shape()[0] == scores.shape()[0] && boxes.shape()[1] == scores.shape()[2],
          "boxes of " + to_string(boxes.shape()) + " and scores of " + to_string(scores.shape()));
  Limits limits;
  if (call.has(2)) limits.max = integer(call.input(2));
  if (call.has(3)) limits.overlap = static_cast<float>(number(call.input(3)));
  if (call.has(4)) limits.score = static_cast<float>(number(call.input(4)));
  const bool centred = call.attributes().integer("center_point_box", 0) != 0;
  const std::int64_t count = boxes.shape()[1], classes = scores.shape()[1];
  std::vector<std::int64_t> selected;
  for (std::int64_t b = 0; b < boxes.shape()[0]; ++b) {
    std::vector<Box> own;
    for (std::int64_t i = 0; i < count; ++i)
      own.emplace_back(as<float>(boxes).data() + (b * count + i) * 4, centred);
    for (std::int64_t c = 0; c < classes; ++c)
      for (const std::int64_t i :
           best_boxes(own, as<float>(scores).data() + (b * classes + c) * count, limits))
        selected.insert(selected.end(), {b, c, i});
  }
  const Tensor out =
      call.output(0, DType::i64, Shape{static_cast<std::int64_t>(selected.size() / 3), 3});
  std::copy(selected.begin(), selected.end(), as<std::int64_t>(out).begin());
}

constexpr Op kRegionOps[] = {
    {"MaxRoiPool", 1, kReals, max_roi_pool},
    {"RoiAlign", 10, kReals, roi_align},
    {"NonMaxSuppression", 10, {DType::f32}, non_max_suppression},
};

}  // namespace

std::span<const Op> region_ops() { return kRegionOps; }

}  // namespace sluice::engine
