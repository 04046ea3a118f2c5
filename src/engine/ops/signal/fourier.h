// The discrete Fourier transform of one row.
#pragma once

#include <complex>
#include <memory>
#include <vector>

#include "tensor/tensor.h"

namespace sluice::engine {

// FFT of any length in O(n log n). The inverse is scaled by 1 / length.
class Fourier {
 public:
  using Row = std::vector<std::complex<double>>;

  Fourier(std::size_t length, bool inverse);

  Row operator()(Row row) const;

  // Accounts for the workspace of `threads` concurrent rows while the tensor lives.
  Tensor workspace(int threads) const;

 private:
  // Transforms `count` elements of `from` with stride `step` to `to`.
  void transform(const std::complex<double>* from, std::size_t count, std::size_t step,
                 std::complex<double>* to) const;
  void combine(std::size_t count, std::size_t factor, std::complex<double>* to) const;

  void prepare_chirp();
  Row bluestein(const Row& row) const;

  std::size_t length_;
  bool inverse_;
  Tensor reservation_;  // accounts for the memory of the members below
  Row roots_;           // the roots of unity
  // Lengths with a large prime factor use Bluestein's algorithm with a transform of a power of two.
  std::unique_ptr<Fourier> longer_;
  Row chirp_, spectrum_;
};

}  // namespace sluice::engine
