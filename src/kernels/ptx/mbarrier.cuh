// mbarrier and TMA instructions of sm_90 (Hopper). Addresses are in shared memory; a wait names the
// parity of the phase that it waits for: 0, 1, 0, and so on.
#pragma once

#include <cuda.h>

#include "kernels/ptx/mma.cuh"

namespace sluice::kernels::cuda {

__device__ inline void mbarrier_init(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ inline void mbarrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// One arrival for the whole warp.
__device__ inline void mbarrier_arrive_warp(unsigned barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) mbarrier_arrive(barrier);
}
// Arrives, and makes the phase wait for that many bytes of TMA loads too.
__device__ inline void mbarrier_arrive_expect_tx(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
               "r"(bytes)
               : "memory");
}

__device__ inline void mbarrier_wait(unsigned barrier, unsigned phase) {
  asm volatile(
      "{.reg .pred done; again: "
      "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1; "
      "@!done bra again; }" ::"r"(barrier),
      "r"(phase)
      : "memory");
}

// A position in a ring of mbarriers: the index, and the parity of the phase.
struct PipelineState {
  int index = 0;
  unsigned phase = 0;

  __device__ void next(int count) {
    if (++index == count) index = 0, phase ^= 1;
  }
  // The same as `steps` times next().
  __device__ void advance(int steps, int count) {
    index += steps;
    phase ^= static_cast<unsigned>(index / count) & 1;
    index %= count;
  }
};

// Makes writes to shared memory visible to the async proxy: wgmma and TMA. For all state spaces it
// would wait for global memory too, about 1,000 cycles.
__device__ inline void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Loads the box of a 2D tensor map that begins at this byte and row.
__device__ inline void tma_load_2d(unsigned to, const CUtensorMap& map, int byte, int row,
                                   unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(&map), "r"(byte), "r"(row), "r"(barrier)
      : "memory");
}

// The coordinates of an im2col load: the first pixel of the window, and the im2col offsets of the
// kernel position.
struct Im2colCoord {
  int w, h, n;
  int offset_w, offset_h;
};
__device__ inline void tma_load_im2col(unsigned to, const CUtensorMap& map, int byte,
                                       const Im2colCoord& at, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(to),
      "l"(&map), "r"(byte), "r"(at.w), "r"(at.h), "r"(at.n), "r"(barrier),
      "h"(static_cast<unsigned short>(at.offset_w)), "h"(static_cast<unsigned short>(at.offset_h))
      : "memory");
}

__device__ inline void tma_store_2d(const CUtensorMap& map, int byte, int row, unsigned from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(
          &map),
      "r"(byte), "r"(row), "r"(from)
      : "memory");
}
// Waits until shared memory of this thread's TMA stores has been read and may be written again.
__device__ inline void tma_store_wait() {
  asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// Fetches a tensor map, or the box of one into the L2 cache, for loads that follow.
__device__ inline void prefetch_tensor_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
__device__ inline void tma_prefetch_2d(const CUtensorMap& map, int byte, int row) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(&map),
               "r"(byte), "r"(row)
               : "memory");
}

}  // namespace sluice::kernels::cuda
