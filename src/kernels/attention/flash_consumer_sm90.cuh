// A consumer of the Hopper flash attention kernel: a warpgroup that computes tiles of 64 queries.
#pragma once

#include "kernels/attention/flash_pipeline_sm90.cuh"
#include "kernels/ptx/wgmma_register_a.cuh"

namespace sluice::kernels::cuda {

using Scores = float[kKeys / 8][4];

template <class T, int kHeadSize, bool kMasked>
class FlashConsumer {
 public:
  using Shared = FlashShared<kHeadSize>;
  static constexpr int kWarpgroups = Shared::kWarpgroups;
  using Wgmma = WgmmaRegisterA<T>;

  __device__ FlashConsumer(const AttentionCall& call, FlashBarriers<kHeadSize> barriers)
      : barriers_(barriers),
        out_base_(static_cast<T*>(call.out)),
        lse_(call.lse),
        heads_(call.heads),
        scale_(call.scale * kLog2E) {}

  __device__ void run() {
    for (PipelineState items;; items.next(kItemSlots)) {
      mbarrier_wait(barriers_.item_full(items.index), items.phase);
      const FlashItem item =
          reinterpret_cast<const FlashItem*>(flash_memory() + Shared::kItemsAt)[items.index];
      mbarrier_arrive_warp(barriers_.item_empty(items.index));
      if (item.tiles == 0) return;
      compute(item);
    }
  }

 private:
  __device__ void compute(const FlashItem& item) {
    int tile = (warpgroup_ - item.first_warpgroup + kWarpgroups) % kWarpgroups;
    PipelineState end = keys_;
    if (tile >= item.tiles) {
      for (int i = 0; i < item.blocks; ++i, end.next(Shared::kStages)) {
        mbarrier_wait(barriers_.keys_full(end.index), end.phase);
        mbarrier_arrive_warp(barriers_.keys_empty(end.index));
      }
    }
    bool is_first = true;
    for (; tile < item.tiles; tile += kWarpgroups, is_first = false)
      end = compute_tile(item, tile * kTileRows, is_first, tile + kWarpgroups >= item.tiles);
    keys_ = end;
  }

  // Goes over the keys; `releases` them if this is the warpgroup's last tile of the item. While it
  // turns the scores of a block into weights, other warpgroups have the tensor cores; the weights
  // are multiplied by the values together with the queries by the next keys.
  __device__ PipelineState compute_tile(const FlashItem& item, int first, bool is_first,
                                        bool releases) {
    PipelineState at = keys_;
    load_queries(item.queries - first);
    Scores s;
    unsigned weights[kKeys / 16][4];
    mbarrier_wait(barriers_.keys_full(at.index), at.phase);
    fence_registers(q_);
    start_scores(s, at);
    wait_for_wgmma(s);
    mbarrier_arrive_warp(barriers_.queries_empty(warpgroup_));  // they have arrived in registers
    for (int left = item.blocks; left > 1; --left) {
      weigh(s, weights, at);
      PipelineState next = at;
      next.next(Shared::kStages);
      mbarrier_wait(barriers_.keys_full(next.index), next.phase);
      fence_registers(weights);
      fence_registers(out_);
      start_values(weights, at);
      start_scores(s, next);
      wait_for_wgmma(s);
      fence_registers(weights);
      fence_registers(out_);
      if (releases) mbarrier_arrive_warp(barriers_.keys_empty(at.index));
      at = next;
    }
    compute_last_block(item, s, weights, at, is_first);
    if (releases) mbarrier_arrive_warp(barriers_.keys_empty(at.index));
    store(item, first);
    at.next(Shared::kStages);
    return at;
  }

  // The last block, which may have fewer keys.
  __device__ void compute_last_block(const FlashItem& item, Scores& s,
                                     unsigned (&weights)[kKeys / 16][4], PipelineState at,
                                     bool is_first) {
    const int valid = item.keys - (kMasked ? key_block(at).first : (item.blocks - 1) * kKeys);
    if (!kMasked && valid < kKeys) hide_columns(s, valid);
    weigh(s, weights, at);
    if (valid < kKeys && is_first) clear_values(at, valid);
    fence_registers(weights);
    fence_registers(out_);
    start_values(weights, at);
    wgmma_wait<0>();
    fence_registers(weights);
    fence_registers(out_);
  }

