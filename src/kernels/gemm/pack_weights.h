// Layout changes of weights and images before a GEMM or convolution. Throws on other element sizes.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace sluice::kernels::cuda {

// Transposes [batch, rows, columns] to [batch, columns, rows]; elements have 1, 2, 4 or 8 bytes.
void enqueue_transpose(const void* from, void* to, std::int64_t batch, std::int64_t rows,
                       std::int64_t columns, std::size_t element_bytes, CUstream_st* stream);

// Pads [rows, from_columns] with zeros to [rows, to_columns]; elements have 2 or 4 bytes.
void enqueue_pad_columns(const void* from, void* to, std::int64_t rows, std::int64_t from_columns,
                         std::int64_t to_columns, std::size_t element_bytes, CUstream_st* stream);

}  // namespace sluice::kernels::cuda
