#include "engine/ops/signal/fourier.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace sluice::engine {
namespace {

std::size_t smallest_factor(std::size_t n) {
  if (n % 4 == 0) return 4;  // radix 4
  for (std::size_t f = 2; f * f <= n; ++f)
    if (n % f == 0) return f;
  return n;
}

std::size_t largest_factor(std::size_t n) {
  std::size_t largest = 1;
  for (; n > 1; n /= largest) largest = smallest_factor(n);
  return largest;
}

constexpr std::size_t kMaxFactor = 64;  // above it Bluestein's algorithm is faster

}  // namespace

Fourier::Fourier(std::size_t length, bool inverse) : length_(length), inverse_(inverse) {
  if (largest_factor(length) > kMaxFactor) {
    prepare_chirp();
    return;
  }
  const auto count = static_cast<std::int64_t>(length);
  reservation_ = Tensor(DType::f64, Shape{count, 2});
  roots_.resize(length);
  const double turn = (inverse ? 2 : -2) * std::numbers::pi;
  for (std::size_t i = 0; i < length; ++i)
    roots_[i] = std::polar(1.0, turn * static_cast<double>(i) / static_cast<double>(length));
}

// jk = (j^2 + k^2 - (k - j)^2) / 2: the transform is a convolution with exp(i pi k^2 / length).
void Fourier::prepare_chirp() {
  const std::size_t padded = std::bit_ceil(2 * length_);
  longer_ = std::make_unique<Fourier>(padded, false);
  reservation_ = Tensor(DType::f64, Shape{static_cast<std::int64_t>(length_ + 3 * padded), 2});
  const double turn = (inverse_ ? 1 : -1) * std::numbers::pi;
  Row around(padded);
  for (std::size_t k = 0; k < length_; ++k) {
    const auto square = static_cast<double>(k * k % (2 * length_));
    chirp_.push_back(std::polar(1.0, turn * square / static_cast<double>(length_)));
    around[k] = around[(padded - k) % padded] = std::conj(chirp_[k]);
  }
  spectrum_ = (*longer_)(std::move(around));
}

Fourier::Row Fourier::bluestein(const Row& row) const {
  Row wide(spectrum_.size());
  for (std::size_t i = 0; i < row.size(); ++i) wide[i] = row[i] * chirp_[i];
  wide = (*longer_)(std::move(wide));
  // The inverse, by conjugation.
  for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = std::conj(wide[i] * spectrum_[i]);
  wide = (*longer_)(std::move(wide));
  Row result(row.size());
  for (std::size_t i = 0; i < row.size(); ++i)
    result[i] = std::conj(wide[i]) * chirp_[i] / static_cast<double>(wide.size());
  return result;
}

Tensor Fourier::workspace(int threads) const {
  const std::size_t rows = 2 * length_ + 2 * spectrum_.size();
  return {DType::f64, Shape{threads, static_cast<std::int64_t>(rows), 2}};
}

Fourier::Row Fourier::operator()(Row row) const {
  row.resize(length_);
  Row result(row.size());
  if (row.empty()) return result;
  if (longer_ != nullptr)
    result = bluestein(row);
  else
    transform(row.data(), row.size(), 1, result.data());
  if (inverse_)
    for (auto& value : result) value /= static_cast<double>(result.size());
  return result;
}

void Fourier::transform(const std::complex<double>* from, std::size_t count, std::size_t step,
                        std::complex<double>* to) const {
  if (count == 1) {
    *to = *from;
    return;
  }
  const std::size_t factor = smallest_factor(count), part = count / factor;
  for (std::size_t i = 0; i < factor; ++i)
    transform(from + i * step, part, step * factor, to + i * part);
  combine(count, factor, to);
}

// Combines `factor` consecutive transforms into one.
void Fourier::combine(std::size_t count, std::size_t factor, std::complex<double>* to) const {
  const std::size_t part = count / factor, step = roots_.size() / count;
  std::vector<std::complex<double>> parts(factor);
  for (std::size_t k = 0; k < part; ++k) {
    for (std::size_t i = 0; i < factor; ++i) parts[i] = to[i * part + k];
    for (std::size_t q = 0; q < factor; ++q) {
      const std::size_t at = q * part + k;
      std::complex<double> sum = 0;
      std::size_t turn = 0;  // at * i % count
      for (std::size_t i = 0; i < factor; ++i) {
        sum += parts[i] * roots_[turn * step];
        turn += turn + at < count ? at : at - count;
      }
      to[at] = sum;
    }
  }
}

}  // namespace sluice::engine
