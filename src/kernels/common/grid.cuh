// Launch grids with one thread for each element.
#pragma once

#include "kernels/common/launch.cuh"

namespace sluice::kernels::cuda {

// `count` threads in blocks of `threads`; the last block may have more.
inline Grid one_each(long long count, int threads) {
  return {dim3(static_cast<unsigned>((count + threads - 1) / threads)),
          dim3(static_cast<unsigned>(threads))};
}

}  // namespace sluice::kernels::cuda
