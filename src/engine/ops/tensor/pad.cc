// Pad and CenterCropPad.
#include "engine/ops/axes.h"
#include "engine/ops/families.h"
#include "engine/ops/moves.h"

namespace sluice::engine {
namespace {

// Elements to add before and after each axis; negative: to remove.
struct Padding {
  std::vector<std::int64_t> before, after;

  explicit Padding(int rank) : before(static_cast<std::size_t>(rank), 0), after(before) {}

  Shape applied(const Shape& shape) const {
    Shape out = shape;
    for (int i = 0; i < shape.rank(); ++i) {
      const auto a = static_cast<std::size_t>(i);
      constexpr std::int64_t kMax = std::int64_t{1} << 48;
      require(before[a] > -kMax && before[a] < kMax && after[a] > -kMax && after[a] < kMax &&
                  shape[i] + before[a] + after[a] >= 0,
              "padding of " + std::to_string(before[a]) + " and " + std::to_string(after[a]) +
                  " for " + std::to_string(shape[i]) + " elements");
      out[i] = shape[i] + before[a] + after[a];
    }
    return checked_shape(out.dims());
  }
};

// Copies the input region that is part of the output; leaves the rest uninitialized.
void place_inside(OpCall& call, const Tensor& data, const Tensor& out, const Padding& padding) {
  const Strides from = strides_of(data.shape()), to = strides_of(out.shape());
  std::int64_t source = 0, target = 0;
  std::vector<CopyAxis> moves;
  for (int i = 0; i < data.rank(); ++i) {
    const std::int64_t shift = padding.before[static_cast<std::size_t>(i)];
    const std::int64_t begin = std::max<std::int64_t>(0, -shift);
    const std::int64_t end = std::min(data.shape()[i], out.shape()[i] - shift);
    moves.push_back({std::max<std::int64_t>(0, end - begin), at(from, i), at(to, i)});
    source += begin * at(from, i);
    target += (begin + shift) * at(to, i);
  }
  move_elements({data, source}, {out, target}, std::move(moves), call.workers);
}

enum class Mode { constant, reflect, edge, wrap };

Mode mode_of(const OpCall& call) {
  const std::string name = call.attributes().string("mode", "constant");
  if (name == "constant") return Mode::constant;
  if (name == "reflect") return Mode::reflect;
  if (name == "edge") return Mode::edge;
  require(name == "wrap" && call.version() >= 19, "no mode " + name);
  return Mode::wrap;
}

// Fills the padding by copies within `out`, which already contains the input.
class Continued {
 public:
  // The range of the input along an axis.
  struct Inside {
    std::int64_t begin, size;
  };

  Continued(const Tensor& out, Mode mode, std::vector<Inside> inside, compute::Workers& workers)
      : out_(out),
        steps_(strides_of(out.shape())),
        mode_(mode),
        inside_(std::move(inside)),
        workers_(workers) {}

  void run() {
    for (int axis = out_.rank() - 1; axis >= 0; --axis) {
      along(axis);
      inside_[static_cast<std::size_t>(axis)] = {0, out_.shape()[axis]};
    }
  }

 private:
  void along(int axis) const {
    const auto [begin, size] = inside_[static_cast<std::size_t>(axis)];
    const std::int64_t end = begin + size, all = out_.shape()[axis];
    if (mode_ == Mode::edge || size == 1) {
      copy(axis, begin, 0, 0, begin);
      copy(axis, end - 1, 0, end, all - end);
      return;
    }
    if (mode_ == Mode::wrap) return repeat(axis, begin, end, size);
    const std::int64_t before = std::min(size - 1, begin), after = std::min(size - 1, all - end);
    copy(axis, begin + before, -1, begin - before, before);
    copy(axis, end - 2, -1, end, after);
    repeat(axis, begin - before, end + after, 2 * (size - 1));
  }

  // Continues [low, high) periodically in both directions, copying more each time.
  void repeat(int axis, std::int64_t low, std::int64_t high, std::int64_t period) const {
    const auto whole = [&] { return (high - low) / period * period; };
    for (const std::int64_t all = out_.shape()[axis]; high < all;) {
      const std::int64_t count = std::min(whole(), all - high);
      copy(axis, high - whole(), 1, high, count);
      high += count;
    }
    while (low > 0) {
      const std::int64_t count = std::min(whole(), low);
      copy(axis, low - count + whole(), 1, low - count, count);
      low -= count;
    }
  }

