// Weights in the order that kernels read them.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace sluice::kernels::cuda {

// [batch, rows, columns] to [batch, columns, rows], of elements of 1, 2, 4 or 8 bytes.
void enqueue_transpose(const void* from, void* to, std::int64_t batch, std::int64_t rows,
                       std::int64_t columns, std::size_t element_bytes, CUstream_st* stream);

// [rows, from_columns] to [rows, to_columns], which is more; the rest is 0. The same elements.
void enqueue_widen(const void* from, void* to, std::int64_t rows, std::int64_t from_columns,
                   std::int64_t to_columns, std::size_t element_bytes, CUstream_st* stream);

}  // namespace sluice::kernels::cuda
