// Few planes woven to pixels, [batch, few, many] to [batch, many, few], and pixels taken apart to
// planes. The pixels of a block pass through its shared memory, so that both sides are read and
// written in whole lines. Limit: memory.
#pragma once

#include "kernels/data_movement/element_width.cuh"

namespace sluice::kernels::cuda {

// Pixels of a thread: 16 bytes of a plane, 8 where elements are bytes.
template <class T>
inline constexpr int kOwnPixels = sizeof(T) == 4 ? 4 : 8;
template <class T>
inline constexpr unsigned kBlockPixels = kThreads* kOwnPixels<T>;

// Steps in elements.
struct Weave {
  const void* from;
  void* to;
  unsigned many;
  Divisor blocks;                                     // of an image
  std::int64_t plane_step, planes_step, pixels_step;  // the latter from image to image
  bool aligned;  // each thread's part of a plane, and each image's pixels
};

// Those of a thread, each with its elements side by side.
template <class T, int kFew>
class Pixels {
 public:
  __device__ void set(int pixel, int plane, T value) {
    const int i = pixel * kFew + plane;
    word_[i / kInWord] |= static_cast<unsigned>(value) << i % kInWord * kBits;
  }
  __device__ T get(int pixel, int plane) const {
    const int i = pixel * kFew + plane;
    return static_cast<T>(word_[i / kInWord] >> i % kInWord * kBits);
  }
  __device__ void store(T* to) const {
#pragma unroll
    for (int i = 0; i < kWords / 2; ++i)
      reinterpret_cast<uint2*>(to)[i] = make_uint2(word_[2 * i], word_[2 * i + 1]);
  }
  __device__ void load(const T* from) {
#pragma unroll
    for (int i = 0; i < kWords / 2; ++i) {
      const uint2 both = reinterpret_cast<const uint2*>(from)[i];
      word_[2 * i] = both.x, word_[2 * i + 1] = both.y;
    }
  }

 private:
  static constexpr int kInWord = 4 / sizeof(T), kBits = 8 * sizeof(T);
  static constexpr int kWords = kOwnPixels<T> * kFew / kInWord;
  static_assert(kWords % 2 == 0);

  unsigned word_[kWords] = {};
};

// What a block has of an image, and a thread of that.
template <class T>
struct Stretch {
  unsigned image, first, count;  // pixels of the block
  unsigned own;                  // where the thread's begin, from `first` on
  int own_count;                 // less than 1: none

