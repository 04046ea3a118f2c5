// Hands the items of a kernel's work to its thread blocks one by one, so that blocks end at about
// the same time though items differ in size. In device memory, all bits set before the first use: a
// program sets its error flag with the same memset. A kernel takes items only after all kernels
// before it in the stream have ended (griddepcontrol.wait), and leaves the queue as it was.
#pragma once

namespace sluice::kernels {

struct WorkQueue {
  unsigned taken = ~0u;     // items that were taken, less one
  unsigned finished = ~0u;  // blocks that take no more, less one
};

}  // namespace sluice::kernels
