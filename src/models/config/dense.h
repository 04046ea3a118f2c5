// A dense layer after the pooling, as the Dense module of sentence-transformers.
#pragma once

#include <span>
#include <vector>

#include "compute/workers.h"
#include "tensor/tensor.h"

namespace sluice::models {

enum class DenseActivation { none, tanh, relu, gelu };

struct Dense {
  Tensor weights;  // f32 [out, in]
  Tensor bias;     // f32 [out], or none
  DenseActivation activation = DenseActivation::none;

  std::int64_t in() const { return weights.shape()[1]; }
  std::int64_t out() const { return weights.shape()[0]; }
};

// activation(x * weights^T + bias) for rows of in() numbers; a row's bits do not depend on others.
std::vector<float> apply(const Dense& dense, std::span<const float> rows,
                         compute::Workers& workers);

}  // namespace sluice::models
