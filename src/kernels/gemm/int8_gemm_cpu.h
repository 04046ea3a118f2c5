// int8 GEMM on all CPU cores, with weights that are packed to panels once.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compute/workers.h"
#include "kernels/gemm/int8_tile_cpu.h"
#include "tensor/tensor.h"

namespace sluice::kernels::cpu {

// A row of k values, as `segments` runs of `depth` values.
struct Int8Depth {
  std::int64_t segments, depth;

  // Words of a run, padded.
  std::int64_t words() const;
  std::int64_t row_bytes() const { return segments * words() * 4; }
};

// Writes rows in the layout of the tile kernel, one value after the other.
class Int8RowWriter {
 public:
  // Signed values are offset by 128, so that all are unsigned.
  Int8RowWriter(std::uint8_t* to, bool has_sign) : to_(to), flip_(has_sign ? 0x80 : 0) {}

  void put(const std::uint8_t* values, std::int64_t count);
  void fill(std::uint8_t value, std::int64_t count);
  void end_run();  // pads the last word

 private:
  std::uint8_t* to_;
  std::uint8_t flip_;
  int value_bytes_ = int8_shape().value_bytes;
  std::int64_t written_ = 0;  // in this run
};

// The source of the rows of A.
class Int8Rows {
 public:
  // Sets to[s * count + i] to the begin of run s of row first + i. Called with in_place_rows only.
  virtual void point(std::int64_t first, std::int64_t count, const std::uint8_t** to) const = 0;
  // Writes one row.
  virtual void write(std::int64_t row, Int8RowWriter& to) const = 0;

 protected:
  ~Int8Rows() = default;
};

// Weights k x n in panels, with their zero point compensation.
struct Int8Weights {
  Int8Depth depth;
  std::int64_t n;
  Tensor panels;
  std::vector<std::int32_t> compensation;  // the accumulators begin with it

  std::int64_t panel_bytes() const;  // of one panel
  std::size_t bytes() const;         // of all panels
};

// `at(s, d, column)` is the weight of value d of run s. `zero` is x's zero point as rows are
// written.
using Int8At = std::function<std::int8_t(std::int64_t s, std::int64_t d, std::int64_t column)>;
Tensor int8_panels(const Int8Depth& depth, std::int64_t n, const Int8At& at);
std::vector<std::int32_t> int8_compensation(const Int8Depth& depth, std::int64_t n, int zero,
                                            const Int8At& at);
std::string int8_panel_format(std::string_view layout);  // key for Context::packed()

struct Int8Gemm {
  std::int64_t m;
  const Int8Weights* weights;
  const Int8Epilogue* epilogue;  // scale and bias are padded to whole panels
  const void* residual;
  void* c;
  bool in_place_rows;  // rows are read where they are; otherwise they are copied
  bool has_sign;       // x is i8
  std::uint8_t* scratch;
};

std::size_t int8_scratch(const compute::Workers& workers, const Int8Depth& depth,
                         bool in_place_rows);
void int8_gemm(compute::Workers& workers, const Int8Gemm& gemm, const Int8Rows& rows);

// n values (null: zeros), padded with zeros to the end of the last panel.
std::vector<float> int8_columns(std::int64_t n, const float* values);

}  // namespace sluice::kernels::cpu
