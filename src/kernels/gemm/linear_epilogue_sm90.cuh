// The epilogue of the Hopper Linear kernel, by each warp for itself. The sums with bias, rounded,
// go from the wgmma accumulators to shared memory, in strips of 16 rows, those of the same columns
// as a group; from there they are activated and stored.
#pragma once

#include "kernels/common/activation.cuh"
#include "kernels/gemm/linear_pipeline_sm90.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace sluice::kernels::cuda {

template <class T>
__device__ float2 unpack2(unsigned both);
template <>
__device__ inline float2 unpack2<__half>(unsigned both) {
  return __half22float2(*reinterpret_cast<const __half2*>(&both));
}
template <>
__device__ inline float2 unpack2<__nv_bfloat16>(unsigned both) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&both));
}

template <Activation kActivation>
__device__ float linear_activated(float x) {
  if constexpr (kActivation == Activation::relu) return x < 0 ? 0 : x;  // NaN propagates
  if constexpr (kActivation == Activation::gelu) return gelu_saturating(x);
  if constexpr (kActivation == Activation::gelu_tanh) return gelu_tanh_by_exp(x);
  return x;
}

template <class T, class S>
class LinearEpilogue {
 public:
  using Sums = float[S::kRowBlocks][S::kColumns / 2];

  __device__ LinearEpilogue(const LinearParams& p, int live, unsigned char* memory)
      : p_(p), live_(live), lane_(threadIdx.x % 32) {
    const unsigned warp = threadIdx.x / 32;
    bias_memory_ = memory + S::kBiasAt + threadIdx.x / 128 * (2 * S::kBiasBytes);
    group_ = memory + S::kGroupsAt + warp * S::kGroupBytes;
    warp_row_ = static_cast<int>(warp % 4 * S::kStripRows);
  }

  // Copies the bias of a tile to shared memory; called while the other consumer has the tensor
  // cores. There are two copies: warps may still read that of the tile before.
  __device__ void load_bias(LinearTileCoord tile) {
    bias_ = S::kBiasBytes - bias_;
    const int first = static_cast<int>(threadIdx.x % 128) * 4, column = tile.column + first;
    if (first < S::kColumns) {
      Pack<T, 4> four{};
      if (p_.bias != nullptr && column < p_.n)
        four = *reinterpret_cast<const Pack<T, 4>*>(static_cast<const T*>(p_.bias) + column);
      *reinterpret_cast<Pack<T, 4>*>(bias_memory_ + bias_ + first * 2) = four;
    }
    sync_warpgroup(threadIdx.x / 128);
  }

  __device__ void run(const Sums& sums, LinearTileCoord tile) const {
#pragma unroll
    for (int across = 0; across < S::kStripsAcross; ++across) {
      __syncwarp();  // the group before has been read
#pragma unroll
      for (int block = 0; block < S::kRowBlocks; ++block)
        write_strip(shared_address(group_) + block * S::kStripSize,
                    sums[block] + across * (S::kStripColumns / 2), across * S::kStripColumns);
      __syncwarp();
      store_group({tile.row + warp_row_, tile.column + across * S::kStripColumns});
    }
  }

 private:
  static constexpr int kPairs = S::kStripColumns / 8;  // a thread's pairs of columns in a strip
  static constexpr unsigned kChunks = S::kStripBytes / 16, kRowsAtOnce = 32 / kChunks;

  // The swizzle of the 16-byte chunks of a strip: no bank conflicts for stmatrix, nor for reads of
  // whole rows.
  __device__ static unsigned swizzled(unsigned row, unsigned chunk) {
    return chunk ^ (S::kStripBytes == 64 ? row / 2 % 4 : row % 8);
  }

  // The sums with bias, rounded. sums: accumulators as [eight columns][row][two]; `column`: of the
  // tile. Matrices 1 and 3 of stmatrix are the lower rows, 2 and 3 the next columns; 16 columns
  // more are ^ 32.
  __device__ void write_strip(unsigned strip, const float* sums, int column) const {
    const unsigned row = lane_ / 8 % 2 * 8 + lane_ % 8;
    const unsigned lane_at = strip + row * S::kStripBytes + swizzled(row, lane_ / 16) * 16;
    const auto* const bias = reinterpret_cast<const unsigned*>(
        bias_memory_ + bias_ + (column + static_cast<int>(lane_ % 4) * 2) * 2);
#pragma unroll
    for (int i = 0; i < kPairs; i += 2) {
      unsigned packed[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float2 shift = unpack2<T>(bias[(i + e / 2) * 4]);
        packed[e] = pack2<T>(sums[i * 4 + e * 2] + shift.x, sums[i * 4 + e * 2 + 1] + shift.y);
      }
      stmatrix_x4(lane_at ^ static_cast<unsigned>(i * 16), packed);
    }
  }