  // Copies rows along `axis` with the given step to `to`.
  void copy(int axis, std::int64_t from, std::int64_t step, std::int64_t to,
            std::int64_t count) const {
    std::vector<CopyAxis> moves;
    std::int64_t source = 0, target = 0;
    for (int i = 0; i < out_.rank(); ++i) {
      const Inside here = inside_[static_cast<std::size_t>(i)];
      const std::int64_t one = at(steps_, i);
      moves.push_back(i == axis ? CopyAxis{count, step * one, one} : CopyAxis{here.size, one, one});
      source += (i == axis ? from : here.begin) * one;
      target += (i == axis ? to : here.begin) * one;
    }
    move_elements({out_, source}, {out_, target}, std::move(moves), workers_);
  }

  const Tensor& out_;
  const Strides steps_;
  const Mode mode_;
  std::vector<Inside> inside_;
  compute::Workers& workers_;
};

// Negative padding is removed before the rest is extended.
void continued(OpCall& call, Mode mode, const Padding& padding, const Shape& shape) {
  const Tensor& data = call.input(0);
  const Tensor out =
      call.output(0, data.dtype(), shape);  // first, because memory may not be sufficient
  std::vector<Continued::Inside> inside;
  for (int axis = 0; axis < data.rank(); ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    const std::int64_t before = padding.before[a], after = padding.after[a];
    const std::int64_t size =
        data.shape()[axis] + std::min<std::int64_t>(0, before) + std::min<std::int64_t>(0, after);
    require(size > 0, "padding of an empty axis with what is not there");
    inside.push_back({std::max<std::int64_t>(0, before), size});
  }
  place_inside(call, data, out, padding);
  Continued(out, mode, std::move(inside), call.workers).run();
}

Padding padding_of(const OpCall& call) {
  const int rank = call.input(0).rank();
  const auto pads = list_of(call, 1, call.version() < 2 ? "paddings" : "pads");
  require(pads.has_value(), "the padding is missing");
  const std::vector<int> axes = call.has(3) ? resolve_axes(call.integers(3), rank) : all_axes(rank);
  require(pads->size() == 2 * axes.size(),
          std::to_string(pads->size()) + " paddings for " + std::to_string(axes.size()) + " axes");
  Padding padding(rank);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    padding.before[static_cast<std::size_t>(axes[i])] = (*pads)[i];
    padding.after[static_cast<std::size_t>(axes[i])] = (*pads)[i + axes.size()];
  }
  return padding;
}

void fill_constant(OpCall& call, const Tensor& out) {
  if (call.has(2)) {
    const Tensor& value = call.input(2);
    require(value.dtype() == out.dtype() && value.size() == 1,
            "the constant is one element of the data's type");
    return fill(out, value);
  }
  const float value = call.attributes().real("value", 0);
  if (value == 0) return fill_zero(out);
  visit_reals(out.dtype(), [&]<class T>() { fill(out, Tensor::of(T(value))); });
}

void pad(OpCall& call) {
  const Tensor& data = call.input(0);
  const Padding padding = padding_of(call);
  const Shape shape = padding.applied(data.shape());
  const Mode mode = mode_of(call);
  if (mode != Mode::constant && shape.size() > 0) return continued(call, mode, padding, shape);
  const Tensor out = call.output(0, data.dtype(), shape);
  fill_constant(call, out);
  place_inside(call, data, out, padding);
}

void center_crop_pad(OpCall& call) {
  const Tensor& data = call.input(0);
  const std::vector<std::int64_t> sizes = call.integers(1);
  const std::vector<int> axes = call.attributes().has("axes")
                                    ? resolve_axes(call.attributes().integers("axes"), data.rank())
                                    : all_axes(data.rank());
  require(sizes.size() == axes.size(),
          std::to_string(sizes.size()) + " sizes for " + std::to_string(axes.size()) + " axes");
  Padding padding(data.rank());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto a = static_cast<std::size_t>(axes[i]);
    const std::int64_t size = sizes[i];
    require(size >= 0 && size < std::int64_t{1} << 48, "a size of " + std::to_string(size));
    padding.before[a] = (size - data.shape()[axes[i]]) / 2;
    padding.after[a] = size - data.shape()[axes[i]] - padding.before[a];
  }
  const Tensor out = call.output(0, data.dtype(), padding.applied(data.shape()));
  fill_zero(out);
  place_inside(call, data, out, padding);
}

constexpr Op kPadOps[] = {
    {"Pad", 1, kAnyType, pad},
    {"CenterCropPad", 18, kAnyType, center_crop_pad},
};

}  // namespace

std::span<const Op> pad_ops() { return kPadOps; }

}  // namespace sluice::engine
