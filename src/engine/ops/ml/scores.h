// Scores of classical models: post-transforms and class labels.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/ops/op.h"

namespace sluice::engine {

// The element types of the rows that classical models take.
inline constexpr Types kScoreTypes{DType::f32, DType::f64, DType::i32, DType::i64};

enum class PostTransform { none, softmax, logistic, softmax_zero, probit };

// The attribute post_transform, as a name or as a number.
PostTransform post_transform_of(const Attributes& attributes);

// One row of scores, in place.
void transform_scores(PostTransform how, std::span<float> row);

// The dot product, summed in double.
double double_dot(const float* a, const float* b, std::int64_t count);
// The index of the largest score, the first among equals.
std::size_t argmax(std::span<const float> scores);

// Rows as float, from a tensor [C] (one row) or [N, C] of any numeric type.
struct ScoreRows {
  std::int64_t count = 0, width = 0;
  std::vector<float> values{};

  explicit ScoreRows(const Tensor& tensor);
  const float* row(std::int64_t i) const { return values.data() + i * width; }
};

// The labels of a classifier, integers or strings (attributes of those names).
class Labels {
 public:
  Labels(const Attributes& attributes, std::string_view integers, std::string_view strings);

  std::size_t size() const { return of_strings_ ? strings_.size() : integers_.size(); }
  Tensor output(OpCall& call, std::int64_t count) const;  // output 0
  // Writes the class index if there are no labels.
  void write(const Tensor& out, std::int64_t row, std::size_t which) const;

 private:
  bool of_strings_;
  std::vector<std::int64_t> integers_;
  std::vector<std::string> strings_;
};

}  // namespace sluice::engine
