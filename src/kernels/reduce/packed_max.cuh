// A running maximum of the elements packed in 32-bit words. NaN propagates; of +0 and -0 the first
// one seen stays.
#pragma once

#include <cmath>

#include "kernels/common/element.cuh"

namespace sluice::kernels::cuda {

// Call update() for each word, then word(). Without an update it is the lowest value of the type.
template <class T>
class PackedMax;

template <>
class PackedMax<float> {
 public:
  __device__ void update(unsigned word) {
    const float value = __uint_as_float(word);
    if (value > max_ || value != value) max_ = value;
  }
  __device__ unsigned word() const { return __float_as_uint(max_); }

 private:
  float max_ = -INFINITY;
};

// The max instruction orders +0 above -0, so it is used only to find NaN.
template <class Pair>
class PackedMaxHalves {
 public:
  __device__ explicit PackedMaxHalves(unsigned lowest) : max_(lowest), or_nan_(lowest) {}
  __device__ void update(unsigned word) {
    const unsigned more = __hgt2_mask(pair(word), pair(max_));
    max_ = (word & more) | (max_ & ~more);
    or_nan_ = bits(__hmax2_nan(pair(or_nan_), pair(word)));
  }
  __device__ unsigned word() const {
    const unsigned nan = __hneu2_mask(pair(or_nan_), pair(or_nan_));
    return (or_nan_ & nan) | (max_ & ~nan);
  }

 private:
  __device__ static Pair pair(unsigned word) { return *reinterpret_cast<const Pair*>(&word); }
  __device__ static unsigned bits(const Pair& pair) {
    return *reinterpret_cast<const unsigned*>(&pair);
  }

  unsigned max_, or_nan_;
};

template <>
class PackedMax<__half> : public PackedMaxHalves<__half2> {
 public:
  __device__ PackedMax() : PackedMaxHalves(0xfc00fc00u) {}
};
template <>
class PackedMax<__nv_bfloat16> : public PackedMaxHalves<__nv_bfloat162> {
 public:
  __device__ PackedMax() : PackedMaxHalves(0xff80ff80u) {}
};

// Compares bytes as the upper bytes of 16-bit pairs: two pair instructions, where the one for four
// bytes is emulated.
template <bool kSigned>
class PackedMaxBytes {
 public:
  __device__ void update(unsigned word) {
    odd_ = max2(odd_, word);
    even_ = max2(even_, word << 8);
  }
  __device__ unsigned word() const { return __byte_perm(even_, odd_, 0x7351); }

 private:
  __device__ static unsigned max2(unsigned a, unsigned b) {
    return kSigned ? __vmaxs2(a, b) : __vmaxu2(a, b);
  }

  static constexpr unsigned kLowest = kSigned ? 0x80008000u : 0;
  unsigned odd_ = kLowest, even_ = kLowest;  // their upper bytes
};

template <>
class PackedMax<std::uint8_t> : public PackedMaxBytes<false> {};
template <>
class PackedMax<std::int8_t> : public PackedMaxBytes<true> {};

}  // namespace sluice::kernels::cuda
