// Optimizer steps: Adagrad, Adam, Momentum.
#include <cmath>

#include "engine/ops/families.h"
#include "engine/ops/wide.h"

namespace sluice::engine {
namespace {

// Inputs are the learning rate, the step count, then `kinds` lists of equal length: values,
// gradients, and optimizer states. Outputs are all lists but the gradients.
class OptimizerStep {
 public:
  OptimizerStep(OpCall& call, std::size_t kinds) : call_(call), kinds_(kinds) {
    require(call.inputs() >= 2 && (call.inputs() - 2) % kinds == 0,
            std::to_string(call.inputs()) + " inputs");
    count_ = (call.inputs() - 2) / kinds;
    rate = number(call.input(0));
    steps = integer(call.input(1));
  }

  double rate;
  std::int64_t steps;

  // update(value, gradient, states...) updates an element and its states, as doubles in the order
  // of the inputs.
  template <class Update>
  void each(const Update& update) const {
    for (std::size_t i = 0; i < count_; ++i) {
      std::vector<Tensor> in, out;
      for (std::size_t kind = 0; kind < kinds_; ++kind) {
        in.push_back(call_.input(2 + kind * count_ + i));
        require(in[kind].shape() == in[0].shape() && in[kind].dtype() == in[0].dtype(),
                "a gradient of another shape or type than its values");
        out.push_back(kind == 1 ? Tensor() : Tensor(in[0].dtype(), in[0].shape()));
      }
      visit_wide(in[0].dtype(), [&]<class T>() { elements<T>(in, out, update); });
      for (std::size_t kind = 0, to = i; kind < kinds_; ++kind) {
        if (kind == 1) continue;
        call_.set_output(to, out[kind]);
        to += count_;
      }
    }
  }

 private:
  template <class T, class Update>
  void elements(const std::vector<Tensor>& in, const std::vector<Tensor>& out,
                const Update& update) const {
    std::array<double, 4> values{};
    for (std::size_t i = 0; i < as<T>(in[0]).size(); ++i) {
      for (std::size_t kind = 0; kind < kinds_; ++kind)
        values[kind] = static_cast<double>(as<T>(in[kind])[i]);
      update(values);
      for (std::size_t kind = 0; kind < kinds_; ++kind)
        if (kind != 1) as<T>(out[kind])[i] = static_cast<T>(values[kind]);
    }
  }

  OpCall& call_;
  std::size_t kinds_, count_ = 0;
};

double real(const OpCall& call, std::string_view name, float default_value = 0) {
  return static_cast<double>(call.attributes().real(name, default_value));
}

void adagrad(OpCall& call) {
  const OptimizerStep step(call, 3);
  const double norm = real(call, "norm_coefficient"), epsilon = real(call, "epsilon", 1e-6f);
  const double rate =
      step.rate / (1 + static_cast<double>(step.steps) * real(call, "decay_factor"));
  step.each([&](std::array<double, 4>& v) {
    auto& [x, g, h, unused] = v;
    g += norm * x;
    h += g * g;
    x -= rate * g / (std::sqrt(h) + epsilon);
  });
}

void adam(OpCall& call) {
  const OptimizerStep step(call, 4);
  const double alpha = real(call, "alpha", 0.9f), beta = real(call, "beta", 0.999f);
  const double norm = real(call, "norm_coefficient"), epsilon = real(call, "epsilon", 1e-6f);
  const double after = 1 - real(call, "norm_coefficient_post");
  double rate = step.rate;
  const auto steps = static_cast<double>(step.steps);
  if (step.steps > 0) rate *= std::sqrt(1 - std::pow(beta, steps)) / (1 - std::pow(alpha, steps));
  step.each([&](std::array<double, 4>& values) {
    auto& [x, g, v, h] = values;
    g += norm * x;
    v = alpha * v + (1 - alpha) * g;
    h = beta * h + (1 - beta) * g * g;
    x = after * (x - rate * v / (std::sqrt(h) + epsilon));
  });
}

void momentum(OpCall& call) {
  const OptimizerStep step(call, 3);
  const double alpha = real(call, "alpha"), norm = real(call, "norm_coefficient");
  const double beta = step.steps > 0 ? real(call, "beta") : 1;
  const std::string mode = call.attributes().string("mode", "standard");
  require(mode == "standard" || mode == "nesterov", "mode '" + mode + "' is not known");
  step.each([&](std::array<double, 4>& values) {
    auto& [x, g, v, unused] = values;
    g += norm * x;
    v = alpha * v + beta * g;
    x -= step.rate * (mode == "nesterov" ? g + alpha * v : v);
  });
}

constexpr std::string_view kTraining = "ai.onnx.preview.training";
constexpr Types kRate{DType::f32, DType::f64};

constexpr Op kTrainingOps[] = {
    {"Adagrad", 1, kRate, adagrad, kTraining},
    {"Adam", 1, kRate, adam, kTraining},
    {"Momentum", 1, kRate, momentum, kTraining},
};

}  // namespace

std::span<const Op> training_ops() { return kTrainingOps; }

}  // namespace sluice::engine
