#include "base/error.h"
#include "kernels/common/grid.cuh"
#include "kernels/gemm/pack_weights.h"

namespace sluice::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// One thread for each element of the result. Runs once for each weight.
template <class T>
__global__ void __launch_bounds__(kThreads)
    transpose_weights(const T* from, T* to, long long count, long long rows, long long columns) {
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const long long row = i % rows, column = i / rows % columns, batch = i / (rows * columns);
  to[i] = from[(batch * rows + row) * columns + column];
}

// One thread for each element of the result. Limit: memory.
template <class T>
__global__ void __launch_bounds__(kThreads)
    pad_columns(const T* from, T* to, long long count, unsigned from_columns, unsigned to_columns) {
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const long long row = i / to_columns;
  const auto column = static_cast<unsigned>(i % to_columns);
  to[i] = column < from_columns ? from[row * from_columns + column] : T{};
}

template <class T>
void enqueue_pad_columns_as(const void* from, void* to, long long rows, long long from_columns,
                            long long to_columns, cudaStream_t stream) {
  const long long count = rows * to_columns;
  launch(stream, one_each(count, kThreads), pad_columns<T>, static_cast<const T*>(from),
         static_cast<T*>(to), count, static_cast<unsigned>(from_columns),
         static_cast<unsigned>(to_columns));
}

template <class T>
void enqueue_transpose_as(const void* from, void* to, long long count, long long rows,
                          long long columns, cudaStream_t stream) {
  launch(stream, one_each(count, kThreads), transpose_weights<T>, static_cast<const T*>(from),
         static_cast<T*>(to), count, rows, columns);
}

}  // namespace

void enqueue_transpose(const void* from, void* to, std::int64_t batch, std::int64_t rows,
                       std::int64_t columns, std::size_t element_bytes, CUstream_st* stream) {
  const std::int64_t count = batch * rows * columns;
  if (count == 0) return;
  switch (element_bytes) {
    case 1: return enqueue_transpose_as<std::uint8_t>(from, to, count, rows, columns, stream);
    case 2: return enqueue_transpose_as<std::uint16_t>(from, to, count, rows, columns, stream);
    case 4: return enqueue_transpose_as<std::uint32_t>(from, to, count, rows, columns, stream);
    case 8: return enqueue_transpose_as<std::uint64_t>(from, to, count, rows, columns, stream);
    default: throw Error(Code::internal, "transpose: element size is not supported");
  }
}

void enqueue_pad_columns(const void* from, void* to, std::int64_t rows, std::int64_t from_columns,
                         std::int64_t to_columns, std::size_t element_bytes, CUstream_st* stream) {
  if (rows == 0) return;
  switch (element_bytes) {
    case 2:
      return enqueue_pad_columns_as<std::uint16_t>(from, to, rows, from_columns, to_columns,
                                                   stream);
    case 4:
      return enqueue_pad_columns_as<std::uint32_t>(from, to, rows, from_columns, to_columns,
                                                   stream);
    default: throw Error(Code::internal, "column padding: element size is not supported");
  }
}

}  // namespace sluice::kernels::cuda
