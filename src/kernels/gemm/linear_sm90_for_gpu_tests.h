// What the test and the benchmark of the Hopper Linear kernel share.
#pragma once

#include "kernels/common/device_for_gpu_tests.h"
#include "kernels/gemm/linear_sm90.h"

namespace sluice::kernels::cuda {

inline bool has_linear_sm90() {
  return is_hopper() && linear_sm90_supports({.rows = 1, .n = 8, .k = 8});
}

}  // namespace sluice::kernels::cuda
