// The largest of many values, for the elements of one word of 32 bits at a time. A NaN stays, and
// of a zero and a negative zero the first that was seen.
#pragma once

#include <cmath>

#include "kernels/common/element.cuh"

namespace sluice::kernels::cuda {

// see(word) for each, then word(); one that has seen none is the least there is.
template <class T>
class Largest;

template <>
class Largest<float> {
 public:
  __device__ void see(unsigned word) {
    const float value = __uint_as_float(word);
    if (value > most_ || value != value) most_ = value;
  }
  __device__ unsigned word() const { return __float_as_uint(most_); }

 private:
  float most_ = -INFINITY;
};

// The instruction for a maximum alone would not do: to it, zero is more than negative zero. So it
// only says where there was a NaN.
template <class Pair>
class LargestHalves {
 public:
  __device__ explicit LargestHalves(unsigned least) : most_(least), or_nan_(least) {}
  __device__ void see(unsigned word) {
    const unsigned more = __hgt2_mask(pair(word), pair(most_));
    most_ = (word & more) | (most_ & ~more);
    or_nan_ = bits(__hmax2_nan(pair(or_nan_), pair(word)));
  }
  __device__ unsigned word() const {
    const unsigned nan = __hneu2_mask(pair(or_nan_), pair(or_nan_));
    return (or_nan_ & nan) | (most_ & ~nan);
  }

 private:
  __device__ static Pair pair(unsigned word) { return *reinterpret_cast<const Pair*>(&word); }
  __device__ static unsigned bits(const Pair& pair) {
    return *reinterpret_cast<const unsigned*>(&pair);
  }

  unsigned most_, or_nan_;
};

template <>
class Largest<__half> : public LargestHalves<__half2> {
 public:
  __device__ Largest() : LargestHalves(0xfc00fc00u) {}
};
template <>
class Largest<__nv_bfloat16> : public LargestHalves<__nv_bfloat162> {
 public:
  __device__ Largest() : LargestHalves(0xff80ff80u) {}
};

// Of two numbers of 16 bits whose upper bytes differ, these say which is larger. So all bytes are
// compared by two instructions that GPUs have for pairs, where one for four bytes is many.
template <bool kSigned>
class LargestBytes {
 public:
  __device__ void see(unsigned word) {
    odd_ = most(odd_, word);
    even_ = most(even_, word << 8);
  }
  __device__ unsigned word() const { return __byte_perm(even_, odd_, 0x7351); }

 private:
  __device__ static unsigned most(unsigned a, unsigned b) {
    return kSigned ? __vmaxs2(a, b) : __vmaxu2(a, b);
  }

  static constexpr unsigned kLeast = kSigned ? 0x80008000u : 0;
  unsigned odd_ = kLeast, even_ = kLeast;  // their upper bytes
};

template <>
class Largest<std::uint8_t> : public LargestBytes<false> {};
template <>
class Largest<std::int8_t> : public LargestBytes<true> {};

}  // namespace sluice::kernels::cuda
