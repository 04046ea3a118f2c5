// The producer of the Hopper flash attention kernel: a warp that takes items of work and loads
// their queries, keys and values. One of its lanes loads, all of them read the mask.
#pragma once

#include "kernels/attention/flash_pipeline_sm90.cuh"

namespace sluice::kernels::cuda {

template <class T, int kHeadSize, bool kMasked>
class FlashProducer {
 public:
  using Shared = FlashShared<kHeadSize>;
  static constexpr int kWarpgroups = Shared::kWarpgroups;

  __device__ FlashProducer(const FlashParams& p, const AttentionCall& call,
                           FlashBarriers<kHeadSize> barriers)
      : p_(p), call_(call), barriers_(barriers), partition_(call, Shared::kStages, kWarpgroups) {}

  __device__ void run() {
    const unsigned count = static_cast<unsigned>(call_.batch * call_.heads * partition_.count);
    for (unsigned item = blockIdx.x; item < count; item = next(item))
      produce(static_cast<int>(item));
    publish({});
    if (p_.queue != nullptr && lane_ == 0) leave_queue();
  }

 private:
  __device__ unsigned next(unsigned item) const {
    if (p_.queue == nullptr) return item + gridDim.x;
    unsigned taken = 0;
    if (lane_ == 0) taken = atomicAdd(&p_.queue->taken, 1) + 1;
    return gridDim.x + __shfl_sync(kAllLanes, taken, 0);
  }
  // The last block leaves the queue as it was.
  __device__ void leave_queue() const {
    __threadfence();
    if (atomicAdd(&p_.queue->finished, 1) + 1 == gridDim.x - 1) *p_.queue = {};
  }

  __device__ void produce(int index) {
    const int part = index % partition_.count;
    const int head = index / partition_.count % call_.heads,
              sequence = index / partition_.count / call_.heads;
    const SequenceRows rows = rows_of(call_, sequence);
    const int first = part * partition_.tiles * kTileRows;
    FlashItem item{.q_row = rows.q_row + first, .queries = rows.queries - first, .keys = rows.keys};
    item.tiles = min((item.queries + kTileRows - 1) / kTileRows, partition_.tiles);
    if (item.tiles <= 0 || item.keys <= 0) return;
    const unsigned read = kMasked ? blocks_to_read(sequence, rows.keys) : 0;
    item.blocks = kMasked ? __popc(read) : (rows.keys + kKeys - 1) / kKeys;
    item.head = head;
    item.first_warpgroup = warpgroup_;
    publish(item);
    load(item, sequence, rows.k_row, read);
  }

  __device__ void publish(const FlashItem& item) {
    mbarrier_wait(barriers_.item_empty(items_.index), items_.phase ^ 1);
    if (lane_ == 0) {
      reinterpret_cast<FlashItem*>(flash_memory() + Shared::kItemsAt)[items_.index] = item;
      mbarrier_arrive(barriers_.item_full(items_.index));
    }
    items_.next(kItemSlots);
  }

  // The first tiles come before the keys: where there are more keys than stages, stages become free
  // only while tiles are computed. An item then has no more tiles than there are warpgroups.
  __device__ void load(const FlashItem& item, int sequence, int k_row, unsigned read) {
    const int early = min(item.tiles, kWarpgroups);
    for (int i = 0; i < max(early, item.blocks); ++i) {
      if (i < early) load_queries(item, i);
      if (i >= item.blocks) continue;
      const int block = kMasked ? __ffs(static_cast<int>(read)) - 1 : i;
      read &= read - 1;
      load_keys(item, sequence, k_row, block);
    }
    for (int i = early; i < item.tiles; ++i) load_queries(item, i);
    warpgroup_ = (warpgroup_ + item.tiles) % kWarpgroups;
  }

