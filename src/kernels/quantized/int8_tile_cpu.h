// The innermost part of products of bytes: rows times panels of weights, summed in 32 bits
// without loss, and made what they stand for while the sums are at hand.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/common/epilogue.h"
#include "kernels/common/quant_params.h"

namespace sluice::kernels::cpu {

// Values of k go together in words of 32 bits: four bytes where the processor multiplies those
// (VNNI), two of 16 bits elsewhere.
struct Int8Shape {
  int rows, columns;  // of a tile: rows at most, by one panel's columns
  int value_bytes;    // 1 or 2

  int together() const { return 4 / value_bytes; }
};
Int8Shape int8_shape();

inline constexpr int kMostInt8Rows = 6;
inline constexpr int kMostInt8Columns = 64;

// What a sum becomes: activation(sum * scale + bias) + residual, or with the residual inside.
struct Int8Finish {
  const float *scale = nullptr, *bias = nullptr;  // as long as the panels
  Epilogue epilogue{};
  QuantParams rounding{};
  DType residual_type = DType::none;  // f32, u8 or i8; none: there is no residual
  bool residual_first = false;        // inside the activation
};

struct Int8Block {
  // Row r is `segments` runs of `words`; run s begins at rows[s * count + r]. Values count from 0.
  const std::uint8_t* const* rows;
  std::int64_t count, segments, words;

  // Panels: rows of int8_shape().columns words, one row for each word of a's rows.
  const std::uint8_t* panels;
  std::int64_t panel_step;  // bytes
  std::int64_t columns;
  const std::int32_t* start;  // what sums begin with, as long as the panels

  // Of the first row's first column; rows are `c_row` elements apart.
  std::uint8_t* c;
  const std::uint8_t* residual;
  std::int64_t c_row;
  const Int8Finish* finish;  // scale and bias of the first column
};

// All rows by all panels. A sum is the same however rows and columns are split.
void run(const Int8Block& block);

// Numbers in steps and back: u8 or i8, as QuantParams says what `to` is.
void to_steps(const float* from, std::size_t count, const QuantParams& rounding, std::uint8_t* to);
void from_steps(const std::uint8_t* from, std::size_t count, DType type, float scale, int zero,
                float* to);

}  // namespace sluice::kernels::cpu
