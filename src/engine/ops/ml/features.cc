// Classical preprocessing of rows of numbers.
#include <cmath>

#include "engine/ops/families.h"
#include "engine/ops/ml/scores.h"

namespace sluice::engine {
namespace {

void binarizer(OpCall& call) {
  const Tensor& data = call.input(0);
  const auto threshold = static_cast<double>(call.attributes().real("threshold", 0));
  const Tensor out = call.output(0, data.dtype(), data.shape());
  visit_types<float, double, std::int32_t, std::int64_t>(data.dtype(), [&]<class T>() {
    std::transform(data.values<T>().begin(), data.values<T>().end(), out.values<T>().begin(),
                   [&](T x) { return T(static_cast<double>(x) > threshold ? 1 : 0); });
  });
}

// Concatenates the rows of all inputs.
void feature_vectorizer(OpCall& call) {
  const auto widths = call.attributes().integers("inputdimensions");
  std::vector<ScoreRows> parts;
  std::int64_t width = 0;
  for (std::size_t i = 0; i < call.inputs(); ++i) {
    parts.emplace_back(call.input(i));
    require(parts[i].count == parts[0].count, "inputs of different numbers of rows");
    require(widths.empty() || (i < widths.size() && widths[i] == parts[i].width),
            "input " + std::to_string(i) + " has " + std::to_string(parts[i].width) + " columns");
    width += parts[i].width;
  }
  require(!parts.empty(), "no inputs");
  const Tensor out = call.output(0, DType::f32, {parts[0].count, width});
  float* to = out.values<float>().data();
  for (std::int64_t row = 0; row < parts[0].count; ++row)
    for (const ScoreRows& part : parts) to = std::copy_n(part.row(row), part.width, to);
}

// One value for all columns, or one per column.
template <class T>
const T& of_column(const std::vector<T>& list, std::int64_t column) {
  return list.size() == 1 ? list[0] : list[static_cast<std::size_t>(column)];
}

template <class T>
void impute(OpCall& call, const std::vector<T>& values, T replaced) {
  const Tensor& data = call.input(0);
  const std::int64_t width = data.rank() == 0 ? 1 : data.shape()[data.rank() - 1];
  require(values.size() == 1 || static_cast<std::int64_t>(values.size()) == width,
          std::to_string(values.size()) + " values for " + std::to_string(width) + " columns");
  const Tensor out = call.output(0, data.dtype(), data.shape());
  for (std::int64_t i = 0; i < data.size(); ++i) {
    const T x = data.values<T>()[static_cast<std::size_t>(i)];
    const bool missing = x == replaced || (replaced != replaced && x != x);
    out.values<T>()[static_cast<std::size_t>(i)] = missing ? of_column(values, i % width) : x;
  }
}

void imputer(OpCall& call) {
  const Attributes& a = call.attributes();
  const auto reals = a.reals("imputed_value_floats");
  const float replaced = a.real("replaced_value_float", 0);
  switch (call.input(0).dtype()) {
    case DType::f32: return impute<float>(call, reals, replaced);
    case DType::f64:
      return impute<double>(call, {reals.begin(), reals.end()}, static_cast<double>(replaced));
    case DType::i64:
      return impute<std::int64_t>(call, a.integers("imputed_value_int64s"),
                                  a.integer("replaced_value_int64", 0));
    default: unsupported_type(call.input(0).dtype());
  }
}

void normalizer(OpCall& call) {
  const ScoreRows rows(call.input(0));
  const std::string norm = call.attributes().string("norm", "MAX");
  require(norm == "MAX" || norm == "L1" || norm == "L2", "no norm " + norm);
  const auto out = call.output(0, DType::f32, call.input(0).shape()).values<float>();
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const float* const row = rows.row(i);
    double size = norm == "MAX" ? -std::numeric_limits<double>::infinity() : 0;
    for (std::int64_t k = 0; k < rows.width; ++k) {
      const auto x = static_cast<double>(row[k]);
      size = norm == "MAX" ? std::max(size, x) : size + (norm == "L1" ? std::abs(x) : x * x);
    }
    if (norm == "L2") size = std::sqrt(size);
    for (std::int64_t k = 0; k < rows.width; ++k)
      out[static_cast<std::size_t>(i * rows.width + k)] =
          size == 0 ? row[k] : static_cast<float>(static_cast<double>(row[k]) / size);
  }
}

void scaler(OpCall& call) {
  const ScoreRows rows(call.input(0));
  const auto offset = call.attributes().reals("offset", {0.0f});
  const auto scale = call.attributes().reals("scale", {1.0f});
  const auto fits = [&](const std::vector<float>& list) {
    return list.size() == 1 || static_cast<std::int64_t>(list.size()) == rows.width;
  };
  require(fits(offset) && fits(scale), "offset and scale do not fit the columns");
  const auto out = call.output(0, DType::f32, call.input(0).shape()).values<float>();
  for (std::int64_t i = 0; i < rows.count * rows.width; ++i) {
    const std::int64_t column = i % rows.width;
    out[static_cast<std::size_t>(i)] =
        (rows.values[static_cast<std::size_t>(i)] - of_column(offset, column)) *
        of_column(scale, column);
  }
}

constexpr Op kFeatureOps[] = {
    {"Binarizer", 1, kScoreTypes, binarizer, kMlDomain},
    {"FeatureVectorizer", 1, kScoreTypes, feature_vectorizer, kMlDomain},
    {"Imputer", 1, {DType::f32, DType::f64, DType::i64}, imputer, kMlDomain},
    {"Normalizer", 1, kScoreTypes, normalizer, kMlDomain},
    {"Scaler", 1, kScoreTypes, scaler, kMlDomain},
};

}  // namespace

std::span<const Op> feature_ops() { return kFeatureOps; }

}  // namespace sluice::engine
