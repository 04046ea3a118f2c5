// Products of small numbers: of bytes in one kernel; around cuBLASLt rows as it wants them, and
// what its sums become.
#pragma once

#include <cstdint>

#include "kernels/common/activation.h"
#include "kernels/conv/im2col.h"

struct CUstream_st;

namespace sluice::kernels::cuda {

enum class SmallType { none, f32, f16, bf16, u8, i8, f8e4m3 };
inline int bytes_of(SmallType type) {
  if (type == SmallType::f32) return 4;
  return type == SmallType::f16 || type == SmallType::bf16 ? 2 : 1;
}

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

}  // namespace sluice::kernels::cuda
