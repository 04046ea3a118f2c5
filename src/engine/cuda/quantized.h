// Products of small numbers: of bytes in one kernel; around cuBLASLt rows as it wants them, and
// what its sums become.
#pragma once

#include <cstdint>

#include "engine/activation.h"

struct CUstream_st;

namespace sluice::engine::cuda {

enum class SmallType { none, f32, f16, bf16, u8, i8, f8e4m3 };
inline int bytes_of(SmallType type) {
  if (type == SmallType::f32) return 4;
  return type == SmallType::f16 || type == SmallType::bf16 ? 2 : 1;
}

// What results of a convolution see, a row each, of `row` bytes: [places, channels], and zeros up
// to its end. A matrix is an image of one column with a window of one place.
struct SmallRows {
  const void* x = nullptr;  // [batch, high, wide, channels] of bytes
  void* to = nullptr;
  std::int64_t first = 0, count = 0;  // rows
  std::int64_t row = 0;
  int high = 1, wide = 1, channels = 0;  // of x
  int pixel = 0;                         // bytes from one to the next; fewer where they overlap
  int out_high = 1, out_wide = 1;        // of the results
  int kernel_high = 1, kernel_wide = 1;  // of the window
  int stride_high = 1, stride_wide = 1;
  int dilation_high = 1, dilation_wide = 1;
  int top = 0, left = 0;      // padding
  unsigned char outside = 0;  // of x, where there is no pixel
  unsigned char flip = 0;     // 128: u8 as i8, 128 less
};
void enqueue(const SmallRows& rows, CUstream_st* stream);
// Whether they are there already, one behind the other.
inline bool lies_as_rows(const SmallRows& r) {
  return r.kernel_high * r.kernel_wide == 1 && r.stride_high == 1 && r.stride_wide == 1 &&
         r.out_high == r.high && r.out_wide == r.wide;
}

// An image whose pixels are as many neighbours of another's, down x across of them, channels of one
// behind the other's, and zeros up to a multiple of 16. So a window that goes by steps goes by
// pixels, and few channels are many.
struct SmallFold {
  const void* x = nullptr;  // [batch, high, wide, channels] of bytes
  void* to = nullptr;       // [batch, out_high, out_wide, out_channels]
  std::int64_t batch = 0;
  int high = 1, wide = 1, channels = 0;
  int down = 1, across = 1;
  int top = 0, left = 0;  // pixels of the padding that come first
  int out_high = 1, out_wide = 1, out_channels = 0;
  unsigned char outside = 0;  // of x, where there is no pixel
};
void enqueue(const SmallFold& fold, CUstream_st* stream);

// y = activation((sum - shift) * scale + bias + before) + behind, where one of before and behind
// is the residual.
struct SmallFinish {
  const void* sums = nullptr;  // i32, or f32 where `whole` is false; rows `sum_row` apart
  bool whole = true;
  std::int64_t sum_row = 0;
  std::int64_t rows = 0;
  int n = 0;
  const std::int32_t* shift = nullptr;  // null: none
  const float *scale = nullptr, *bias = nullptr;
  const void* residual = nullptr;
  SmallType residual_type = SmallType::none, to = SmallType::f32;
  float residual_scale = 1, to_scale = 1;
  int residual_zero = 0, to_zero = 0;
  bool residual_first = false;
  bool has_large_shift = false;  // beyond what a float adds to a sum without a loss
  Activation activation = Activation::none;
  float low = 0, high = 0;
  void* y = nullptr;
};
void enqueue(const SmallFinish& finish, CUstream_st* stream);

// What sums of a column are multiplied by, and what is added then.
struct SmallColumn {
  float scale = 0, bias = 0;
};
inline constexpr std::int64_t kMostColumns = 128;  // of a tile

// A product or convolution of bytes with all that follows. The left side is rows.x, whose channels
// must come in sixteens (rows.to, first, count and flip are not used); weight lies as n rows of
// rows.row bytes of i8, on Hopper in its own order (see hopper_finish.h).
enum class SmallTile { large, tall, little, hopper, hopper_narrow };
struct SmallProduct {
  SmallRows rows{};
  SmallType from = SmallType::u8;  // rows.x, u8 or i8; on Hopper f16 or bf16, and so is weight
  const void* weight = nullptr;
  SmallFinish finish{};                  // without its sums
  const SmallColumn* columns = nullptr;  // for Hopper, of a multiple of kMostColumns
  SmallTile tile = SmallTile::large;
};
// The compute capability that a GPU needs for it, and the most bytes of a row whose sums fit.
inline constexpr int kSmallProductCapability = 80;
inline constexpr std::int64_t kSmallProductBytes = 65536;
// Of rows, and of pixels of x: their places are counted in an int.
inline constexpr std::int64_t kMostSmallRows = std::int64_t{1} << 28;
void enqueue(const SmallProduct& product, CUstream_st* stream);

// x, of f32, f16 or bf16, in steps.
struct SmallSteps {
  const void* x = nullptr;
  void* y = nullptr;
  std::int64_t count = 0;
  SmallType from = SmallType::f32, to = SmallType::f8e4m3;
  float scale = 1;
  int zero = 0;
};
void enqueue(const SmallSteps& steps, CUstream_st* stream);

// Floats of 8 bits as f32, times scale.
void enqueue_from_fp8(const void* x, float* y, std::int64_t count, float scale,
                      CUstream_st* stream);

}  // namespace sluice::engine::cuda
