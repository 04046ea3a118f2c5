// Matrix multiplication A B' in double precision on the CPU: the dominant cost of a covariance.
//
// It is not matmul() of kernels/gemm for two reasons: it computes half of a symmetric product only,
// and it stops within some bars when the caller is cancelled, however long the rows are.
#pragma once

#include <cstddef>

#include "compute/workers.h"

namespace sluice::market {

inline constexpr std::size_t kRowStep = 8;  // rows begin at multiples of so many doubles

// out[i * n + j] = sum over t of a[i * stride + t] * b[j * stride + t], for all j, or
// (`lower_only`) at least for j <= i. `stride` is a multiple of kRowStep; both are zero-padded
// beyond the last bar.
void gemm_nt(compute::Workers& workers, const double* a, const double* b, std::size_t n,
             std::size_t stride, bool lower_only, double* out);

}  // namespace sluice::market
