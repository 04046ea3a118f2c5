// The warp-specialized pipeline of the Hopper (sm_90a) GEMM: a TMA load warp (producer), two
// consumer warpgroups (wgmma) and a TMA store warp, with mbarriers between them.
#pragma once

#include <algorithm>

#include "kernels/gemm/gemm_epilogue.h"
#include "kernels/ptx/mbarrier.cuh"

namespace sluice::kernels::cuda {

constexpr int kWarpgroupThreads = 128;
constexpr int kConsumers = 2;  // warpgroups that run wgmma
constexpr int kThreads =
    kConsumers * kWarpgroupThreads + 2 * 32;  // plus the load and the store warp
constexpr int kProducerThread = kConsumers * kWarpgroupThreads, kStoreThread = kProducerThread + 32;
constexpr int kSwizzleAlignment = 1024;  // of stages: bytes after which the pattern repeats

constexpr int kBlocksPerSm = 2;
// Shared memory of a block; CUDA reserves 1 KiB.
constexpr int kBytes = 228 * 1024 / kBlocksPerSm - 1024;

// An output tile of kRows x kColumns; a pipeline stage holds kDepth bytes along k.
template <int kColumnsOf, int kDepthOf>
struct Shape {
  static constexpr int kColumns = kColumnsOf, kDepth = kDepthOf;
  static constexpr int kWarpgroupRows = 64, kRows = kConsumers * kWarpgroupRows;
  static constexpr int kBytesA = kRows * kDepth, kBytesB = kColumns * kDepth;  // of a stage
};

// Shared memory of a block: pipeline stages, then epilogue buffers, each for the results of a tile
// and for a residual that has another size, then B where it stays resident, then the mbarriers.
struct SharedLayout {
  int stages = 0, stage_bytes = 0;
  int buffers = 0, buffer_bytes = 0, residual = 0;  // offset in a buffer
  int resident_b = 0, resident_b_bytes = 0;         // 0: B is loaded in stages
  int barriers = 0, bytes = 0;
};

struct Barriers {
  unsigned at;
  static constexpr int kMaxStages = 8, kMaxBuffers = 4;
  static constexpr int kBytes = (2 * (kMaxStages + kMaxBuffers) + 1) * 8;

  __device__ unsigned full(int stage) const { return at + static_cast<unsigned>(stage) * 16; }
  __device__ unsigned empty(int stage) const { return full(stage) + 8; }
  __device__ unsigned residual_full(int buffer) const { return full(kMaxStages + buffer); }
  __device__ unsigned result_full(int buffer) const { return empty(kMaxStages + buffer); }
  __device__ unsigned resident_b() const { return full(kMaxStages + kMaxBuffers); }

  __device__ void init() const {
    for (int i = 0; i < kMaxStages + kMaxBuffers; ++i) {
      mbarrier_init(full(i), 1);
      mbarrier_init(empty(i), kConsumers * kWarpgroupThreads / 32);
    }
    mbarrier_init(resident_b(), 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
};

// Short main loops get more epilogue buffers, long ones more stages. B stays resident where all
// tiles use the same columns and it takes at most two fifths of the memory.
template <class S>
SharedLayout shared_layout(const GemmEpilogue& f, int steps) {
  const int result_bytes = S::kRows * S::kColumns * bytes_of(f.to);
  const int residual_bytes = S::kRows * S::kColumns * bytes_of(f.residual_type);
  SharedLayout layout{.stage_bytes = S::kBytesA + S::kBytesB, .buffer_bytes = result_bytes};
  if (f.residual_type != GemmType::none && residual_bytes != result_bytes) {
    layout.residual = result_bytes;
    layout.buffer_bytes += residual_bytes;
  }
  int free = kBytes - Barriers::kBytes;
  if (f.n <= S::kColumns && steps * S::kBytesB <= kBytes * 2 / 5) {
    layout.resident_b_bytes = steps * S::kBytesB;
    layout.stage_bytes = S::kBytesA;
    free -= layout.resident_b_bytes;
  }
  const int stages = steps <= 2 ? 2 : steps <= 4 ? 3 : Barriers::kMaxStages;  // as many as fit
  layout.buffers = std::clamp((free - stages * layout.stage_bytes) / layout.buffer_bytes, 1,
                              Barriers::kMaxBuffers);
  layout.stages = std::min((free - layout.buffers * layout.buffer_bytes) / layout.stage_bytes,
                           Barriers::kMaxStages);
  const int end = layout.stages * layout.stage_bytes + layout.buffers * layout.buffer_bytes;
  if (layout.resident_b_bytes > 0) layout.resident_b = end;
  layout.barriers = end + layout.resident_b_bytes;
  layout.bytes = layout.barriers + Barriers::kBytes;
  return layout;
}

}  // namespace sluice::kernels::cuda
