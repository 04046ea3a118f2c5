// Products of bytes with weights that are laid out once, on all cores.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compute/workers.h"
#include "kernels/quantized/int8_tile_cpu.h"
#include "tensor/tensor.h"

namespace sluice::kernels::cpu {

// A row of k values: `segments` runs of `depth`.
struct Int8Depth {
  std::int64_t segments, depth;

  // Of a run, once it is filled up.
  std::int64_t words() const;
  std::int64_t row_bytes() const { return segments * words() * 4; }
};

// Rows as the tiles want them, one value after the other.
class Int8RowWriter {
 public:
  // Of signed values 128 more, so that all count from 0.
  Int8RowWriter(std::uint8_t* to, bool has_sign) : to_(to), flip_(has_sign ? 0x80 : 0) {}

  void put(const std::uint8_t* values, std::int64_t count);
  void fill(std::uint8_t value, std::int64_t count);
  void end_run();  // fills up the last word

 private:
  std::uint8_t* to_;
  std::uint8_t flip_;
  int value_bytes_ = int8_shape().value_bytes;
  std::int64_t written_ = 0;  // in this run
};

// Where rows come from.
class Int8Rows {
 public:
  // to[s * count + i] = where run s of row first + i begins; only where rows can be read as they
  // lie.
  virtual void point(std::int64_t first, std::int64_t count, const std::uint8_t** to) const = 0;
  // Writes one row.
  virtual void write(std::int64_t row, Int8RowWriter& to) const = 0;

 protected:
  ~Int8Rows() = default;
};

// Weights k x n in panels, with the sums that x begins with.
struct Int8Weights {
  Int8Depth depth;
  std::int64_t n;
  Tensor panels;
  std::vector<std::int32_t> start;  // minus what x's zero adds to each column

  std::int64_t panel_bytes() const;  // of one
  std::size_t bytes() const;         // of all
};

// `at(s, d, column)` is the weight of value d of run s. `zero` counts as x does in rows.
using Int8At = std::function<std::int8_t(std::int64_t s, std::int64_t d, std::int64_t column)>;
Tensor int8_panels(const Int8Depth& depth, std::int64_t n, const Int8At& at);
std::vector<std::int32_t> int8_start(const Int8Depth& depth, std::int64_t n, int zero,
                                     const Int8At& at);
std::string int8_way(std::string_view of);  // what Context::packed() is told

struct Int8Product {
  std::int64_t m;
  const Int8Weights* weights;
  const Int8Finish* finish;  // scale and bias as long as the panels
  const void* residual;
  void* c;
  bool as_they_lie;  // rows are pointed to; written otherwise
  bool has_sign;     // of x
  std::uint8_t* scratch;
};

std::size_t int8_scratch(const compute::Workers& workers, const Int8Depth& depth, bool as_they_lie);
void multiply(compute::Workers& workers, const Int8Product& product, const Int8Rows& rows);

// n values (null: zeros) with zeros up to the end of the last panel.
std::vector<float> int8_columns(std::int64_t n, const float* values);

}  // namespace sluice::kernels::cpu
