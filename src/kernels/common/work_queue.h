// Hands the items of a kernel's work to its thread blocks one by one, so that items of different
// sizes end together. In device memory, all bits set before the first use; the kernel that used it
// leaves it so. Kernels that share one run one after the other.
#pragma once

namespace sluice::kernels {

struct WorkQueue {
  unsigned taken = ~0u;     // items that were taken, less one
  unsigned finished = ~0u;  // blocks that have ended, less one
};

}  // namespace sluice::kernels
