// NCHW to NHWC interleave and back, for 2 to 4 channels: [batch, channels, pixels] to [batch,
// pixels, channels]. The pixels of a block pass through shared memory, so that both sides are
// coalesced. Limit: memory.
#pragma once

#include "kernels/data_movement/element_width.cuh"

namespace sluice::kernels::cuda {

// Pixels of a thread: 16 bytes of a plane, or 8 where elements are bytes.
template <class T>
inline constexpr int kThreadPixels = sizeof(T) == 4 ? 4 : 8;
template <class T>
inline constexpr unsigned kBlockPixels = kThreads* kThreadPixels<T>;

// Strides are in elements.
struct NhwcInterleave {
  const void* from;
  void* to;
  unsigned pixels;
  Divisor blocks;  // blocks of an image
  std::int64_t plane_stride, image_stride_planes,
      image_stride_pixels;  // of planes; of images, NCHW and NHWC
  bool aligned;             // vector accesses to planes and pixels are aligned
};

// The pixels of a thread, with their channels interleaved.
template <class T, int kChannels>
class Pixels {
 public:
  __device__ void set(int pixel, int plane, T value) {
    const int i = pixel * kChannels + plane;
    words_[i / kInWord] |= static_cast<unsigned>(value) << i % kInWord * kBits;
  }
  __device__ T get(int pixel, int plane) const {
    const int i = pixel * kChannels + plane;
    return static_cast<T>(words_[i / kInWord] >> i % kInWord * kBits);
  }
  __device__ void store(T* to) const {
#pragma unroll
    for (int i = 0; i < kWords / 2; ++i)
      reinterpret_cast<uint2*>(to)[i] = make_uint2(words_[2 * i], words_[2 * i + 1]);
  }
  __device__ void load(const T* from) {
#pragma unroll
    for (int i = 0; i < kWords / 2; ++i) {
      const uint2 both = reinterpret_cast<const uint2*>(from)[i];
      words_[2 * i] = both.x, words_[2 * i + 1] = both.y;
    }
  }

 private:
  static constexpr int kInWord = 4 / sizeof(T), kBits = 8 * sizeof(T);
  static constexpr int kWords = kThreadPixels<T> * kChannels / kInWord;
  static_assert(kWords % 2 == 0);

  unsigned words_[kWords] = {};
};

// The pixels of a block and of a thread.
template <class T>
struct BlockPixels {
  unsigned image, first, count;  // pixels of the block
  unsigned own;                  // the thread's first pixel, from `first` on
  int own_count;                 // less than 1: none

