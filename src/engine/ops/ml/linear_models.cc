// Linear classifiers and regressors.
#include "engine/ops/families.h"
#include "engine/ops/ml/scores.h"

namespace sluice::engine {
namespace {

// One row of scores: dot products with the coefficient rows, plus intercepts.
std::vector<float> linear_scores(const std::vector<float>& coefficients,
                                 const std::vector<float>& intercepts, const float* row,
                                 std::int64_t width, std::size_t count) {
  require(coefficients.size() == count * static_cast<std::size_t>(width),
          std::to_string(coefficients.size()) + " coefficients for " + std::to_string(count) +
              " scores of " + std::to_string(width) + " columns");
  require(intercepts.empty() || intercepts.size() == count, "intercepts that do not fit");
  std::vector<float> scores;
  for (std::size_t i = 0; i < count; ++i) {
    const double sum =
        double_dot(row, coefficients.data() + i * static_cast<std::size_t>(width), width);
    scores.push_back(
        static_cast<float>(sum + (intercepts.empty() ? 0.0 : static_cast<double>(intercepts[i]))));
  }
  return scores;
}

void linear_regressor(OpCall& call) {
  const ScoreRows rows(call.input(0));
  const Attributes& a = call.attributes();
  const std::int64_t targets = a.integer("targets", 1);
  const PostTransform how = post_transform_of(a);
  const auto coefficients = a.reals("coefficients"), intercepts = a.reals("intercepts");
  require(targets > 0 && static_cast<std::size_t>(targets) <= coefficients.size(),
          std::to_string(targets) + " targets");
  float* to = call.output(0, DType::f32, {rows.count, targets}).values<float>().data();
  for (std::int64_t i = 0; i < rows.count; ++i) {
    std::vector<float> scores = linear_scores(coefficients, intercepts, rows.row(i), rows.width,
                                              static_cast<std::size_t>(targets));
    transform_scores(how, scores);
    to = std::copy(scores.begin(), scores.end(), to);
  }
}

// A single score of two classes is that of the second class.
std::vector<float> both_classes(float score, PostTransform how) {
  if (how != PostTransform::logistic) return {1 - score, score};
  std::vector<float> both{-score, score};
  transform_scores(how, both);
  return both;
}

void linear_classifier(OpCall& call) {
  const ScoreRows rows(call.input(0));
  const Attributes& a = call.attributes();
  const Labels labels(a, "classlabels_ints", "classlabels_strings");
  const auto coefficients = a.reals("coefficients"), intercepts = a.reals("intercepts");
  require(rows.width > 0 && !coefficients.empty(), "no coefficients");
  const std::size_t count = coefficients.size() / static_cast<std::size_t>(rows.width);
  const PostTransform how = post_transform_of(a);
  const bool lone = count == 1 && labels.size() == 2;
  const Tensor chosen = labels.output(call, rows.count);
  const auto width = static_cast<std::int64_t>(lone ? 2 : count);
  float* to = call.output(1, DType::f32, {rows.count, width}).values<float>().data();
  for (std::int64_t i = 0; i < rows.count; ++i) {
    std::vector<float> scores =
        linear_scores(coefficients, intercepts, rows.row(i), rows.width, count);
    labels.write(chosen, i, lone ? (scores[0] > 0 ? 1 : 0) : argmax(scores));
    if (lone)
      scores = both_classes(scores[0], how);
    else
      transform_scores(how, scores);
    to = std::copy(scores.begin(), scores.end(), to);
  }
}

constexpr Op kLinearOps[] = {
    {"LinearClassifier", 1, kScoreTypes, linear_classifier, kMlDomain},
    {"LinearRegressor", 1, kScoreTypes, linear_regressor, kMlDomain},
};

}  // namespace

std::span<const Op> linear_ops() { return kLinearOps; }

}  // namespace sluice::engine
