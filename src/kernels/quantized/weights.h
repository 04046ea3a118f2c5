// Quantized weights on the host, packed for the int8 GEMMs.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace sluice::kernels::cuda {

// Packs n columns of k values, in the order [kernel positions, channels], as rows of `row` bytes;
// rows of zeros fill up to a multiple of 16.
Tensor pack_weight_rows(const std::vector<std::uint8_t>& columns, std::int64_t n, std::int64_t k,
                        std::int64_t row);

// Zero point compensation: what the zero point of x adds to each accumulator.
std::vector<std::int32_t> zero_point_compensation(const std::vector<std::uint8_t>& columns,
                                                  std::int64_t n, std::int64_t k, int zero);
// Whether a float cannot hold it exactly beside an accumulator.
bool exceeds_float_precision(const std::vector<std::int32_t>& compensation);

}  // namespace sluice::kernels::cuda
