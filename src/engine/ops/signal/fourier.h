// The discrete Fourier transform of one row.
#pragma once

#include <complex>
#include <memory>
#include <vector>

#include "tensor/tensor.h"

namespace sluice::engine {

// Any length, in time that grows little faster than the length. The inverse divides by it.
class Fourier {
 public:
  using Row = std::vector<std::complex<double>>;

  Fourier(std::size_t length, bool inverse);

  Row operator()(Row row) const;

  // What `threads` rows take at once, counted as memory of tensors while it lives.
  Tensor room(int threads) const;

 private:
  // Transforms `count` of `from`, `step` apart, to `to`.
  void transform(const std::complex<double>* from, std::size_t count, std::size_t step,
                 std::complex<double>* to) const;
  void combine(std::size_t count, std::size_t factor, std::complex<double>* to) const;

  void prepare_chirp();
  Row by_chirp(const Row& row) const;

  std::size_t length_;
  bool inverse_;
  Tensor room_;  // not used: it makes what follows count
  Row roots_;    // of one, as many as the length
  // Lengths with a large prime factor: a product with a chirp (Bluestein), by a transform of a
  // length that has small ones.
  std::unique_ptr<Fourier> longer_;
  Row chirp_, spectrum_;
};

}  // namespace sluice::engine