  __device__ explicit BlockPixels(const NhwcInterleave& call) {
    image = quotient(call.blocks, blockIdx.x);
    first = (blockIdx.x - image * call.blocks.size) * kBlockPixels<T>;
    count = min(kBlockPixels<T>, call.pixels - first);
    own = threadIdx.x * kThreadPixels<T>;
    own_count = min(kThreadPixels<T>, static_cast<int>(count) - static_cast<int>(own));
  }
  __device__ std::int64_t plane(const NhwcInterleave& call, int number) const {
    return image * call.image_stride_planes + number * call.plane_stride + first + own;
  }
};

// Copies with all threads of the block, 16 bytes at a time where both sides are aligned.
template <class T>
__device__ void copy_block(const T* from, T* to, unsigned count, bool aligned) {
  const unsigned packs = aligned ? count * sizeof(T) / 16 : 0;
#pragma unroll 4
  for (unsigned i = threadIdx.x; i < packs; i += kThreads)
    reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
  for (unsigned i = packs * (16 / sizeof(T)) + threadIdx.x; i < count; i += kThreads)
    to[i] = from[i];
}

template <class T, int kChannels>
__global__ void __launch_bounds__(kThreads) nchw_to_nhwc(const NhwcInterleave call) {
  constexpr int kOwn = kThreadPixels<T>;
  __shared__ __align__(16) T interleaved[kBlockPixels<T> * kChannels];
  const BlockPixels<T> s(call);
  const T* const from = static_cast<const T*>(call.from);
  Pack<T, kOwn> planes[kChannels] = {};
  if (call.aligned && s.own_count == kOwn) {
#pragma unroll
    for (int plane = 0; plane < kChannels; ++plane)
      planes[plane] = *reinterpret_cast<const Pack<T, kOwn>*>(from + s.plane(call, plane));
  } else {
#pragma unroll
    for (int plane = 0; plane < kChannels; ++plane)
#pragma unroll
      for (int i = 0; i < kOwn; ++i)
        if (i < s.own_count) planes[plane].at[i] = from[s.plane(call, plane) + i];
  }
  Pixels<T, kChannels> pixels;
#pragma unroll
  for (int i = 0; i < kOwn; ++i)
#pragma unroll
    for (int plane = 0; plane < kChannels; ++plane) pixels.set(i, plane, planes[plane].at[i]);
  pixels.store(interleaved + s.own * kChannels);
  __syncthreads();
  T* const to = static_cast<T*>(call.to) + s.image * call.image_stride_pixels + s.first * kChannels;
  copy_block(interleaved, to, s.count * kChannels, call.aligned);
}

template <class T, int kChannels>
__global__ void __launch_bounds__(kThreads) nhwc_to_nchw(const NhwcInterleave call) {
  constexpr int kOwn = kThreadPixels<T>;
  __shared__ __align__(16) T interleaved[kBlockPixels<T> * kChannels];
  const BlockPixels<T> s(call);
  const T* const from =
      static_cast<const T*>(call.from) + s.image * call.image_stride_pixels + s.first * kChannels;
  copy_block(from, interleaved, s.count * kChannels, call.aligned);
  __syncthreads();
  Pixels<T, kChannels> pixels;
  pixels.load(interleaved + s.own * kChannels);
#pragma unroll
  for (int plane = 0; plane < kChannels; ++plane) {
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

// The parameters for a copy whose algorithm is nchw_to_nhwc or nhwc_to_nchw.
template <class T>
NhwcInterleave interleave_call(const StridedCopyCall& copy) {
  const bool to_nchw = copy.algorithm == StridedCopyCall::Algorithm::nhwc_to_nchw;
  const int last = copy.rank - 1, across = last - 1;
  const bool batched = copy.rank == 3;
  const std::int64_t from_stride = batched ? copy.from_stride[0] : 0;
  const std::int64_t to_stride = batched ? copy.to_stride[0] : 0;
  NhwcInterleave made{};
  made.from = static_cast<const T*>(copy.from) + copy.from_first;
  made.to = static_cast<T*>(copy.to) + copy.to_first;
  made.pixels = copy.size[to_nchw ? last : across].size;
  made.blocks =
      Divisor((static_cast<std::int64_t>(made.pixels) + kBlockPixels<T> - 1) / kBlockPixels<T>);
  made.plane_stride = to_nchw ? copy.to_stride[across] : copy.from_stride[last];
  made.image_stride_planes = to_nchw ? to_stride : from_stride;
  made.image_stride_pixels = to_nchw ? from_stride : to_stride;
  const std::int64_t planes_first = to_nchw ? copy.to_first : copy.from_first;
  const std::int64_t pixels_first = to_nchw ? copy.from_first : copy.to_first;
  const auto divides = [](std::int64_t at, std::int64_t of) { return at % of == 0; };
  constexpr std::int64_t kOwn = kThreadPixels<T>, kPack = 16 / sizeof(T);
  made.aligned = divides(made.plane_stride, kOwn) && divides(made.image_stride_planes, kOwn) &&
                 divides(planes_first, kOwn) && divides(made.image_stride_pixels, kPack) &&
                 divides(pixels_first, kPack);
  return made;
}

template <class T>
void enqueue_interleave(const StridedCopyCall& copy, cudaStream_t stream) {
  const bool to_nchw = copy.algorithm == StridedCopyCall::Algorithm::nhwc_to_nchw;
  const NhwcInterleave call = interleave_call<T>(copy);
  const std::int64_t images = copy.rank == 3 ? copy.size[0].size : 1;
  const Grid grid{dim3(static_cast<unsigned>(images * call.blocks.size)), dim3(kThreads)};
  switch (copy.size[to_nchw ? copy.rank - 2 : copy.rank - 1].size) {
    case 2: return launch(stream, grid, to_nchw ? nhwc_to_nchw<T, 2> : nchw_to_nhwc<T, 2>, call);
    case 3: return launch(stream, grid, to_nchw ? nhwc_to_nchw<T, 3> : nchw_to_nhwc<T, 3>, call);
    default: return launch(stream, grid, to_nchw ? nhwc_to_nchw<T, 4> : nchw_to_nhwc<T, 4>, call);
  }
}

}  // namespace sluice::kernels::cuda
