// The one place that launches kernels. A stream cannot be forgotten, and a bad
// launch is reported at the line of its caller.
#pragma once

#include "device/cuda/check.h"
#include "device/cuda/stream.h"

namespace sluice::device {

// A stream plus the caller's position; made implicitly from a stream.
struct On {
  On(const Stream& s, SourceLocation w = SourceLocation::here()) : stream(s.get()), where(w) {}
  On(cudaStream_t s, SourceLocation w = SourceLocation::here()) : stream(s), where(w) {}
  cudaStream_t stream;
  SourceLocation where;
};

struct Grid {
  dim3 blocks;
  dim3 threads;
  std::size_t shared_bytes = 0;
};

// For __launch_bounds__: `wanted` blocks of so many threads, or as many as a multiprocessor of the
// architecture that is compiled for has threads for (1,024 on 7.5, 1,536 on 8.6, 8.9 and 12.x).
constexpr int blocks_per_sm(int threads, int wanted) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750
  constexpr int kThreads = 1024;
#elif defined(__CUDA_ARCH__) && \
    (__CUDA_ARCH__ / 10 == 86 || __CUDA_ARCH__ / 10 == 89 || __CUDA_ARCH__ >= 1200)
  constexpr int kThreads = 1536;
#else
  constexpr int kThreads = 2048;
#endif
  return wanted * threads <= kThreads ? wanted : kThreads / threads;
}

template <class... Params, class... Args>
void launch(On on, Grid grid, void (*kernel)(Params...), Args... args) {
  kernel<<<grid.blocks, grid.threads, grid.shared_bytes, on.stream>>>(args...);
  check(cudaGetLastError(), on.where);
}

}  // namespace sluice::device
