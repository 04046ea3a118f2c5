// How far the results of a model with smaller numbers are from those of the model it was.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace sluice::engine {

struct OutputLoss {
  double relative = 0;  // length of the difference, relative to that of what it should be
  double cosine = 1;    // of what both are, row by row, in the mean
  // Of a table: how often the largest of a row is at the same place.
  std::optional<double> same_largest{};
};

// Of one output, over any number of runs.
class LossMeter {
 public:
  // Numbers of any type, of one shape. What is no number is as far off as can be.
  void add(const Tensor& should, const Tensor& is);

  OutputLoss loss() const;

 private:
  double off_ = 0, length_ = 0;  // squares
  double cosines_ = 0;
  std::size_t rows_ = 0, tables_ = 0, same_ = 0;
};

}  // namespace sluice::engine
