// Tile shapes, shared memory and mbarriers of the Hopper Linear kernel, and the order of its tiles.
#pragma once

#include <algorithm>

#include "kernels/common/activation.h"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/mbarrier.cuh"

namespace sluice::kernels::cuda {

// A tile is kRowBlocks x 64 rows, which one warpgroup computes. With two consumers the block is
// alone on its multiprocessor; with one, two blocks share it.
template <int kRowBlocksOf, int kColumnsOf, int kConsumersOf, int kStagesOf>
struct LinearShape {
  static constexpr int kRowBlocks = kRowBlocksOf, kColumns = kColumnsOf, kRows = 64 * kRowBlocks;
  static constexpr int kConsumers = kConsumersOf, kStages = kStagesOf;

  // A pipeline stage: 64 elements along k of x and of W.
  static constexpr int kDepth = 128;  // bytes
  static constexpr int kBytesA = kRows * kDepth, kBytesB = kColumns * kDepth;
  static constexpr int kStageBytes = kBytesA + kBytesB;

  // A warp's results pass through shared memory in strips of 16 rows, at most 128 bytes wide; the
  // strips of the same columns are a group.
  static constexpr int kStripRows = 16, kStripBytes = std::min(128, kColumns * 2);
  static constexpr int kStripSize = kStripRows * kStripBytes;
  static constexpr int kStripColumns = kStripBytes / 2, kStripsAcross = kColumns / kStripColumns;
  static constexpr int kGroupBytes = kRowBlocks * kStripSize;

  // The producer of two consumers is a whole warpgroup, so that it can give its registers away.
  static constexpr int kProducerThread = kConsumers * 128;
  static constexpr int kThreads = kProducerThread + (kConsumers == 2 ? 128 : 32);
  static constexpr int kBlocksPerSm = kConsumers == 2 ? 1 : 2;

  static constexpr int kWarps = 4 * kConsumers;  // of the consumers
  static constexpr int kGroupsAt = kStages * kStageBytes;
  static constexpr int kBiasAt = kGroupsAt + kWarps * kGroupBytes;
  static constexpr int kBiasBytes = kColumns * 2;  // two copies for each consumer
  static constexpr int kBarriersAt = kBiasAt + kConsumers * 2 * kBiasBytes;
  static constexpr int kBarriers = 2 * kStages + 2;
  static constexpr int kBytes = kBarriersAt + kBarriers * 8;
  static_assert(kBytes <= 228 * 1024 / kBlocksPerSm - 1024);
};

template <class S>
struct LinearBarriers {
  unsigned at;

  __device__ unsigned full(int stage) const { return at + static_cast<unsigned>(stage) * 16; }
  __device__ unsigned empty(int stage) const { return full(stage) + 8; }
  // Completes when this consumer may start its next main loop.
  __device__ unsigned turn(unsigned consumer) const { return full(S::kStages) + consumer * 8; }

  // A stage is empty when the four warps of the consumer have read it.
  __device__ void init() const {
    for (int stage = 0; stage < S::kStages; ++stage) {
      mbarrier_init(full(stage), 1);
      mbarrier_init(empty(stage), 4);
    }
    for (unsigned consumer = 0; consumer < 2; ++consumer) mbarrier_init(turn(consumer), 4);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
};

struct LinearParams {
  CUtensorMap x, weight;
  const void *bias, *residual;
  void *pre_activation, *y;
  Activation activation;
  const std::int32_t* live_rows;
  int rows, n;
  int steps;        // along k, of a stage each
  unsigned across;  // tiles along n
};

struct LinearTileCoord {
  int row, column;
};

// The tiles of this block: along the columns first, so that x is read from the L2 cache again.
template <class S>
struct LinearTiles {
  int live;  // rows
  unsigned first, stride, count;
  unsigned across;

  __device__ explicit LinearTiles(const LinearParams& p)
      : live(p.live_rows == nullptr ? p.rows : min(max(*p.live_rows, 0), p.rows)),
        first(blockIdx.x),
        stride(gridDim.x),
        count((static_cast<unsigned>(live) + S::kRows - 1) / S::kRows * p.across),
        across(p.across) {}
  __device__ LinearTileCoord coord(unsigned tile) const {
    return {static_cast<int>(tile / across * S::kRows),
            static_cast<int>(tile % across * S::kColumns)};
  }
};

}  // namespace sluice::kernels::cuda
