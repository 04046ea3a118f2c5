// The epilogue of quantized GEMMs on the device: scale, bias, residual, activation and
// requantization.
#pragma once

#include <cuda_fp8.h>

#include "kernels/common/activation.cuh"
#include "kernels/common/element.cuh"
#include "kernels/gemm/gemm_epilogue.h"

namespace sluice::kernels::cuda {

// 1.5 * 2^23. Adding it to a float rounds to the nearest integer, ties to even, and leaves that
// integer in the low bits of the mantissa.
constexpr float kRoundMagic = 12582912;
constexpr unsigned kRoundMagicBits = 0x4b400000;

// A byte as a float, faster than a conversion instruction: u8, or i8 with its sign bit flipped (128
// more).
__device__ inline float byte_to_float(unsigned byte) {
  return __uint_as_float(kRoundMagicBits | byte) - kRoundMagic;
}

// saturate(round(x / scale) + zero) to u8 or i8; NaN becomes the lowest value.
struct Quantizer {
  float inverse, low, high;  // bounds before the zero point is added
  unsigned zero;

  __device__ Quantizer(GemmType to, float scale, int zero_of)
      : inverse(fminf(1 / scale, 3.402823466e+38f)),  // a subnormal scale has no inverse
        low(static_cast<float>((to == GemmType::i8 ? -128 : 0) - zero_of)),
        high(low + 255),
        zero(static_cast<unsigned>(zero_of)) {}
  __device__ unsigned char operator()(float x) const {
    const float rounded = fminf(high, fmaxf(low, x * inverse)) + kRoundMagic;
    return static_cast<unsigned char>(__float_as_uint(rounded) + zero);
  }
};

// K packs of N values that one thread works on: `count` of them, the first at pack `at` of the
// tensor, the others `step` packs apart. Branches on types are taken once for all packs, so that
// the code stays small enough for the instruction cache.
template <int N, int K>
struct PackedValues {
  long long at, step;
  int count;
  float values[K * N];

  template <class Each>
  __device__ void each(const Each& what) {
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (k < count) what(at + k * step, values + k * N);
  }

  template <class T, class Number>
  __device__ void load_as(const void* from, const Number& number) {
    each([&](long long i, float* to) {
      const auto pack = static_cast<const Pack<T, N>*>(from)[i];
#pragma unroll
      for (int e = 0; e < N; ++e) to[e] = number(pack.at[e]);
    });
  }
  template <class T, class Number>
  __device__ void store_as(void* to, const Number& number) {
    each([&](long long i, const float* from) {
      Pack<T, N> pack;
#pragma unroll
      for (int e = 0; e < N; ++e) pack.at[e] = number(from[e]);
      static_cast<Pack<T, N>*>(to)[i] = pack;
    });
  }

  __device__ void add(const PackedValues& other) {
#pragma unroll
    for (int i = 0; i < K * N; ++i) values[i] += other.values[i];
  }

  __device__ void load_residual(const GemmEpilogue& f) {
    const auto real = [](auto x) { return wide(x); };
    const auto quantized = [&](unsigned sign_flip) {
      const float zero = static_cast<float>(f.residual_zero + static_cast<int>(sign_flip));
      load_as<unsigned char>(f.residual, [&](unsigned char x) {
        return (byte_to_float(x ^ sign_flip) - zero) * f.residual_scale;
      });
    };
    switch (f.residual_type) {
      case GemmType::f32: return load_as<float>(f.residual, real);
      case GemmType::f16: return load_as<__half>(f.residual, real);
      case GemmType::bf16: return load_as<__nv_bfloat16>(f.residual, real);
      case GemmType::u8: return quantized(0);
      case GemmType::i8: return quantized(0x80);
      default: return;
    }
  }

  __device__ void store(void* to, GemmType type, float scale, int zero) {
    switch (type) {
      case GemmType::f32: return store_as<float>(to, narrow<float>);
      case GemmType::f16: return store_as<__half>(to, narrow<__half>);
      case GemmType::bf16: return store_as<__nv_bfloat16>(to, narrow<__nv_bfloat16>);
      case GemmType::f8e4m3: {
        const float inverse = 1 / scale;
        return store_as<unsigned char>(to, [&](float x) {
          return __nv_cvt_float_to_fp8(x * inverse, __NV_SATFINITE, __NV_E4M3);
        });
      }
      default: return store_as<unsigned char>(to, Quantizer(type, scale, zero));
    }
  }
};

// Compensation, scale and bias of the N columns from `column` on.
template <class Sum, int N>
struct ColumnParams {
  Sum compensation[N];
  float scale[N], bias[N];

  __device__ ColumnParams(const GemmEpilogue& f, int column) {
#pragma unroll
    for (int e = 0; e < N; ++e) {
      compensation[e] =
          f.compensation != nullptr ? static_cast<Sum>(f.compensation[column + e]) : Sum(0);
      scale[e] = f.scale[column + e];
      bias[e] = f.bias != nullptr ? f.bias[column + e] : 0;
    }
  }

  // Writes the results of `packs`; sums(k) returns the accumulators of pack k.
  template <int K, class Sums>
  __device__ void apply(const GemmEpilogue& f, PackedValues<N, K>& packs, const Sums& sums) const {
    PackedValues<N, K> residual{.at = packs.at, .step = packs.step, .count = packs.count};
    const bool has_residual = f.residual_type != GemmType::none;
    if (has_residual) residual.load_residual(f);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const Pack<Sum, N> own = sums(k < packs.count ? k : 0);
#pragma unroll
      for (int e = 0; e < N; ++e)
        packs.values[k * N + e] =
            static_cast<float>(own.at[e] - compensation[e]) * scale[e] + bias[e];
    }
    if (has_residual && f.residual_first) packs.add(residual);
    activate(packs.values, f.activation, f.low, f.high);
    if (has_residual && !f.residual_first) packs.add(residual);
    packs.store(f.y, f.to, f.to_scale, f.to_zero);
  }
};

}  // namespace sluice::kernels::cuda
