// What sums of small numbers become: numbers, or small numbers again.
#pragma once

#include <cuda_fp8.h>

#include "kernels/common/activation.cuh"
#include "kernels/common/element.cuh"
#include "kernels/quantized/int8_gemm.h"

namespace sluice::kernels::cuda {

// Adding it pushes a fraction out of a float, to the nearest even number, and leaves the whole in
// the last bits; and so the other way around.
constexpr float kRounder = 12582912;
constexpr unsigned kRounderBits = 0x4b400000;

// A byte as a number, quicker than by conversion: u8, or i8 with its sign turned (128 more).
__device__ inline float number_of(unsigned byte) {
  return __uint_as_float(kRounderBits | byte) - kRounder;
}

// round(x / scale) + zero, held within u8 or i8; NaN is the lowest.
struct Steps {
  float inverse, least, most;  // before the zero is added
  unsigned zero;

  __device__ Steps(SmallType to, float scale, int zero_of)
      : inverse(fminf(1 / scale, 3.402823466e+38f)),  // of a scale too small for one
        least(static_cast<float>((to == SmallType::i8 ? -128 : 0) - zero_of)),
        most(least + 255),
        zero(static_cast<unsigned>(zero_of)) {}
  __device__ unsigned char operator()(float x) const {
    const float held = fminf(most, fmaxf(least, x * inverse)) + kRounder;
    return static_cast<unsigned char>(__float_as_uint(held) + zero);
  }
};

// K packs of N numbers of one thread: `count` of them, the first the `at`-th of its tensor and
// each `step` further. What there is to ask is asked once for all of them: a way that is short
// stays in the cache of instructions.
template <int N, int K>
struct Packs {
  long long at, step;
  int count;
  float numbers[K * N];

  template <class Each>
  __device__ void each(const Each& what) {
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (k < count) what(at + k * step, numbers + k * N);
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

  __device__ void add(const Packs& other) {
#pragma unroll
    for (int i = 0; i < K * N; ++i) numbers[i] += other.numbers[i];
  }

  __device__ void load_residual(const SmallFinish& f) {
    const auto real = [](auto x) { return wide(x); };
    const auto small = [&](unsigned flip) {
      const float zero = static_cast<float>(f.residual_zero + static_cast<int>(flip));
      load_as<unsigned char>(f.residual, [&](unsigned char x) {
        return (number_of(x ^ flip) - zero) * f.residual_scale;
      });
    };
    switch (f.residual_type) {
      case SmallType::f32: return load_as<float>(f.residual, real);
      case SmallType::f16: return load_as<__half>(f.residual, real);
      case SmallType::bf16: return load_as<__nv_bfloat16>(f.residual, real);
      case SmallType::u8: return small(0);
      case SmallType::i8: return small(0x80);
      default: return;
    }
  }

  __device__ void store(void* to, SmallType type, float scale, int zero) {
    switch (type) {
      case SmallType::f32: return store_as<float>(to, narrow<float>);
      case SmallType::f16: return store_as<__half>(to, narrow<__half>);
      case SmallType::bf16: return store_as<__nv_bfloat16>(to, narrow<__nv_bfloat16>);
      case SmallType::f8e4m3: {
        const float inverse = 1 / scale;
        return store_as<unsigned char>(to, [&](float x) {
          return __nv_cvt_float_to_fp8(x * inverse, __NV_SATFINITE, __NV_E4M3);
        });
      }
      default: return store_as<unsigned char>(to, Steps(type, scale, zero));
    }
  }
};

// What N columns from `column` on are finished with.
template <class Sum, int N>
struct Columns {
  Sum shift[N];
  float scale[N], bias[N];

  __device__ Columns(const SmallFinish& f, int column) {
#pragma unroll
    for (int e = 0; e < N; ++e) {
      shift[e] = f.shift != nullptr ? static_cast<Sum>(f.shift[column + e]) : Sum(0);
      scale[e] = f.scale[column + e];
      bias[e] = f.bias != nullptr ? f.bias[column + e] : 0;
    }
  }

  // Results in `packs`' places; sums(k) are the k-th pack's.
  template <int K, class Sums>
  __device__ void finish(const SmallFinish& f, Packs<N, K>& packs, const Sums& sums) const {
    Packs<N, K> residual{.at = packs.at, .step = packs.step, .count = packs.count};
    const bool has_residual = f.residual_type != SmallType::none;
    if (has_residual) residual.load_residual(f);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const Pack<Sum, N> own = sums(k < packs.count ? k : 0);
#pragma unroll
      for (int e = 0; e < N; ++e)
        packs.numbers[k * N + e] = static_cast<float>(own.at[e] - shift[e]) * scale[e] + bias[e];
    }
    if (has_residual && f.residual_first) packs.add(residual);
    activate(packs.numbers, f.activation, f.low, f.high);
    if (has_residual && !f.residual_first) packs.add(residual);
    packs.store(f.y, f.to, f.to_scale, f.to_zero);
  }
};

}  // namespace sluice::kernels::cuda
