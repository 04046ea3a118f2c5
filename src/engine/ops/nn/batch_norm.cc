#include <cmath>

#include "engine/ops/convert.h"
#include "engine/ops/nn/normalize.h"

namespace sluice::engine {
namespace {

// Statistics are per channel or, before opset 9 with `spatial` 0, per channel and pixel.
struct Layout {
  std::int64_t images, parts, pixels;

  explicit Layout(OpCall& call) {
    const Shape& shape = call.input(0).shape();
    require(shape.rank() >= 1, "the input must have a batch axis");
    const bool spatial = call.version() >= 9 || call.attributes().flag("spatial", true);
    images = shape[0];
    parts = shape.rank() == 1 ? 1 : spatial ? shape[1] : shape.size(1, shape.rank());
    pixels = shape.rank() > 2 && spatial ? shape.size(2, shape.rank()) : 1;
  }
};

std::vector<double> reals(OpCall& call, std::size_t i, std::int64_t count) {
  const Tensor& tensor = call.input(i);
  require(tensor.size() == count, "input " + std::to_string(i) + " must have " +
                                      std::to_string(count) + " numbers, not " +
                                      std::to_string(tensor.size()));
  const Tensor wide = converted(tensor, DType::f64);
  const auto values = wide.values<double>();
  return {values.begin(), values.end()};
}

// Calls f(value, part, offset) for all elements.
template <class F>
void each_element(const Layout& layout, F&& f) {
  if (layout.parts == 0 || layout.pixels == 0) return;  // there may be any number of images
  std::size_t at = 0;
  for (std::int64_t image = 0; image < layout.images; ++image)
    for (std::int64_t part = 0; part < layout.parts; ++part)
      for (std::int64_t i = 0; i < layout.pixels; ++i) f(at++, static_cast<std::size_t>(part));
}

struct Statistics {
  std::vector<double> mean, variance;
};

Statistics of_batch(const Layout& layout, const Tensor& x) {
  const auto parts = static_cast<std::size_t>(layout.parts);
  Statistics found{std::vector<double>(parts), std::vector<double>(parts)};
  const auto n = static_cast<double>(layout.images * layout.pixels);
  visit_wide_reals(x.dtype(), [&]<class T>() {
    const auto values = as<T>(x);
    each_element(layout, [&](std::size_t i, std::size_t part) {
      found.mean[part] += static_cast<double>(values[i]) / n;
    });
    each_element(layout, [&](std::size_t i, std::size_t part) {
      const double off = static_cast<double>(values[i]) - found.mean[part];
      found.variance[part] += off * off / n;
    });
  });
  return found;
}

// Sets the statistics outputs: the running ones and, before opset 14, those of the batch.
void give_statistics(OpCall& call, const Statistics& known, const Statistics& batch) {
  const auto momentum = static_cast<double>(call.attributes().real("momentum", 0.9f));
  const auto give = [&](std::size_t i, const std::vector<double>& values, std::size_t like) {
    if (!call.wants(i)) return;
    const Tensor list = Tensor::of(std::span<const double>(values));
    const Tensor& old = call.input(like);
    call.set_output(i, converted(list.reshaped(old.shape()), old.dtype()));
  };
  const auto moved = [&](const std::vector<double>& from, const std::vector<double>& to) {
    std::vector<double> result(from.size());
    for (std::size_t i = 0; i < from.size(); ++i)
      result[i] = from[i] * momentum + to[i] * (1 - momentum);
    return result;
  };
  give(1, moved(known.mean, batch.mean), 3);
  give(2, moved(known.variance, batch.variance), 4);
  give(3, batch.mean, 3);
  give(4, batch.variance, 4);
}

}  // namespace

void batch_norm(OpCall& call) {
  const Tensor& in = call.input(0);
  const Layout layout(call);
  const std::vector<double> scale = reals(call, 1, layout.parts),
                            bias = reals(call, 2, layout.parts);
  Statistics used{reals(call, 3, layout.parts), reals(call, 4, layout.parts)};
  call.declare_output(0, in.dtype(), in.shape());
  const Tensor x = converted(in, wide_real(in.dtype())), y(x.dtype(), in.shape());
  // Before opset 14 an output of statistics meant training mode.
  const bool trains = call.version() >= 14 ? call.attributes().flag("training_mode")
                                           : call.wants(1) || call.wants(2) || call.wants(3);
  if (trains) {
    const Statistics batch = of_batch(layout, x);
    give_statistics(call, used, batch);
    used = batch;
  }
  const auto epsilon = static_cast<double>(call.attributes().real("epsilon", 1e-5f));
  std::vector<double> factor(scale.size());
  for (std::size_t i = 0; i < factor.size(); ++i)
    factor[i] = scale[i] / std::sqrt(used.variance[i] + epsilon);
  visit_wide_reals(x.dtype(), [&]<class T>() {
    const auto from = as<T>(x), to = as<T>(y);
    each_element(layout, [&](std::size_t i, std::size_t part) {
      to[i] = static_cast<T>((static_cast<double>(from[i]) - used.mean[part]) * factor[part] +
                             bias[part]);
    });
  });
  call.set_output(0, converted(y, in.dtype()));
}

}  // namespace sluice::engine
