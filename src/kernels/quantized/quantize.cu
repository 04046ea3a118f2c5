#include "kernels/common/grid.cuh"
#include "kernels/common/launch.cuh"
#include "kernels/gemm/epilogue.cuh"
#include "kernels/quantized/quantize.h"

namespace sluice::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// ---- epilogue ------------------------------------------------------------------------------

// Each thread finishes N columns. Limit: memory.
template <class Sum, int N>
__global__ void __launch_bounds__(kThreads) quant_epilogue(GemmEpilogue f, long long packs) {
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= packs) return;
  const int a_row = f.n / N;
  const long long row = i / a_row;
  const int column = static_cast<int>(i % a_row) * N;
  const auto sums = *reinterpret_cast<const Pack<Sum, N>*>(static_cast<const Sum*>(f.sums) +
                                                           row * f.sum_stride + column);
  PackedValues<N, 1> own{.at = i, .step = 0, .count = 1};
  ColumnParams<Sum, N>(f, column).apply(f, own, [&](int) { return sums; });
}

template <class Sum>
void enqueue_sums(const GemmEpilogue& f, cudaStream_t stream) {
  if (f.rows * f.n == 0) return;
  if (f.n % 4 == 0 && f.sum_stride % 4 == 0)
    launch(stream, one_each(f.rows * f.n / 4, kThreads), quant_epilogue<Sum, 4>, f,
           f.rows * f.n / 4);
  else
    launch(stream, one_each(f.rows * f.n, kThreads), quant_epilogue<Sum, 1>, f, f.rows * f.n);
}

// ---- quantize ------------------------------------------------------------------------------

// Each thread quantizes N values. Limit: memory.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) quantize(QuantizeCall s, long long packs) {
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= packs) return;
  PackedValues<N, 1> pack{.at = i, .step = 0, .count = 1};
  pack.template load_as<T>(s.x, [](T x) { return wide(x); });
  pack.store(s.y, s.to, s.scale, s.zero);
}

template <class T>
void enqueue_from(const QuantizeCall& s, cudaStream_t stream) {
  constexpr int kWide = 16 / sizeof(T);
  if (s.count == 0) return;
  if (s.count % kWide == 0)
    launch(stream, one_each(s.count / kWide, kThreads), quantize<T, kWide>, s,
           static_cast<long long>(s.count / kWide));
  else
    launch(stream, one_each(s.count, kThreads), quantize<T, 1>, s, static_cast<long long>(s.count));
}

__global__ void __launch_bounds__(kThreads)
    dequantize_fp8(const unsigned char* x, float* y, long long count, float scale) {
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) y[i] = __half2float(__half(__nv_cvt_fp8_to_halfraw(x[i], __NV_E4M3))) * scale;
}

}  // namespace

void enqueue_gemm_epilogue(const GemmEpilogue& epilogue, CUstream_st* stream) {
  return epilogue.int32_sums ? enqueue_sums<int>(epilogue, stream)
                             : enqueue_sums<float>(epilogue, stream);
}

void enqueue_quantize(const QuantizeCall& call, CUstream_st* stream) {
  switch (call.from) {
    case GemmType::f16: return enqueue_from<__half>(call, stream);
    case GemmType::bf16: return enqueue_from<__nv_bfloat16>(call, stream);
    default: return enqueue_from<float>(call, stream);
  }
}

void enqueue_dequantize_fp8(const void* x, float* y, std::int64_t count, float scale,
                            CUstream_st* stream) {
  if (count > 0)
    launch(stream, one_each(count, kThreads), dequantize_fp8, static_cast<const unsigned char*>(x),
           y, static_cast<long long>(count), scale);
}

}  // namespace sluice::kernels::cuda
