// The epilogue of the Hopper GEMM, by one warpgroup, straight from its wgmma accumulators. Of every
// 16 columns a thread holds four neighbours in two rows; sm90_weight_order() permutes the weights
// so that they are neighbours. Results go to a swizzled tile in shared memory, from where TMA
// stores them.
#pragma once

#include <algorithm>

#include "kernels/gemm/epilogue.cuh"
#include "kernels/gemm/epilogue_params_sm90.h"
#include "kernels/gemm/pipeline_sm90.cuh"
#include "kernels/gemm/tile_order.cuh"

namespace sluice::kernels::cuda {

__device__ inline int element_bytes(GemmType type) {
  if (type == GemmType::f32) return 4;
  return type == GemmType::f16 || type == GemmType::bf16 ? 2 : 1;
}

struct EpilogueArgs {
  const GemmEpilogue& f;
  const SaturatingEpilogue& saturating;
  const ScaleBias* columns;           // of the tile's columns
  unsigned char *residual, *results;  // swizzled tiles in shared memory
};

__device__ inline float saturating_fma(float x, float y, float z) {  // clamp(x * y + z, 0, 1)
  float sum;
  asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(sum) : "f"(x), "f"(y), "f"(z));
  return sum;
}

// The values of a thread in 32 columns and two rows: few enough that they stay in registers.
template <class S>
class EpilogueFragment {
 public:
  __device__ EpilogueFragment(const EpilogueArgs& args, unsigned row, unsigned column)
      : args_(args), row_(row), column_(column) {}

  template <class Sum>
  __device__ void run(const Sum* sums) {
    if (args_.saturating.enabled) return store_quantized(sums);
    scale(sums);
    const GemmEpilogue& f = args_.f;
    if (f.residual_first) add_residual();
    activate();
    if (!f.residual_first) add_residual();
    store();
  }

 private:
  using Quad = float[4];

  template <class T>
  static constexpr int kStripBytes = std::min(128, S::kColumns* static_cast<int>(sizeof(T)));

  // Address in a tile: strips of up to 128 bytes of columns, whose 16-byte chunks are swizzled as
  // TMA swizzles them.
  template <class T>
  __device__ static Pack<T, 4>& at(unsigned char* tile, unsigned row, unsigned column) {
    constexpr unsigned kWide = kStripBytes<T>;
    const unsigned byte = column * static_cast<unsigned>(sizeof(T));
    const unsigned swizzle = kWide == 64 ? row / 2 % 4 : row % 8;
    return *reinterpret_cast<Pack<T, 4>*>(tile + byte / kWide * (S::kRows * kWide) + row * kWide +
                                          (byte % kWide ^ swizzle * 16));
  }