  // Loads the tile's queries from shared memory; those behind the last become zeros.
  __device__ void load_queries(int valid) {
    mbarrier_wait(barriers_.queries_full(warpgroup_), queries_phase_);
    queries_phase_ ^= 1;
    const unsigned from = shared_address(flash_memory()) + Shared::kQueriesAt +
                          static_cast<unsigned>(warpgroup_) * Shared::kTile;
    const int row = warp_row_ + lane_ % 16;
#pragma unroll
    for (int d = 0; d < kHeadSize / 16; ++d)
      ldmatrix_x4(q_[d], from + swizzled_at(row, d * 2 + lane_ / 16));
    const bool has_upper = warp_row_ + lane_ / 4 < valid,
               has_lower = warp_row_ + lane_ / 4 + 8 < valid;
#pragma unroll
    for (auto& four : q_) {
      if (!has_upper) four[0] = four[2] = 0;
      if (!has_lower) four[1] = four[3] = 0;
    }
#pragma unroll
    for (auto& four : out_)
      for (float& x : four) x = 0;
    row_max_[0] = row_max_[1] = -INFINITY;
    sum_[0] = sum_[1] = 0;
  }
  __device__ static unsigned swizzled_at(int row, int chunk) {
    const int swizzle = kHeadSize == 32 ? row / 2 % 4 : row % 8;
    return static_cast<unsigned>(row * Shared::kRowBytes + (chunk ^ swizzle) * 16);
  }

  __device__ static unsigned keys_at(PipelineState at) {
    return shared_address(flash_memory()) + static_cast<unsigned>(at.index) * Shared::kStageBytes;
  }
  __device__ static KeyBlock key_block(PipelineState at) {
    return reinterpret_cast<const KeyBlock*>(flash_memory() + Shared::kKeyBlocksAt)[at.index];
  }

