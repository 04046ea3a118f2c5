// Products of rows on the CPU: the part of a covariance that costs.
#pragma once

#include <cstddef>

#include "compute/workers.h"

namespace sluice::market {

inline constexpr std::size_t kRowStep = 8;  // rows begin at multiples of so many doubles

// out[i * n + j] = sum over t of a[i * stride + t] * b[j * stride + t], for all j, or
// (`half`) for j <= i at least. `stride` is a multiple of kRowStep; what lies beyond the
// last bar is 0 in both.
void products(compute::Workers& workers, const double* a, const double* b, std::size_t n,
              std::size_t stride, bool half, double* out);

}  // namespace sluice::market