  // Calls body(four values, row, column) for each group of four.
  template <class Body>
  __device__ void each(const Body& body) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        body(values_[i][half], row_ + half * 8u, column_ + i * 16u);
  }

  template <class Body>
  __device__ void all(const Body& body) {
    each([&](Quad& four, unsigned, unsigned) {
      for (float& x : four) x = body(x);
    });
  }

  // sums: accumulators as [eight columns][row][two]. Each value becomes body(sum, column).
  template <class Sum, class Body>
  __device__ void from_sums(const Sum* sums, const Body& body) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const auto* const from =
          reinterpret_cast<const Pack<ScaleBias, 2>*>(args_.columns + column_ + i * 16);
      const Pack<ScaleBias, 2> columns[2] = {from[0], from[1]};
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          values_[i][half][e] =
              body(static_cast<float>(sums[(2 * i + e / 2) * 4 + half * 2 + e % 2]),
                   columns[e / 2].at[e % 2]);
    }
  }

  template <class Sum>
  __device__ void scale(const Sum* sums) {
    from_sums(sums, [](float sum, const ScaleBias& c) { return sum * c.scale + c.bias; });
  }

  // ---- saturating path, u8 and i8
  // ---------------------------------------------------------------------------

  template <class Sum>
  __device__ void store_quantized(const Sum* sums) {
    const SaturatingEpilogue& saturating = args_.saturating;
    if (args_.f.residual_type == GemmType::none) {
      from_sums(sums,
                [](float sum, const ScaleBias& c) { return saturating_fma(sum, c.scale, c.bias); });
    } else {
      scale(sums);
      add_residual_saturating();
    }
    if (saturating.has_low) all([&](float x) { return fmaxf(x, saturating.low); });
    if (saturating.has_high) all([&](float x) { return fminf(x, saturating.high); });
    each([&](const Quad& four, unsigned row, unsigned column) {
      unsigned bits[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) bits[e] = __float_as_uint(four[e] * 256 + kRoundMagic);
      unsigned bytes = __byte_perm(__byte_perm(bits[0], bits[1], 0x40),
                                   __byte_perm(bits[2], bits[3], 0x40), 0x5410);
      if (saturating.odd_zero_correction != 0)
        bytes = __vsub4(bytes, saturating.odd_zero_correction);
      reinterpret_cast<unsigned&>(at<unsigned char>(args_.results, row, column)) =
          bytes ^ saturating.sign_flip;
    });
  }

  __device__ void add_residual_saturating() {
    const SaturatingEpilogue& saturating = args_.saturating;
    const auto add_real = [&]<class T>() {
      each([&](Quad& four, unsigned row, unsigned column) {
        const Pack<T, 4> own = at<T>(args_.residual, row, column);
#pragma unroll
        for (int e = 0; e < 4; ++e)
          four[e] = saturating_fma(wide(own.at[e]), saturating.residual_scale, four[e]);
      });
    };
    switch (args_.f.residual_type) {
      case GemmType::f32: return add_real.template operator()<float>();
      case GemmType::f16: return add_real.template operator()<__half>();
      case GemmType::bf16: return add_real.template operator()<__nv_bfloat16>();
      default: break;
    }
    const float zero = kRoundMagic + saturating.residual_zero;
    each([&](Quad& four, unsigned row, unsigned column) {
      const unsigned bytes =
          reinterpret_cast<const unsigned&>(at<unsigned char>(args_.residual, row, column)) ^
          saturating.residual_sign_flip;
#pragma unroll
      for (int e = 0; e < 4; ++e)
        four[e] =
            saturating_fma(__uint_as_float(__byte_perm(bytes, kRoundMagicBits, 0x7640 + e)) - zero,
                           saturating.residual_scale, four[e]);
    });
  }

  // ---- general path ------------------------------------------------------------------------

  template <class T, class Number>
  __device__ void add_as(const Number& number) {
    each([&](Quad& four, unsigned row, unsigned column) {
      const Pack<T, 4> own = at<T>(args_.residual, row, column);
#pragma unroll
      for (int e = 0; e < 4; ++e) four[e] += number(own.at[e]);
    });
  }

  template <class T, class Number>
  __device__ void store_as(const Number& number) {
    each([&](const Quad& four, unsigned row, unsigned column) {
      at<T>(args_.results, row, column) = {number(four[0]), number(four[1]), number(four[2]),
                                           number(four[3])};
    });
  }

  __device__ void add_residual() {
    const GemmEpilogue& f = args_.f;
    const auto real = [](auto x) { return wide(x); };
    const auto quantized = [&](unsigned sign_flip) {
      const float zero = static_cast<float>(f.residual_zero + static_cast<int>(sign_flip));
      add_as<unsigned char>([&](unsigned char x) {
        return (byte_to_float(x ^ sign_flip) - zero) * f.residual_scale;
      });
    };
    switch (f.residual_type) {
      case GemmType::f32: return add_as<float>(real);
      case GemmType::f16: return add_as<__half>(real);
      case GemmType::bf16: return add_as<__nv_bfloat16>(real);
      case GemmType::u8: return quantized(0);
      case GemmType::i8: return quantized(0x80);
      default: return;
    }
  }

  // Handles the activations that gemm_sm90_supports() accepts.
  __device__ void activate() {
    const GemmEpilogue& f = args_.f;
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
    const GemmEpilogue& f = args_.f;
    switch (f.to) {
      case GemmType::f32: return store_as<float>(narrow<float>);
      case GemmType::f16: return store_as<__half>(narrow<__half>);
      case GemmType::bf16: return store_as<__nv_bfloat16>(narrow<__nv_bfloat16>);
      default: return store_as<unsigned char>(Quantizer(f.to, f.to_scale, f.to_zero));
    }
  }

  const EpilogueArgs& args_;
  Quad values_[2][2];      // [16 columns][row]
  unsigned row_, column_;  // of the first value in the tile
};

// Finishes all accumulators of a warpgroup, whose rows begin at `first`.
template <class S, class Sum>
__device__ void warpgroup_epilogue(const EpilogueArgs& args, unsigned first, const Sum* sums) {
  unsigned thread = threadIdx.x % kWarpgroupThreads;
  asm volatile(
      ""
      : "+r"(thread));  // keeps addresses from being hoisted out of the tile loop and spilled
  const unsigned row = first + thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 4;
#pragma unroll
  for (int j = 0; j < S::kColumns / 8; j += 4)
    EpilogueFragment<S>(args, row, column + j * 8).run(sums + j * 4);
}

}  // namespace sluice::kernels::cuda
