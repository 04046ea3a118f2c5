// GEMM on all CPU cores in f32, with weights that are packed to panels once, and with an epilogue:
// linear layers, convolutions, RNNs. The rows of A may be anywhere. Its micro-kernel: gemm_tile.h.
// gemm.h multiplies what is not known ahead.
#pragma once

#include <hwy/aligned_allocator.h>

#include <cstdint>
#include <string>

#include "compute/workers.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tile_cpu.h"
#include "tensor/tensor.h"

namespace sluice::kernels::cpu {

using Floats = hwy::AlignedFreeUniquePtr<float[]>;

// Packing of a k x n matrix to panels of tile_shape().columns columns.
std::int64_t panel_columns(std::int64_t n);  // n, padded to whole panels
inline std::int64_t panel_values(std::int64_t k, std::int64_t n) { return k * panel_columns(n); }
void pack(std::int64_t k, std::int64_t n, MatrixView<float> from, float* to);
Tensor panels_of(std::int64_t k, std::int64_t n, MatrixView<float> from);
std::string panel_format(std::string_view layout);  // key for Context::packed()

// n values, padded with zeros to whole panels; all zeros where `bias` is null.
Floats packed_bias(std::int64_t n, const float* bias);

// The source of the rows of A; each row is `segments` runs of `depth` values.
class RowSource {
 public:
  // Sets to[s * count + i] to the begin of run s of row first + i.
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

struct PackedGemm {
  std::int64_t m, n;
  std::int64_t segments, depth;  // k is segments * depth
  const float *panels, *bias;
  float* c;
  std::int64_t c_row;
  const float* residual = nullptr;  // added before the epilogue, may be c itself
  const float* last = nullptr;      // added after it, never c
  ActivationParams activation{};
};

// On the calling thread, or on all cores: both give the same bits.
void packed_gemm(const PackedGemm& gemm, const RowSource& rows);
void packed_gemm(compute::Workers& workers, const PackedGemm& gemm, const RowSource& rows);

}  // namespace sluice::kernels::cpu
