// What a group of four warps makes of its sums, from the registers that the tensor cores left them
// in: each thread has pairs of neighbours, in every eighth column and row. Results go to shared
// memory.
#pragma once

#include <algorithm>

#include "engine/cuda/barrier.cuh"
#include "engine/cuda/quantized_finish.cuh"
#include "engine/cuda/quantized_tile.cuh"

namespace sluice::engine::cuda {

constexpr int kGroup = 128;  // threads

__device__ inline int size_of(SmallType type) {
  if (type == SmallType::f32) return 4;
  return type == SmallType::f16 || type == SmallType::bf16 ? 2 : 1;
}

// Where a group's sums go, and what they meet on the way.
struct Finishing {
  const SmallFinish& f;
  const SmallColumn* columns;         // the tile's
  unsigned char *residual, *results;  // boxes
};

// A few numbers of a thread, so that they stay in registers whatever becomes of them: those of 32
// columns, in two rows.
template <class S>
class Share {
 public:
  __device__ Share(const Finishing& to, int row, int column)
      : to_(to), row_(row), column_(column) {}

  __device__ void make(const int* sums) {
    scale(sums);
    const SmallFinish& f = to_.f;
    if (f.residual_first) add();
    activate();
    if (!f.residual_first) add();
    store();
  }

 private:
  static constexpr int kAcross = 4;  // pairs, eight columns apart

  template <class T>
  static constexpr int kStrip = std::min(128, S::kColumns* static_cast<int>(sizeof(T)));

  // In a box: strips of up to 128 bytes of columns, whose parts of 16 are turned by the row.
  template <class T>
  __device__ static unsigned char* find(unsigned char* box, int row, int column) {
    constexpr int kWide = kStrip<T>;
    const int byte = column * static_cast<int>(sizeof(T));
    const int turn = kWide == 64 ? row / 2 % 4 : row % 8;
    return box + byte / kWide * (S::kRows * kWide) + row * kWide + (byte % kWide ^ turn * 16);
  }

  __device__ void scale(const int* sums) {
#pragma unroll
    for (int j = 0; j < kAcross; ++j) {
      const auto own =
          *reinterpret_cast<const Pack<SmallColumn, 2>*>(to_.columns + column_ + j * 8);
#pragma unroll
      for (int e = 0; e < 4; ++e)
        at_[j][e / 2][e % 2] =
            static_cast<float>(sums[j * 4 + e]) * own.at[e % 2].scale + own.at[e % 2].bias;
    }
  }

  template <class What>
  __device__ void each(const What& what) {
#pragma unroll
    for (int j = 0; j < kAcross; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half) what(at_[j][half], row_ + half * 8, column_ + j * 8);
  }

  template <class T, class Number>
  __device__ void add_as(const Number& number) {
    each([&](float(&pair)[2], int row, int column) {
      const auto two = *reinterpret_cast<const Pack<T, 2>*>(find<T>(to_.residual, row, column));
      pair[0] += number(two.at[0]);
      pair[1] += number(two.at[1]);
    });
  }

  template <class T, class Number>
  __device__ void store_as(const Number& number) {
    each([&](const float(&pair)[2], int row, int column) {
      *reinterpret_cast<Pack<T, 2>*>(find<T>(to_.results, row, column)) = {number(pair[0]),
                                                                           number(pair[1])};
    });
  }

  __device__ void add() {
    const SmallFinish& f = to_.f;
    const auto real = [](auto x) { return wide(x); };
    const auto small = [&](unsigned flip) {
      const float zero = static_cast<float>(f.residual_zero + static_cast<int>(flip));
      add_as<unsigned char>(
          [&](unsigned char x) { return (number_of(x ^ flip) - zero) * f.residual_scale; });
    };
    switch (f.residual_type) {
      case SmallType::f32: return add_as<float>(real);
      case SmallType::f16: return add_as<__half>(real);
      case SmallType::bf16: return add_as<__nv_bfloat16>(real);
      case SmallType::u8: return small(0);
      case SmallType::i8: return small(0x80);
      default: return;
    }
  }

  // Those that hopper_takes() lets in.
  __device__ void activate() {
    const SmallFinish& f = to_.f;
    const auto all = [&](auto kind) {
      each([&](float(&pair)[2], int, int) {
        for (float& x : pair) x = activated(x, decltype(kind)::value, f.low, f.high);
      });
    };
    switch (f.activation) {
      case Activation::relu: return all(ActivationKind<Activation::relu>());
      case Activation::gelu: return all(ActivationKind<Activation::gelu>());
      case Activation::clip: return all(ActivationKind<Activation::clip>());
      default: return;
    }
  }

  __device__ void store() {
    const SmallFinish& f = to_.f;
    switch (f.to) {
      case SmallType::f32: return store_as<float>(narrow<float>);
      case SmallType::f16: return store_as<__half>(narrow<__half>);
      case SmallType::bf16: return store_as<__nv_bfloat16>(narrow<__nv_bfloat16>);
      default: return store_as<unsigned char>(Steps(f.to, f.to_scale, f.to_zero));
    }
  }

  const Finishing& to_;
  float at_[kAcross][2][2];
  int row_, column_;  // of the first pair, in the tile
};

// All sums of a group, whose rows begin at `first`.
template <class S>
__device__ void finish_group(const Finishing& to, int first, const int* sums) {
  int thread = static_cast<int>(threadIdx.x) % kGroup;
  asm volatile("" : "+r"(thread));  // else places are computed once for all tiles, and spilled
  const int row = first + thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
#pragma unroll
  for (int j = 0; j < S::kColumns / 8; j += 4) Share<S>(to, row, column + j * 8).make(sums + j * 4);
}

}  // namespace sluice::engine::cuda
