// Programmatic dependent launch of sm_90 (Hopper): a kernel starts before those before it in the
// stream have ended, and waits for them when it needs what they wrote.
#pragma once

namespace sluice::kernels::cuda {

// Waits until the kernels before this one in the stream have ended and their writes are visible.
// Returns at once where the launch did not allow to start earlier.
__device__ inline void wait_for_previous_kernels() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
// Lets the next kernel start, once all blocks have come here, if its launch allows it.
__device__ inline void let_next_kernel_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace sluice::kernels::cuda
