#include <algorithm>

#include "kernels/common/element.cuh"
#include "kernels/common/grid.cuh"
#include "kernels/common/launch.cuh"
#include "kernels/data_movement/im2col.h"

namespace sluice::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// ---- im2col --------------------------------------------------------------------------------

// Each thread writes 16 bytes of a row. kWholePacks: all 16 belong to one pixel. Limit: memory.
template <bool kWholePacks>
__global__ void __launch_bounds__(kThreads) im2col(Im2col r, long long packs) {
  using P = Pack<unsigned char, 16>;
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= packs) return;
  const auto a_row = static_cast<int>(r.row_bytes / 16), pixels = r.out_height * r.out_width;
  const long long row = r.first + i / a_row, image = row / pixels;
  const int pixel = static_cast<int>(row - image * pixels);
  const int top = pixel / r.out_width * r.stride_y - r.pad_top;
  const int left = pixel % r.out_width * r.stride_x - r.pad_left;
  const auto* const from = static_cast<const unsigned char*>(r.x) +
                           image * r.height * r.width * static_cast<long long>(r.channels);
  const int k = static_cast<int>(i % a_row) * 16;
  int tap = k / r.channels, channel = k % r.channels;
  P value{};
#pragma unroll
  for (int e = 0; e < 16; e += kWholePacks ? 16 : 1) {
    if (tap >= r.kernel_height * r.kernel_width) break;
    const int y = top + tap / r.kernel_width * r.dilation_y;
    const int x = left + tap % r.kernel_width * r.dilation_x;
    const bool is_inside = y >= 0 && y < r.height && x >= 0 && x < r.width;
    const long long at = (static_cast<long long>(y) * r.width + x) * r.channels + channel;
    if constexpr (kWholePacks) {
      if (is_inside) value = *reinterpret_cast<const P*>(from + at);
      for (unsigned char& byte : value.at) byte = (is_inside ? byte : r.pad_value) ^ r.sign_flip;
    } else {
      value.at[e] = (is_inside ? from[at] : r.pad_value) ^ r.sign_flip;
      if (++channel == r.channels) channel = 0, ++tap;
    }
  }
  static_cast<P*>(r.to)[i] = value;
}

// ---- space to depth ---------------------------------------------------------------------------

// Each thread writes 16 bytes of a pixel, in units of U. A run of neighbours in a row of x is also
// a run in the pixel. Limit: memory.
template <class U>
__global__ void __launch_bounds__(kThreads) space_to_depth(SpaceToDepthCall f, unsigned packs) {
  constexpr int kUnits = 16 / sizeof(U);
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= packs) return;
  const unsigned a_pixel = static_cast<unsigned>(f.out_channels) / 16, pixel = i / a_pixel;
  const unsigned wide = static_cast<unsigned>(f.out_width),
                 high = static_cast<unsigned>(f.out_height);
  const unsigned row = pixel / wide, image = row / high;
  const int top = static_cast<int>(row - image * high) * f.block_height - f.pad_top;
  const int left = static_cast<int>(pixel - row * wide) * f.block_width - f.pad_left;
  const int channels = f.channels / static_cast<int>(sizeof(U));
  const int run = f.block_width * channels, line = f.width * channels;
  const int first = left * channels;  // of the run, in its line
  const auto* const from =
      static_cast<const U*>(f.x) + static_cast<long long>(image) * f.height * line;
  const int k = static_cast<int>(i - pixel * a_pixel) * kUnits;
  int y = k / run, at = k % run;
  Pack<U, kUnits> value{};
#pragma unroll
  for (U& unit : value.at) {
    const int up = top + y, across = first + at;
    const bool is_inside = up >= 0 && up < f.height && across >= 0 && across < line;
    if (y < f.block_height)
      unit = is_inside ? from[static_cast<long long>(up) * line + across]
                       : static_cast<U>(f.pad_value);
    if (++at == run) at = 0, ++y;
  }
  static_cast<Pack<U, kUnits>*>(f.to)[i] = value;
}

}  // namespace

void enqueue_im2col(const Im2col& rows, CUstream_st* stream) {
  const long long packs = rows.count * rows.row_bytes / 16;
  if (packs == 0) return;
  const bool whole_packs = rows.channels % 16 == 0;
  launch(stream, one_each(packs, kThreads), whole_packs ? im2col<true> : im2col<false>, rows,
         packs);
}

void enqueue_space_to_depth(const SpaceToDepthCall& call, CUstream_st* stream) {
  constexpr long long kMaxPacks = 1ll << 31;  // indexed with an int
  const long long of_image =
      static_cast<long long>(call.out_height) * call.out_width * (call.out_channels / 16);
  if (of_image == 0) return;
  const bool by_pairs = call.channels % 2 == 0 && call.pad_value == 0;
  SpaceToDepthCall some = call;
  for (std::int64_t first = 0; first < call.batch; first += some.batch) {
    some.batch = std::min<std::int64_t>(call.batch - first, std::max(kMaxPacks / of_image, 1ll));
    some.x = static_cast<const unsigned char*>(call.x) +
             first * call.height * call.width * static_cast<long long>(call.channels);
    some.to = static_cast<unsigned char*>(call.to) + first * of_image * 16;
    const long long packs = some.batch * of_image;
    launch(stream, one_each(packs, kThreads),
           by_pairs ? space_to_depth<unsigned short> : space_to_depth<unsigned char>, some,
           static_cast<unsigned>(packs));
  }
}

}  // namespace sluice::kernels::cuda
