// Builder for tests of operators with many attributes.
#pragma once

#include "engine/ops/run_for_tests.h"

namespace sluice::engine {

class OneOp {
 public:
  explicit OneOp(std::string op, int version, std::string domain = "")
      : node_{.op = std::move(op), .version = version, .domain = std::move(domain)} {}

  OneOp& set(std::string name, Attributes::Any value) {
    node_.attributes.emplace_back(std::move(name), std::move(value));
    return *this;
  }

  // An empty tensor is an omitted input.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs, int outputs = 1) {
    node_.outputs = outputs;
    std::vector<Tensor> results;
    for (const Datum& datum : run_alone(node_, data(inputs))) results.push_back(datum.tensor);
    return results;
  }
  std::string refusal(const std::vector<Tensor>& inputs) {
    return engine::refusal(node_, data(inputs));
  }

 private:
  static std::vector<Datum> data(const std::vector<Tensor>& inputs) {
    std::vector<Datum> all;
    for (const Tensor& tensor : inputs) all.push_back(tensor ? Datum(tensor) : Datum());
    return all;
  }

  OneNode node_;
};

// Reproducible pseudo-random values from -1 to 1.
inline Tensor varied(const Shape& shape, unsigned seed = 1) {
  const Tensor tensor(DType::f32, shape);
  for (float& value : tensor.values<float>()) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 8) / static_cast<float>(1 << 23) - 1;
  }
  return tensor;
}

}  // namespace sluice::engine
