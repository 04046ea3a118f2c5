#include "engine/quantize/quantize_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "engine/ops/convert.h"

namespace sluice::engine {

void LossMeter::add(const Tensor& expected, const Tensor& actual) {
  require(expected.shape() == actual.shape(),
          "results of shape " + to_string(actual.shape()) + ", not " + to_string(expected.shape()));
  if (expected.size() == 0) return;
  const Tensor wide_a = converted(expected, DType::f64), wide_b = converted(actual, DType::f64);
  const auto a = wide_a.values<double>(), b = wide_b.values<double>();
  const bool table = expected.rank() == 2 && expected.shape()[1] > 1;
  const auto n = static_cast<std::size_t>(
      expected.rank() < 2 ? expected.size() : expected.shape()[expected.rank() - 1]);
  for (std::size_t row = 0; row < a.size(); row += n) {
    double off = 0, aa = 0, bb = 0, ab = 0;
    for (std::size_t i = row; i < row + n; ++i) {
      off += (a[i] - b[i]) * (a[i] - b[i]);
      aa += a[i] * a[i], bb += b[i] * b[i], ab += a[i] * b[i];
    }
    difference_ += off, norm_ += aa;
    cosines_ += aa == 0 && bb == 0 ? 1 : aa == 0 || bb == 0 ? 0 : ab / std::sqrt(aa * bb);
    ++rows_;
    if (!table) continue;
    const auto argmax = [&](std::span<const double> all) {
      const auto of = all.subspan(row, n);
      return std::max_element(of.begin(), of.end()) - of.begin();
    };
    ++tables_;
    same_ += argmax(a) == argmax(b) ? 1 : 0;
  }
}

OutputLoss LossMeter::loss() const {
  OutputLoss loss;
  if (rows_ == 0) return loss;
  const double worst = std::numeric_limits<double>::infinity();
  loss.relative = difference_ == 0 ? 0 : norm_ == 0 ? worst : std::sqrt(difference_ / norm_);
  if (std::isnan(loss.relative)) loss.relative = worst;
  loss.cosine = cosines_ / static_cast<double>(rows_);
  if (tables_ > 0) loss.top1_agreement = static_cast<double>(same_) / static_cast<double>(tables_);
  return loss;
}

}  // namespace sluice::engine
