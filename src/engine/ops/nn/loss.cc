// Loss functions, reduced or per element.
#include <cmath>
#include <limits>

#include "engine/ops/families.h"
#include "engine/ops/wide.h"

namespace sluice::engine {
namespace {

enum class Reduction { none, sum, mean };

Reduction read_reduction(const Attributes& attributes) {
  const std::string name = attributes.string("reduction", "mean");
  if (name == "none") return Reduction::none;
  if (name == "sum") return Reduction::sum;
  require(name == "mean", "reduction '" + name + "' is not known");
  return Reduction::mean;
}

// Scores are [N, classes, inner...]; a target is [N, inner...].
struct Sizes {
  std::int64_t outer, classes, inner;
  Shape target;

  Sizes(const Shape& scores, const Shape& targets) {
    require(scores.rank() >= 2, "scores of shape " + to_string(scores));
    target = scores;
    target.erase(1);
    require(target == targets,
            "targets of " + to_string(targets) + " for scores of " + to_string(scores));
    outer = scores[0];
    classes = scores[1];
    inner = scores.size(2, scores.rank());
  }
};

struct Picked {
  const std::int64_t* ignored;  // null: no ignore_index
  Tensor weights;
};

// out[i] = -weight * log_p[target]; returns the sums of the losses and of the weights.
template <class T>
std::pair<double, double> pick(const Sizes& sizes, const T* log_p,
                               const std::vector<std::int64_t>& targets, const Picked& how,
                               T* out) {
  double total = 0, weights = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::int64_t target = targets[i];
    out[i] = 0;
    if (how.ignored != nullptr && target == *how.ignored) continue;
    require(target >= 0 && target < sizes.classes, "target " + std::to_string(target) + " of " +
                                                       std::to_string(sizes.classes) + " classes");
    const auto at = static_cast<std::int64_t>(i);
    const T p = log_p[(at / sizes.inner * sizes.classes + target) * sizes.inner + at % sizes.inner];
    const T weight = how.weights ? as<T>(how.weights)[static_cast<std::size_t>(target)] : T(1);
    out[i] = -weight * p;
    total += static_cast<double>(out[i]);
    weights += static_cast<double>(weight);
  }
  return {total, weights};
}

void tell_loss(OpCall& call) {
  const Sizes sizes(call.input(0).shape(), call.input(1).shape());
  const bool each = read_reduction(call.attributes()) == Reduction::none;
  call.declare_output(0, call.input(0).dtype(), each ? sizes.target : Shape());
}

void give_loss(OpCall& call, const Tensor& log_p) {
  const DType type = call.input(0).dtype();
  const std::vector<std::int64_t> targets = call.integers(1);
  const Sizes sizes(log_p.shape(), call.input(1).shape());
  const Picked how{call.attributes().find<std::int64_t>("ignore_index"),
                   widened(call.input_or_none(2))};
  require(
      !how.weights || (how.weights.size() == sizes.classes && how.weights.dtype() == log_p.dtype()),
      "the weights are not one for each class");
  const Reduction reduction = read_reduction(call.attributes());
  const Tensor each(log_p.dtype(), sizes.target), one(log_p.dtype(), Shape());
  visit_wide(log_p.dtype(), [&]<class T>() {
    const auto [total, weights] =
        pick(sizes, as<T>(log_p).data(), targets, how, as<T>(each).data());
    as<T>(one)[0] = static_cast<T>(reduction == Reduction::mean ? total / weights : total);
  });
  call.set_output(0, narrowed(reduction == Reduction::none ? each : one, type));
}

void negative_log_likelihood(OpCall& call) {
  tell_loss(call);
  give_loss(call, widened(call.input(0)));
}

template <class T>
void log_softmax(const T* from, std::int64_t classes, std::int64_t step, T* to) {
  T max = -std::numeric_limits<T>::infinity();
  for (std::int64_t c = 0; c < classes; ++c) max = std::max(max, from[c * step]);
  double sum = 0;
  for (std::int64_t c = 0; c < classes; ++c)
    sum += std::exp(static_cast<double>(from[c * step] - max));
  const double log_sum = std::log(sum);
  for (std::int64_t c = 0; c < classes; ++c)
    to[c * step] = static_cast<T>(static_cast<double>(from[c * step] - max) - log_sum);
}

void softmax_cross_entropy(OpCall& call) {
  tell_loss(call);
  call.declare_output(1, call.input(0).dtype(), call.input(0).shape());
  const Tensor scores = widened(call.input(0));
  const Sizes sizes(scores.shape(), call.input(1).shape());
  const Tensor log_p(scores.dtype(), scores.shape());
  visit_wide(scores.dtype(), [&]<class T>() {
    for (std::int64_t i = 0; i < sizes.outer * sizes.inner; ++i) {
      const std::int64_t at = i / sizes.inner * sizes.classes * sizes.inner + i % sizes.inner;
      log_softmax(as<T>(scores).data() + at, sizes.classes, sizes.inner, as<T>(log_p).data() + at);
    }
  });
  give_loss(call, log_p);
  call.set_output(1, narrowed(log_p, call.input(0).dtype()));
}

constexpr Op kLossOps[] = {
    {"NegativeLogLikelihoodLoss", 12, kReals, negative_log_likelihood},
    {"SoftmaxCrossEntropyLoss", 12, kReals, softmax_cross_entropy},
};

}  // namespace

std::span<const Op> loss_ops() { return kLossOps; }

}  // namespace sluice::engine