  __device__ void start_scores(Scores& s, PipelineState at) {
    const MatrixDescriptor b = swizzled_descriptor<Shared::kRowBytes>(keys_at(at));
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < kHeadSize / 16; ++d)
      Wgmma::template mma<0>(s, q_[d], b + d * (32 / 16), d > 0);
    wgmma_commit();
  }
  __device__ void wait_for_wgmma(Scores& s) {
    wgmma_wait<0>();
    fence_registers(q_);
    fence_registers(s);
  }
  __device__ void start_values(const unsigned (&weights)[kKeys / 16][4], PipelineState at) {
    const MatrixDescriptor b = swizzled_descriptor<Shared::kRowBytes>(keys_at(at) + Shared::kTile);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k)
      Wgmma::template mma<1>(out_, weights[k], b + k * (16 * Shared::kRowBytes / 16), 1);
    wgmma_commit();
  }

  // Values behind the last belong to another sequence, and may be NaN: 0 times NaN is NaN. Each
  // warpgroup clears them for itself: one that comes later writes zeros over the zeros that others
  // may be reading.
  __device__ void clear_values(PipelineState at, int valid) const {
    unsigned char* const values =
        flash_memory() + static_cast<unsigned>(at.index) * Shared::kStageBytes + Shared::kTile;
    for (int byte = valid * Shared::kRowBytes + static_cast<int>(threadIdx.x) % 128 * 16;
         byte < Shared::kTile; byte += 128 * 16)
      *reinterpret_cast<uint4*>(values + byte) = uint4{};
    fence_proxy_async();
    sync_warpgroup(static_cast<unsigned>(warpgroup_));
  }

  // Scores of keys behind the last, which may be NaN.
  __device__ void hide_columns(Scores& s, int valid) const {
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (n * 8 + lane_ % 4 * 2 + i % 2 >= valid) s[n][i] = -INFINITY;
  }

  // Online softmax: scores become weights.
  __device__ void weigh(Scores& s, unsigned (&weights)[kKeys / 16][4], PipelineState at) {
    if constexpr (kMasked)
      if (key_block(at).mode != kNoMask) add_mask(s, at);
    softmax(s);
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      weights[k][0] = pack2<T>(s[k * 2][0], s[k * 2][1]);
      weights[k][1] = pack2<T>(s[k * 2][2], s[k * 2][3]);
      weights[k][2] = pack2<T>(s[k * 2 + 1][0], s[k * 2 + 1][1]);
      weights[k][3] = pack2<T>(s[k * 2 + 1][2], s[k * 2 + 1][3]);
    }
  }

  // Scores without a mask keep their bits. Those of keys that are masked by -infinity may be NaN.
  __device__ void add_mask(Scores& s, PipelineState at) const {
    const auto* const mask = reinterpret_cast<const float*>(flash_memory() + Shared::kMaskAt) +
                             at.index * kKeys + lane_ % 4 * 2;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
      const auto two = *reinterpret_cast<const float2*>(mask + n * 8);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float more = i % 2 == 0 ? two.x : two.y;
        s[n][i] = more == -INFINITY ? more : s[n][i] + more;
      }
    }
  }

  // The row maximum is raised, and the earlier sum and output rescaled, only where the new maximum
  // exceeds it by more than the threshold, which is rare after the first block.
  __device__ void softmax(Scores& s) {
    constexpr float kRescaleThreshold = 8;  // weights stay below 2^8
    float top[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      top[half] = fmaxf(s[0][half * 2], s[0][half * 2 + 1]);
#pragma unroll
      for (int n = 1; n < kKeys / 8; ++n)
        top[half] = fmaxf(top[half], fmaxf(s[n][half * 2], s[n][half * 2 + 1]));
      top[half] = fmaxf(top[half], __shfl_xor_sync(kAllLanes, top[half], 1));
      top[half] = fmaxf(top[half], __shfl_xor_sync(kAllLanes, top[half], 2)) * scale_;
    }
    if (__any_sync(kAllLanes, top[0] > row_max_[0] + kRescaleThreshold ||
                                  top[1] > row_max_[1] + kRescaleThreshold))
      rescale(top);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float base = row_max_[half] == -INFINITY ? 0 : row_max_[half];
      float total[2] = {};
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& x = s[n][half * 2 + i];
          x = exp2_approx(fmaf(x, scale_, -base));
          total[i] += x;
        }
      sum_[half] += total[0] + total[1];
    }
  }
  __device__ void rescale(const float (&top)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float row_max = fmaxf(row_max_[half], top[half]);
      const float rescale_by = exp2_approx(row_max_[half] - (row_max == -INFINITY ? 0 : row_max));
      row_max_[half] = row_max;
      sum_[half] *= rescale_by;
#pragma unroll
      for (auto& four : out_) {
        four[half * 2] *= rescale_by;
        four[half * 2 + 1] *= rescale_by;
      }
    }
  }

  // Pairs of lanes exchange halves of two 8-column groups so that each stores 8 bytes.
  __device__ void store(const FlashItem& item, int first) const {
    const bool odd = lane_ % 2 != 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = sum_[half];
      sum += __shfl_xor_sync(kAllLanes, sum, 1);
      sum += __shfl_xor_sync(kAllLanes, sum, 2);
      const float inverse_sum = 1 / sum;
      const int row = first + warp_row_ + half * 8 + lane_ / 4;
      if (lse_ != nullptr && lane_ % 4 == 0 && row < item.queries)
        lse_[std::int64_t{item.q_row + row} * heads_ + item.head] =
            log_sum_exp(row_max_[half], sum);
      T* const out = out_base_ + std::int64_t{item.q_row + row} * (heads_ * kHeadSize) +
                     item.head * kHeadSize + lane_ % 2 * 8 + lane_ % 4 / 2 * 4;
#pragma unroll
      for (int d = 0; d < kHeadSize / 8; d += 2) {
        unsigned two[2];
#pragma unroll
        for (int i = 0; i < 2; ++i)
          two[i] = pack2<T>(out_[d + i][half * 2] * inverse_sum,
                            out_[d + i][half * 2 + 1] * inverse_sum);
        const unsigned kept = odd ? two[1] : two[0];
        const unsigned got = __shfl_xor_sync(kAllLanes, odd ? two[0] : two[1], 1);
        if (row < item.queries)
          *reinterpret_cast<uint2*>(out + d * 8) =
              odd ? make_uint2(got, kept) : make_uint2(kept, got);
      }
    }
  }

  const FlashBarriers<kHeadSize> barriers_;
  T* const out_base_;
  float* const lse_;
  const int heads_;
  const float scale_;
  const int lane_ = static_cast<int>(threadIdx.x) % 32;
  const int warpgroup_ = static_cast<int>(threadIdx.x) / 128;
  const int warp_row_ = static_cast<int>(threadIdx.x) % 128 / 32 * 16;  // in the tile
  PipelineState keys_{};  // where the item's keys begin
  unsigned queries_phase_ = 0;
  // The tile's queries, output, and state of the online softmax, of rows lane / 4 and lane / 4 + 8.
  unsigned q_[kHeadSize / 16][4];
  float out_[kHeadSize / 8][4];
  float row_max_[2], sum_[2];
};

}  // namespace sluice::kernels::cuda