  __device__ void store_group(LinearTileCoord first) const {
    switch (p_.activation) {
      case Activation::relu: return store_group_by<Activation::relu>(first);
      case Activation::gelu: return store_group_by<Activation::gelu>(first);
      case Activation::gelu_tanh: return store_group_by<Activation::gelu_tanh>(first);
      default: return store_group_by<Activation::none>(first);
    }
  }

  // Activates the live rows of a group, adds the residual and stores them, 16 bytes a lane. In a
  // loop: unrolled over the accumulators, which have no addresses, this code would not fit into the
  // instruction cache. Not by TMA, which would write the rows behind the live ones, too.
  template <Activation kActivation>
  __device__ void store_group_by(LinearTileCoord first) const {
    const unsigned chunk = lane_ % kChunks, row = lane_ / kChunks;
    const int column = first.column + static_cast<int>(chunk * 8);
    if (column >= p_.n) return;
#pragma unroll 1
    for (unsigned block = 0; block < S::kRowBlocks; ++block) {
      const int to_row = first.row + static_cast<int>(block * 64 + row);
      const unsigned char* const from = group_ + block * S::kStripSize;
      const std::int64_t at = std::int64_t{to_row} * p_.n + column;
      p_.residual != nullptr ? store_with_residual<kActivation>(from, row, chunk, to_row, at)
                             : store_rows<kActivation>(from, row, chunk, to_row, at);
    }
  }

  template <Activation kActivation>
  __device__ void store_rows(const unsigned char* from, unsigned row, unsigned chunk, int to_row,
                             std::int64_t at) const {
#pragma unroll 2
    for (unsigned i = 0; i < S::kStripRows; i += kRowsAtOnce, at += kRowsAtOnce * p_.n) {
      if (to_row + static_cast<int>(i) >= live_) break;
      uint4 eight = *chunk_of(from, row + i, chunk);
      keep_pre_activation(eight, at);
      if constexpr (kActivation != Activation::none) apply<kActivation>(eight, {});
      *reinterpret_cast<uint4*>(static_cast<T*>(p_.y) + at) = eight;
    }
  }

  // The residual of all rows is on its way before the first is used.
  template <Activation kActivation>
  __device__ void store_with_residual(const unsigned char* from, unsigned row, unsigned chunk,
                                      int to_row, std::int64_t at) const {
    constexpr unsigned kPieces = S::kStripRows / kRowsAtOnce;
    uint4 residual[kPieces];
#pragma unroll
    for (unsigned i = 0; i < kPieces; ++i)
      if (to_row + static_cast<int>(i * kRowsAtOnce) < live_)
        residual[i] = *reinterpret_cast<const uint4*>(static_cast<const T*>(p_.residual) + at +
                                                      std::int64_t{i} * kRowsAtOnce * p_.n);
#pragma unroll
    for (unsigned i = 0; i < kPieces; ++i) {
      if (to_row + static_cast<int>(i * kRowsAtOnce) >= live_) break;
      uint4 eight = *chunk_of(from, row + i * kRowsAtOnce, chunk);
      keep_pre_activation(eight, at + std::int64_t{i} * kRowsAtOnce * p_.n);
      apply<kActivation>(eight, residual[i]);
      *reinterpret_cast<uint4*>(static_cast<T*>(p_.y) + at + std::int64_t{i} * kRowsAtOnce * p_.n) =
          eight;
    }
  }

  __device__ void keep_pre_activation(const uint4& eight, std::int64_t at) const {
    if (p_.pre_activation != nullptr)
      *reinterpret_cast<uint4*>(static_cast<T*>(p_.pre_activation) + at) = eight;
  }
  __device__ static const uint4* chunk_of(const unsigned char* from, unsigned row, unsigned chunk) {
    return reinterpret_cast<const uint4*>(from + row * S::kStripBytes + swizzled(row, chunk) * 16);
  }

  template <Activation kActivation>
  __device__ static void apply(uint4& eight, const uint4& residual) {
    apply_two<kActivation>(eight.x, residual.x);
    apply_two<kActivation>(eight.y, residual.y);
    apply_two<kActivation>(eight.z, residual.z);
    apply_two<kActivation>(eight.w, residual.w);
  }
  template <Activation kActivation>
  __device__ static void apply_two(unsigned& two, unsigned residual) {
    const float2 pair = unpack2<T>(two), more = unpack2<T>(residual);
    two = pack2<T>(linear_activated<kActivation>(pair.x) + more.x,
                   linear_activated<kActivation>(pair.y) + more.y);
  }

  const LinearParams& p_;
  const int live_;
  const unsigned lane_;
  unsigned char *group_, *bias_memory_;  // of this warp; of the warpgroup
  unsigned bias_ = 0;                    // the copy that is in use
  int warp_row_;
};

}  // namespace sluice::kernels::cuda
