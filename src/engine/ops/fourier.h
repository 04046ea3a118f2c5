// The discrete Fourier transform of one row.
#pragma once

#include <complex>
#include <vector>

namespace sluice::engine {

// Any length; quick where it has small factors only. The inverse divides by the length.
class Fourier {
 public:
  Fourier(std::size_t length, bool inverse);

  std::vector<std::complex<double>> operator()(std::vector<std::complex<double>> row) const;

 private:
  // Transforms `count` of `from`, `step` apart, to `to`.
  void transform(const std::complex<double>* from, std::size_t count, std::size_t step,
                 std::complex<double>* to) const;
  void combine(std::size_t count, std::size_t factor, std::complex<double>* to) const;

  std::vector<std::complex<double>> roots_;  // of one, as many as the length
  bool inverse_;
};

}  // namespace sluice::engine
