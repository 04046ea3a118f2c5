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

template <class... Params, class... Args>
void launch(On on, Grid grid, void (*kernel)(Params...), Args... args) {
  kernel<<<grid.blocks, grid.threads, grid.shared_bytes, on.stream>>>(args...);
  check(cudaGetLastError(), on.where);
}

}  // namespace sluice::device
