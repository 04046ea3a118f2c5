// The accuracy loss of a quantized model relative to the original.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace sluice::engine {

struct OutputLoss {
  double relative = 0;  // norm of the difference, relative to the norm of the reference
  double cosine = 1;    // mean cosine similarity of rows
  // For 2-D outputs: the share of rows with the same argmax.
  std::optional<double> top1_agreement{};
};

// Accumulates the loss of one output over any number of runs.
class LossMeter {
 public:
  // Numbers of any type, of one shape. NaN counts as the maximum loss.
  void add(const Tensor& expected, const Tensor& actual);

  OutputLoss loss() const;

 private:
  double difference_ = 0, norm_ = 0;  // sums of squares
  double cosines_ = 0;
  std::size_t rows_ = 0, tables_ = 0, same_ = 0;
};

}  // namespace sluice::engine
