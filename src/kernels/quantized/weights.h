// Weights of products of small numbers, before they go to a GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace sluice::kernels::cuda {

// Of n columns, k values each, as rows of `row` bytes, in the order [places, channels], and rows of
// zeros up to a multiple of 16.
Tensor packed_weights(const std::vector<std::uint8_t>& columns, std::int64_t n, std::int64_t k,
                      std::int64_t row);

// What the zero of x adds to each sum.
std::vector<std::int32_t> shift_of(const std::vector<std::uint8_t>& columns, std::int64_t n,
                                   std::int64_t k, int zero);
// Whether a float loses something of it.
bool is_large(const std::vector<std::int32_t>& shift);

}  // namespace sluice::kernels::cuda