  __device__ void load_queries(const FlashItem& item, int tile) {
    const int warpgroup = (item.first_warpgroup + tile) % kWarpgroups;
    mbarrier_wait(barriers_.queries_empty(warpgroup), ((queries_phases_ >> warpgroup) & 1) ^ 1);
    queries_phases_ ^= 1u << warpgroup;
    if (lane_ != 0) return;
    const unsigned full = barriers_.queries_full(warpgroup);
    mbarrier_arrive_expect_tx(full, Shared::kTile);
    tma_load_2d(shared_address(flash_memory()) + Shared::kQueriesAt +
                    static_cast<unsigned>(warpgroup) * Shared::kTile,
                p_.q, item.head * Shared::kRowBytes, item.q_row + tile * kTileRows, full);
  }

  __device__ void load_keys(const FlashItem& item, int sequence, int k_row, int block) {
    mbarrier_wait(barriers_.keys_empty(keys_.index), keys_.phase ^ 1);
    const unsigned full = barriers_.keys_full(keys_.index);
    if constexpr (kMasked) {
      write_mask(sequence, block * kKeys, item.keys);
      if (lane_ != 0) mbarrier_arrive(full);  // each lane for what it wrote
    }
    if (lane_ == 0) {
      const unsigned to =
          shared_address(flash_memory()) + static_cast<unsigned>(keys_.index) * Shared::kStageBytes;
      const int row = k_row + block * kKeys, byte = item.head * Shared::kRowBytes;
      mbarrier_arrive_expect_tx(full, Shared::kStageBytes);
      tma_load_2d(to, p_.k, byte, row, full);
      tma_load_2d(to + Shared::kTile, p_.v, byte, row, full);
    }
    keys_.next(Shared::kStages);
  }

  // ---- the mask ----

  __device__ float mask_of(int sequence, int key, int keys) const {
    return key < keys ? mask_at<T>(call_, sequence * call_.mask_batch + key * call_.mask_key)
                      : -INFINITY;
  }
  __device__ float block_max(int sequence, int first, int keys) const {
    return warp_max(
        fmaxf(mask_of(sequence, first + lane_, keys), mask_of(sequence, first + lane_ + 32, keys)));
  }
  // Those blocks of keys, as bits, that the mask does not exclude for the whole sequence. The
  // difference of equal masks is 0, however low they are.
  __device__ unsigned blocks_to_read(int sequence, int keys) const {
    float top = -INFINITY;
    for (int first = 0; first < keys; first += kKeys)
      top = fmaxf(top, block_max(sequence, first, keys));
    unsigned read = 0;
    for (int first = 0; first < keys; first += kKeys)
      if (!(top > -INFINITY && top - block_max(sequence, first, keys) >= kMaskedOut))
        read |= 1u << first / kKeys;
    return read;
  }
  // Divided by the scale, so that the consumers can add it before they scale.
  __device__ void write_mask(int sequence, int first, int keys) const {
    auto* const to =
        reinterpret_cast<float*>(flash_memory() + Shared::kMaskAt) + keys_.index * kKeys;
    const float scale = call_.scale * kLog2E;
    bool is_zero = true;
#pragma unroll
    for (int i = lane_; i < kKeys; i += 32) {
      const float mask = mask_of(sequence, first + i, keys), min = -2e38f / max(1.0f, scale);
      to[i] = mask > -INFINITY && mask / scale < min ? min : mask / scale;  // NaN propagates
      is_zero = is_zero && mask == 0;
    }
    is_zero = __all_sync(kAllLanes, is_zero) != 0;
    if (lane_ == 0)
      reinterpret_cast<KeyBlock*>(flash_memory() + Shared::kKeyBlocksAt)[keys_.index] = {
          first, is_zero ? kNoMask : kSharedMask};
  }

  const FlashParams& p_;
  const AttentionCall& call_;
  const FlashBarriers<kHeadSize> barriers_;
  const WorkPartition partition_;
  const int lane_ = static_cast<int>(threadIdx.x) % 32;
  PipelineState items_{}, keys_{};
  unsigned queries_phases_ = 0;  // a bit for each warpgroup
  int warpgroup_ = 0;            // which computes the next tile
};

}  // namespace sluice::kernels::cuda
