// The axes of a strided copy, on the CPU and on CUDA.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice::kernels {

// One axis of a copy: its size, and the strides in the source (0 repeats an element, negative
// reverses) and in the target, in elements.
struct CopyAxis {
  std::int64_t size, from, to;
};

// Drops axes of size 1, sorts by the target's stride and merges axes that are contiguous in both.
std::vector<CopyAxis> merged_axes(std::vector<CopyAxis> axes);

}  // namespace sluice::kernels
