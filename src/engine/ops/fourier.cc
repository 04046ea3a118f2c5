#include "engine/ops/fourier.h"

#include <cmath>
#include <numbers>

namespace sluice::engine {
namespace {

std::size_t smallest_factor(std::size_t n) {
  for (std::size_t f = 2; f * f <= n; ++f)
    if (n % f == 0) return f;
  return n;
}

}  // namespace

Fourier::Fourier(std::size_t length, bool inverse) : roots_(length), inverse_(inverse) {
  const double turn = (inverse ? 2 : -2) * std::numbers::pi;
  for (std::size_t i = 0; i < length; ++i)
    roots_[i] = std::polar(1.0, turn * static_cast<double>(i) / static_cast<double>(length));
}

std::vector<std::complex<double>> Fourier::operator()(std::vector<std::complex<double>> row) const {
  row.resize(roots_.size());
  std::vector<std::complex<double>> result(row.size());
  if (row.empty()) return result;
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

// Of `factor` transforms behind each other, the one of what they were parts of.
void Fourier::combine(std::size_t count, std::size_t factor, std::complex<double>* to) const {
  const std::size_t part = count / factor, step = roots_.size() / count;
  std::vector<std::complex<double>> parts(factor);
  for (std::size_t k = 0; k < part; ++k) {
    for (std::size_t i = 0; i < factor; ++i) parts[i] = to[i * part + k];
    for (std::size_t q = 0; q < factor; ++q) {
      const std::size_t at = q * part + k;
      std::complex<double> sum = 0;
      for (std::size_t i = 0; i < factor; ++i) sum += parts[i] * roots_[at * i % count * step];
      to[at] = sum;
    }
  }
}

}  // namespace sluice::engine