  __device__ explicit Stretch(const Weave& call) {
    image = quotient(call.blocks, blockIdx.x);
    first = (blockIdx.x - image * call.blocks.size) * kBlockPixels<T>;
    count = min(kBlockPixels<T>, call.many - first);
    own = threadIdx.x * kOwnPixels<T>;
    own_count = min(kOwnPixels<T>, static_cast<int>(count) - static_cast<int>(own));
  }
  __device__ std::int64_t plane(const Weave& call, int number) const {
    return image * call.planes_step + number * call.plane_step + first + own;
  }
};

// By all threads of a block, 16 bytes at a time where both are aligned.
template <class T>
__device__ void copy_run(const T* from, T* to, unsigned count, bool aligned) {
  const unsigned packs = aligned ? count * sizeof(T) / 16 : 0;
#pragma unroll 4
  for (unsigned i = threadIdx.x; i < packs; i += kThreads)
    reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
  for (unsigned i = packs * (16 / sizeof(T)) + threadIdx.x; i < count; i += kThreads)
    to[i] = from[i];
}

template <class T, int kFew>
__global__ void __launch_bounds__(kThreads) weave_kernel(const Weave call) {
  constexpr int kOwn = kOwnPixels<T>;
  __shared__ __align__(16) T woven[kBlockPixels<T> * kFew];
  const Stretch<T> s(call);
  const T* const from = static_cast<const T*>(call.from);
  Pack<T, kOwn> planes[kFew] = {};
  if (call.aligned && s.own_count == kOwn) {
#pragma unroll
    for (int plane = 0; plane < kFew; ++plane)
      planes[plane] = *reinterpret_cast<const Pack<T, kOwn>*>(from + s.plane(call, plane));
  } else {
#pragma unroll
    for (int plane = 0; plane < kFew; ++plane)
#pragma unroll
      for (int i = 0; i < kOwn; ++i)
        if (i < s.own_count) planes[plane].at[i] = from[s.plane(call, plane) + i];
  }
  Pixels<T, kFew> pixels;
#pragma unroll
  for (int i = 0; i < kOwn; ++i)
#pragma unroll
    for (int plane = 0; plane < kFew; ++plane) pixels.set(i, plane, planes[plane].at[i]);
  pixels.store(woven + s.own * kFew);
  __syncthreads();
  T* const to = static_cast<T*>(call.to) + s.image * call.pixels_step + s.first * kFew;
  copy_run(woven, to, s.count * kFew, call.aligned);
}

template <class T, int kFew>
__global__ void __launch_bounds__(kThreads) unweave_kernel(const Weave call) {
  constexpr int kOwn = kOwnPixels<T>;
  __shared__ __align__(16) T woven[kBlockPixels<T> * kFew];
  const Stretch<T> s(call);
  const T* const from =
      static_cast<const T*>(call.from) + s.image * call.pixels_step + s.first * kFew;
  copy_run(from, woven, s.count * kFew, call.aligned);
  __syncthreads();
  Pixels<T, kFew> pixels;
  pixels.load(woven + s.own * kFew);
#pragma unroll
  for (int plane = 0; plane < kFew; ++plane) {
    Pack<T, kOwn> values;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) values.at[i] = pixels.get(i, plane);
    T* const to = static_cast<T*>(call.to) + s.plane(call, plane);
    if (call.aligned && s.own_count == kOwn) {
      *reinterpret_cast<Pack<T, kOwn>*>(to) = values;
      continue;
    }
#pragma unroll
    for (int i = 0; i < kOwn; ++i)
      if (i < s.own_count) to[i] = values.at[i];
  }
}

// Of a move that plan_move() made for it.
template <class T>
Weave weave_of(const Move& move) {
  const bool apart = move.way == Move::Way::unweave;
  const int last = move.rank - 1, across = last - 1;
  const bool batched = move.rank == 3;
  const std::int64_t from_step = batched ? move.from_step[0] : 0;
  const std::int64_t to_step = batched ? move.to_step[0] : 0;
  Weave made{};
  made.from = static_cast<const T*>(move.from) + move.from_first;
  made.to = static_cast<T*>(move.to) + move.to_first;
  made.many = move.size[apart ? last : across].size;
  made.blocks =
      Divisor((static_cast<std::int64_t>(made.many) + kBlockPixels<T> - 1) / kBlockPixels<T>);
  made.plane_step = apart ? move.to_step[across] : move.from_step[last];
  made.planes_step = apart ? to_step : from_step;
  made.pixels_step = apart ? from_step : to_step;
  const std::int64_t planes_first = apart ? move.to_first : move.from_first;
  const std::int64_t pixels_first = apart ? move.from_first : move.to_first;
  const auto whole = [](std::int64_t at, std::int64_t of) { return at % of == 0; };
  constexpr std::int64_t kOwn = kOwnPixels<T>, kPack = 16 / sizeof(T);
  made.aligned = whole(made.plane_step, kOwn) && whole(made.planes_step, kOwn) &&
                 whole(planes_first, kOwn) && whole(made.pixels_step, kPack) &&
                 whole(pixels_first, kPack);
  return made;
}

template <class T>
void enqueue_weave(const Move& move, cudaStream_t stream) {
  const bool apart = move.way == Move::Way::unweave;
  const Weave call = weave_of<T>(move);
  const std::int64_t images = move.rank == 3 ? move.size[0].size : 1;
  const Grid grid{dim3(static_cast<unsigned>(images * call.blocks.size)), dim3(kThreads)};
  switch (move.size[apart ? move.rank - 2 : move.rank - 1].size) {
    case 2: return launch(stream, grid, apart ? unweave_kernel<T, 2> : weave_kernel<T, 2>, call);
    case 3: return launch(stream, grid, apart ? unweave_kernel<T, 3> : weave_kernel<T, 3>, call);
    default: return launch(stream, grid, apart ? unweave_kernel<T, 4> : weave_kernel<T, 4>, call);
  }
}

}  // namespace sluice::kernels::cuda
