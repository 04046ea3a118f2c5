// The int8 GEMM micro-kernel on the CPU: rows times panels of weights, accumulated exactly in
// int32, with the epilogue applied while the accumulators are in cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/common/activation_params.h"
#include "kernels/common/quant_params.h"

namespace sluice::kernels::cpu {

// Values along k are packed in 32-bit words: four bytes with VNNI, two 16-bit values elsewhere.
struct Int8Shape {
  int rows, columns;  // of a tile: the maximum of rows, and the columns of a panel
  int value_bytes;    // 1 or 2

  int together() const { return 4 / value_bytes; }
};
Int8Shape int8_shape();

inline constexpr int kMaxInt8Rows = 6;
inline constexpr int kMaxInt8Columns = 64;

// result = quantize(activation(sum * scale + bias) + residual), or with the residual inside of the
// activation.
struct Int8Epilogue {
  const float *scale = nullptr, *bias = nullptr;  // padded to whole panels
  ActivationParams activation{};
  QuantParams quant{};
  DType residual_type = DType::none;  // f32, u8 or i8; none: there is no residual
  bool residual_first = false;        // inside the activation
};

struct Int8Block {
  // Row r is `segments` runs of `words`; run s begins at rows[s * count + r]. Values are unsigned.
  const std::uint8_t* const* rows;
  std::int64_t count, segments, words;

  // Panels: rows of int8_shape().columns words, one row for each word along k.
  const std::uint8_t* panels;
  std::int64_t panel_step;  // bytes
  std::int64_t columns;
  const std::int32_t* compensation;  // initial accumulators, padded to whole panels

  // The first result; rows are `c_row` elements apart.
  std::uint8_t* c;
  const std::uint8_t* residual;
  std::int64_t c_row;
  const Int8Epilogue* epilogue;  // its scale and bias begin at the first column
};

// Multiplies all rows by all panels. Results do not depend on how rows and columns are split.
void run(const Int8Block& block);

// QuantizeLinear and DequantizeLinear for u8 and i8 (`quant.to`, `type`).
void quantize_linear(const float* from, std::size_t count, const QuantParams& quant,
                     std::uint8_t* to);
void dequantize_linear(const std::uint8_t* from, std::size_t count, DType type, float scale,
                       int zero, float* to);

}  // namespace sluice::kernels::cpu
