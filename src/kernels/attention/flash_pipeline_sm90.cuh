// Shared memory, mbarriers and the order of work of the Hopper flash attention kernel.
#pragma once

#include "kernels/attention/attention_mask.cuh"
#include "kernels/attention/varlen.cuh"
#include "kernels/ptx/mbarrier.cuh"

namespace sluice::kernels::cuda {

constexpr int kMaxMaskedKeys = 32 * kKeys;  // the producer keeps a bit for each block
constexpr int kTileRows = 64;               // queries of a tile, which one warpgroup computes
constexpr int kItemSlots = 4;               // items that the producer may be ahead

struct FlashParams {
  CUtensorMap q, k, v;
  AttentionCall call;
  WorkQueue* queue;
};

// The dynamic shared memory of the block, laid out as FlashShared says.
__device__ inline unsigned char* flash_memory() {
  extern __shared__ __align__(1024) unsigned char memory[];
  return memory;
}

// An item of work: tiles of the queries of one head of one sequence.
struct alignas(32) FlashItem {
  int q_row;          // of the first query, among all tokens
  int queries, keys;  // from there on; of the sequence
  int blocks;         // of keys that are read
  int head;
  int tiles;            // 0: there is no more work
  int first_warpgroup;  // which computes the first tile; the next one computes the second
};

// A block of keys of a masked call.
struct KeyBlock {
  int first;  // key
  int mode;   // a MaskMode
};

// The threads of a block: as many warpgroups that compute as the registers suffice for, and one
// with the producer, which gives its registers away.
template <int kHeadSize>
struct FlashThreads {
  static constexpr int kWarpgroups = kHeadSize == 32 ? 4 : 3;
  static constexpr int kRegisters = kHeadSize == 32 ? 112 : 160, kProducerRegisters = 32;
  static constexpr int kConsumers = kWarpgroups * 128, kThreads = kConsumers + 128;
};

template <int kHeadSize>
struct FlashShared {
  static constexpr int kWarpgroups = FlashThreads<kHeadSize>::kWarpgroups;
  static constexpr int kRowBytes = kHeadSize * 2, kTile = kTileRows * kRowBytes;
  static_assert(kTileRows == kKeys);
  static constexpr int kStageBytes = 2 * kTile;  // keys, then values
  static constexpr int kStages = 176 * 1024 / kStageBytes;

  static constexpr int kQueriesAt = kStages * kStageBytes;  // a tile for each warpgroup
  static constexpr int kMaskAt = kQueriesAt + kWarpgroups * kTile;
  static constexpr int kItemsAt = kMaskAt + kStages * kKeys * 4;
  static constexpr int kKeyBlocksAt = kItemsAt + kItemSlots * 32;
  static constexpr int kBarriersAt = kKeyBlocksAt + kStages * 8;
  static constexpr int kBytes = kBarriersAt + 16 * (kStages + kWarpgroups + kItemSlots);
  static_assert(sizeof(FlashItem) == 32 && kBytes <= 227 * 1024);
};

// Each is full when the producer has filled it, and empty when the warps that read it are done.
template <int kHeadSize>
struct FlashBarriers {
  using Shared = FlashShared<kHeadSize>;
  static constexpr int kWarpgroups = Shared::kWarpgroups;
  unsigned at;

  __device__ unsigned keys_full(int stage) const { return at + static_cast<unsigned>(stage) * 16; }
  __device__ unsigned keys_empty(int stage) const { return keys_full(stage) + 8; }
  __device__ unsigned queries_full(int warpgroup) const {
    return keys_full(Shared::kStages + warpgroup);
  }
  __device__ unsigned queries_empty(int warpgroup) const { return queries_full(warpgroup) + 8; }
  __device__ unsigned item_full(int slot) const {
    return keys_full(Shared::kStages + kWarpgroups + slot);
  }
  __device__ unsigned item_empty(int slot) const { return item_full(slot) + 8; }

  // `filling`: threads of the producer that fill keys.
  __device__ void init(unsigned filling) const {
    constexpr int kAll = Shared::kStages + kWarpgroups + kItemSlots;
    for (int i = 0; i < kAll; ++i) {
      const bool is_queries = i >= Shared::kStages && i < Shared::kStages + kWarpgroups;
      mbarrier_init(keys_full(i), i < Shared::kStages ? filling : 1);
      mbarrier_init(keys_empty(i), is_queries ? 4 : 4 * kWarpgroups);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
};

// How the queries of a head of a sequence become items. All of them are one item, so that its keys
// are loaded once, unless they do not fit or the blocks would not all have work: then an item has a
// tile for each warpgroup.
struct WorkPartition {
  int tiles;  // of an item
  int count;  // items of a head of a sequence

  // `call` is a live_call().
  __device__ WorkPartition(const AttentionCall& call, int stages, int warpgroups) {
    const int all = max((call.queries + kTileRows - 1) / kTileRows, 1);
    const bool fit = (call.keys + kKeys - 1) / kKeys <= stages;
    const bool is_enough =
        static_cast<unsigned>(call.batch) * static_cast<unsigned>(call.heads) >= 2 * gridDim.x;
    tiles = fit && is_enough ? all : min(all, warpgroups);
    count = (all + tiles - 1) / tiles;
  }
};

}  // namespace sluice::kernels::cuda
