// Grids of kernels whose threads each make one of many things.
#pragma once

#include "kernels/common/launch.cuh"

namespace sluice::kernels::cuda {

// One thread for each of `count`, in blocks of `threads`.
inline Grid one_each(long long count, int threads) {
  return {dim3(static_cast<unsigned>((count + threads - 1) / threads)),
          dim3(static_cast<unsigned>(threads))};
}

}  // namespace sluice::kernels::cuda
