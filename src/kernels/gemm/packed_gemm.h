// Products with weights that are laid out once: rows of any origin times panels, on all cores.
#pragma once

#include <hwy/aligned_allocator.h>

#include <cstdint>
#include <string>

#include "compute/workers.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_tile.h"
#include "tensor/tensor.h"

namespace sluice::kernels::cpu {

using Floats = hwy::AlignedFreeUniquePtr<float[]>;

// A matrix k x n as panels of tile_shape().columns.
std::int64_t panel_columns(std::int64_t n);  // n, rounded up
inline std::int64_t panel_values(std::int64_t k, std::int64_t n) { return k * panel_columns(n); }
void pack(std::int64_t k, std::int64_t n, MatrixView<float> from, float* to);
Tensor panels_of(std::int64_t k, std::int64_t n, MatrixView<float> from);
std::string panel_way(std::string_view of);  // what Context::packed() is told: with the width

// n values, with zeros up to the end of the last panel; all zeros where `bias` is null.
Floats packed_bias(std::int64_t n, const float* bias);

// Where rows lie: each is `segments` runs of `depth` values.
class RowSource {
 public:
  // to[s * count + i] = where run s of row first + i begins
  virtual void point(std::int64_t first, std::int64_t count, const float** to) const = 0;

 protected:
  ~RowSource() = default;
};

class MatrixRows final : public RowSource {
 public:
  MatrixRows(const float* data, std::int64_t row) : data_(data), row_(row) {}
  void point(std::int64_t first, std::int64_t count, const float** to) const override {
    for (std::int64_t i = 0; i < count; ++i) to[i] = data_ + (first + i) * row_;
  }

 private:
  const float* data_;
  std::int64_t row_;
};

struct Product {
  std::int64_t m, n;
  std::int64_t segments, depth;  // k is segments * depth
  const float *panels, *bias;
  float* c;
  std::int64_t c_row;
  const float* residual = nullptr;  // added before the epilogue, may be c itself
  const float* last = nullptr;      // added after it, never c
  Epilogue epilogue{};
};

// Alone, or shared out over all cores: the same bits.
void multiply(const Product& product, const RowSource& rows);
void multiply(compute::Workers& workers, const Product& product, const RowSource& rows);

}  // namespace sluice::kernels::cpu
