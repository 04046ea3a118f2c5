// What a group of four warps makes of its sums, from the registers that the tensor cores left them
// in: each thread has, of every 16 columns, four neighbours in two rows (weights lie in an order
// that makes them neighbours, see in_hopper_order()). Results go to a box in shared memory.
#pragma once

#include <algorithm>

#include "kernels/quantized/epilogue.cuh"
#include "kernels/quantized/epilogue_params_sm90.h"
#include "kernels/quantized/pipeline_sm90.cuh"
#include "kernels/quantized/tile_order.cuh"

namespace sluice::kernels::cuda {

__device__ inline int size_of(SmallType type) {
  if (type == SmallType::f32) return 4;
  return type == SmallType::f16 || type == SmallType::bf16 ? 2 : 1;
}

// Where a group's sums go, and what they meet on the way.
struct Finishing {
  const SmallFinish& f;
  const InSteps& steps;
  const SmallColumn* columns;         // the tile's
  unsigned char *residual, *results;  // boxes
};

__device__ inline float held_sum(float x, float y, float z) {  // x y + z, from 0 to 1
  float held;
  asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(held) : "f"(x), "f"(y), "f"(z));
  return held;
}

// A few numbers of a thread, so that they stay in registers whatever becomes of them: those of 32
// columns, in two rows.
template <class S>
class Share {
 public:
  __device__ Share(const Finishing& to, unsigned row, unsigned column)
      : to_(to), row_(row), column_(column) {}

  template <class Sum>
  __device__ void make(const Sum* sums) {
    if (to_.steps.is) return make_steps(sums);
    scale(sums);
    const SmallFinish& f = to_.f;
    if (f.residual_first) add();
    activate();
    if (!f.residual_first) add();
    store();
  }

 private:
  using Four = float[4];

  template <class T>
  static constexpr int kStrip = std::min(128, S::kColumns* static_cast<int>(sizeof(T)));

  // In a box: strips of up to 128 bytes of columns, whose parts of 16 are turned by the row.
  template <class T>
  __device__ static Pack<T, 4>& find(unsigned char* box, unsigned row, unsigned column) {
    constexpr unsigned kWide = kStrip<T>;
    const unsigned byte = column * static_cast<unsigned>(sizeof(T));
    const unsigned turn = kWide == 64 ? row / 2 % 4 : row % 8;
    return *reinterpret_cast<Pack<T, 4>*>(box + byte / kWide * (S::kRows * kWide) + row * kWide +
                                          (byte % kWide ^ turn * 16));
  }

  // what(its four numbers, row, column) for each.
  template <class What>
  __device__ void each(const What& what) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) what(at_[i][half], row_ + half * 8u, column_ + i * 16u);
  }

  template <class What>
  __device__ void all(const What& what) {
    each([&](Four& four, unsigned, unsigned) {
      for (float& x : four) x = what(x);
    });
  }

  // sums: [eight columns][row][two]; each number is what(sum, column).
  template <class Sum, class What>
  __device__ void from_sums(const Sum* sums, const What& what) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const auto* const from =
          reinterpret_cast<const Pack<SmallColumn, 2>*>(to_.columns + column_ + i * 16);
      const Pack<SmallColumn, 2> columns[2] = {from[0], from[1]};
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          at_[i][half][e] = what(static_cast<float>(sums[(2 * i + e / 2) * 4 + half * 2 + e % 2]),
                                 columns[e / 2].at[e % 2]);
    }
  }

  template <class Sum>
  __device__ void scale(const Sum* sums) {
    from_sums(sums, [](float sum, const SmallColumn& c) { return sum * c.scale + c.bias; });
  }

  // ---- steps -------------------------------------------------------------------------------

  template <class Sum>
  __device__ void make_steps(const Sum* sums) {
    const InSteps& steps = to_.steps;
    if (to_.f.residual_type == SmallType::none) {
      from_sums(sums,
                [](float sum, const SmallColumn& c) { return held_sum(sum, c.scale, c.bias); });
    } else {
      scale(sums);
      add_in_steps();
    }
    if (steps.has_low) all([&](float x) { return fmaxf(x, steps.low); });
    if (steps.has_high) all([&](float x) { return fminf(x, steps.high); });
    each([&](const Four& four, unsigned row, unsigned column) {
      unsigned bits[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) bits[e] = __float_as_uint(four[e] * 256 + kRounder);
      unsigned bytes = __byte_perm(__byte_perm(bits[0], bits[1], 0x40),
                                   __byte_perm(bits[2], bits[3], 0x40), 0x5410);
      if (steps.less != 0) bytes = __vsub4(bytes, steps.less);
      reinterpret_cast<unsigned&>(find<unsigned char>(to_.results, row, column)) =
          bytes ^ steps.flip;
    });
  }

  __device__ void add_in_steps() {
    const InSteps& steps = to_.steps;
    const auto reals = [&]<class T>() {
      each([&](Four& four, unsigned row, unsigned column) {
        const Pack<T, 4> own = find<T>(to_.residual, row, column);
#pragma unroll
        for (int e = 0; e < 4; ++e)
          four[e] = held_sum(wide(own.at[e]), steps.residual_scale, four[e]);
      });
    };
    switch (to_.f.residual_type) {
      case SmallType::f32: return reals.template operator()<float>();
      case SmallType::f16: return reals.template operator()<__half>();
      case SmallType::bf16: return reals.template operator()<__nv_bfloat16>();
      default: break;
    }
    const float zero = kRounder + steps.residual_zero;
    each([&](Four& four, unsigned row, unsigned column) {
      const unsigned bytes =
          reinterpret_cast<const unsigned&>(find<unsigned char>(to_.residual, row, column)) ^
          steps.residual_flip;
#pragma unroll
      for (int e = 0; e < 4; ++e)
        four[e] = held_sum(__uint_as_float(__byte_perm(bytes, kRounderBits, 0x7640 + e)) - zero,
                           steps.residual_scale, four[e]);
    });
  }

  // ---- anything else -----------------------------------------------------------------------

  template <class T, class Number>
  __device__ void add_as(const Number& number) {
    each([&](Four& four, unsigned row, unsigned column) {
      const Pack<T, 4> own = find<T>(to_.residual, row, column);
#pragma unroll
      for (int e = 0; e < 4; ++e) four[e] += number(own.at[e]);
    });
  }

  template <class T, class Number>
  __device__ void store_as(const Number& number) {
    each([&](const Four& four, unsigned row, unsigned column) {
      find<T>(to_.results, row, column) = {number(four[0]), number(four[1]), number(four[2]),
                                           number(four[3])};
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
    const auto as = [&](auto kind) {
      all([&](float x) { return activated<true>(x, decltype(kind)::value, f.low, f.high); });
    };
    switch (f.activation) {
      case Activation::relu: return as(ActivationKind<Activation::relu>());
      case Activation::gelu: return as(ActivationKind<Activation::gelu>());
      case Activation::clip: return as(ActivationKind<Activation::clip>());
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
  Four at_[2][2];          // [16 columns][row]
  unsigned row_, column_;  // of the first, in the tile
};

// All sums of a group, whose rows begin at `first`.
template <class S, class Sum>
__device__ void finish_group(const Finishing& to, unsigned first, const Sum* sums) {
  unsigned thread = threadIdx.x % kGroup;
  asm volatile("" : "+r"(thread));  // else places are computed once for all tiles, and spilled
  const unsigned row = first + thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 4;
#pragma unroll
  for (int j = 0; j < S::kColumns / 8; j += 4) Share<S>(to, row, column + j * 8).make(sums + j * 4);
}

}  // namespace sluice::kernels::cuda
