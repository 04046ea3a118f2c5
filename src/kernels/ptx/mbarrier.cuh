// Barriers in shared memory, and copies of boxes that arrive at them. Those who wait name the phase
// that is to end: 0, 1, 0, and so on.
#pragma once

#include <cuda.h>

#include "kernels/ptx/mma.cuh"

namespace sluice::kernels::cuda {

__device__ inline void init_barrier(unsigned at, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}

__device__ inline void arrive(unsigned at) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}
__device__ inline void arrive_as_warp(unsigned at) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) arrive(at);
}
// And that many bytes of copies are to arrive, too.
__device__ inline void arrive_with(unsigned at, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(at),
               "r"(bytes)
               : "memory");
}

__device__ inline void await(unsigned at, unsigned phase) {
  asm volatile(
      "{.reg .pred done; again: "
      "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1; "
      "@!done bra again; }" ::"r"(at),
      "r"(phase)
      : "memory");
}

// What threads wrote to shared memory is there for tensor cores and copies of boxes.
__device__ inline void show_to_others() { asm volatile("fence.proxy.async;" ::: "memory"); }

// The box that begins at this byte and row.
__device__ inline void fetch_box(unsigned to, const CUtensorMap& map, int byte, int row,
                                 unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(&map), "r"(byte), "r"(row), "r"(barrier)
      : "memory");
}

// A window's first pixel, and how far from there its place is.
struct WindowPlace {
  int x, y, image;
  int across, down;
};
__device__ inline void fetch_windows(unsigned to, const CUtensorMap& map, int byte,
                                     const WindowPlace& at, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(to),
      "l"(&map), "r"(byte), "r"(at.x), "r"(at.y), "r"(at.image), "r"(barrier),
      "h"(static_cast<unsigned short>(at.across)), "h"(static_cast<unsigned short>(at.down))
      : "memory");
}

__device__ inline void write_box(const CUtensorMap& map, int byte, int row, unsigned from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(
          &map),
      "r"(byte), "r"(row), "r"(from)
      : "memory");
}
// Until the boxes that this thread writes are read from shared memory.
__device__ inline void await_written() {
  asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;" ::: "memory");
}

}  // namespace sluice::kernels::cuda
