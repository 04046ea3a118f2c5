#include "engine/ops/ml/scores.h"

#include <cmath>

namespace sluice::engine {
namespace {

float logistic(float x) {
  const float e = std::exp(-std::abs(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

// The inverse of the normal distribution, by Winitzki's formula for the inverse of erf.
float probit(float x) {
  const float y = 2 * x - 1, log = std::log((1 - y) * (1 + y));
  const float a = 0.147f, b = 2 / (3.14159265f * a) + log / 2;
  const float root = std::sqrt(std::sqrt(b * b - log / a) - b);
  return 1.41421356f * (y < 0 ? -root : root);
}

// `zeros_stay`: scores of exactly 0 are not transformed.
void softmax_scores(std::span<float> row, bool zeros_stay) {
  float max = -std::numeric_limits<float>::infinity(), sum = 0;
  for (const float x : row) max = std::max(max, x);
  for (float& x : row) {
    x = zeros_stay && x == 0 ? 0 : std::exp(x - max);
    sum += x;
  }
  for (float& x : row) x = sum > 0 ? x / sum : x;
}

}  // namespace

PostTransform post_transform_of(const Attributes& attributes) {
  constexpr std::string_view kNames[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const auto found = attributes.all().find("post_transform");
  if (found == attributes.all().end()) return PostTransform::none;
  if (const auto* number = std::get_if<std::int64_t>(&found->second)) {
    require(*number >= 0 && *number < 5, "no post_transform " + std::to_string(*number));
    return static_cast<PostTransform>(*number);
  }
  const std::string name = attributes.string("post_transform", "");
  for (int i = 0; i < 5; ++i)
    if (kNames[i] == name) return static_cast<PostTransform>(i);
  throw Error(Code::invalid_argument, "no post_transform " + name);
}

void transform_scores(PostTransform how, std::span<float> row) {
  switch (how) {
    case PostTransform::none: return;
    case PostTransform::softmax: return softmax_scores(row, false);
    case PostTransform::softmax_zero: return softmax_scores(row, true);
    case PostTransform::logistic:
      for (float& x : row) x = logistic(x);
      return;
    case PostTransform::probit:
      for (float& x : row) x = probit(x);
      return;
  }
}

double double_dot(const float* a, const float* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

std::size_t argmax(std::span<const float> scores) {
  return static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

ScoreRows::ScoreRows(const Tensor& tensor) {
  require(tensor.rank() == 1 || tensor.rank() == 2,
          "a row or rows of numbers, not " + to_string(tensor.shape()));
  count = tensor.rank() == 2 ? tensor.shape()[0] : 1;
  width = tensor.shape()[tensor.rank() - 1];
  require(width > 0 || count == 0, "rows without columns");
  values.reserve(static_cast<std::size_t>(tensor.size()));
  visit_numbers(tensor.dtype(), [&]<class T>() {
    for (const T& value : tensor.values<T>())
      values.push_back(static_cast<float>(static_cast<Wide<T>>(value)));
  });
}

Labels::Labels(const Attributes& attributes, std::string_view integers, std::string_view strings)
    : of_strings_(attributes.has(strings) && !attributes.strings(strings).empty()),
      integers_(attributes.integers(integers)),
      strings_(attributes.strings(strings)) {}

Tensor Labels::output(OpCall& call, std::int64_t count) const {
  const Tensor out = call.output(0, of_strings_ ? DType::string : DType::i64, Shape{count});
  std::size_t longest = 0;
  for (const std::string& label : strings_) longest = std::max(longest, string_bytes({&label, 1}));
  out.reserve_string_bytes(static_cast<std::size_t>(count), longest);
  return out;
}

void Labels::write(const Tensor& out, std::int64_t row, std::size_t which) const {
  const auto i = static_cast<std::size_t>(row);
  require(size() == 0 || which < size(), "a class without a label");
  if (of_strings_)
    out.values<std::string>()[i] = strings_[which];
  else
    out.values<std::int64_t>()[i] =
        integers_.empty() ? static_cast<std::int64_t>(which) : integers_[which];
}

}  // namespace sluice::engine
