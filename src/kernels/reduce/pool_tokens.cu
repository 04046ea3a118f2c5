// Token pooling on CUDA: one block for each sequence. Warp w sums tokens w, w + 8, ..., and the
// warps' sums are added in order, so that a sequence has the same bits wherever it lies.
//
// Limit: memory, each hidden value read once.
#include "kernels/common/block_reduce.cuh"
#include "kernels/common/launch.cuh"
#include "kernels/common/live_limit.cuh"
#include "kernels/reduce/pool_tokens.h"

namespace sluice::kernels::cuda {
namespace {

constexpr int kWarps = 8, kBlock = kWarps * 32;
constexpr float kMinNorm = 1e-12f;  // as on the CPU

// The tokens of a sequence that its vector is made of, and what their sum is multiplied by.
struct PooledTokens {
  int begin, end;
  float by = 1;

  __device__ PooledTokens(const PoolTokensCall& call, int sequence) {
    begin = min(max(call.cu_seqlens[sequence], 0), call.tokens);
    end = min(max(call.cu_seqlens[sequence + 1], begin), call.tokens);
    if (call.pooling == TokenPooling::mean && end > begin) by = 1 / static_cast<float>(end - begin);
    if (call.pooling == TokenPooling::first) end = min(end, begin + 1);
    if (call.pooling == TokenPooling::last) begin = max(begin, end - 1);
  }
};

// The sums of kPack neighbouring columns over the tokens of this warp.
template <class T, int kPack>
__device__ void add_tokens(const PoolTokensCall& call, const PooledTokens& tokens, int column,
                           float (&sums)[kPack]) {
  const T* const x = static_cast<const T*>(call.x) + column;
  for (int token = tokens.begin + static_cast<int>(threadIdx.x) / 32; token < tokens.end;
       token += kWarps) {
    const auto pack = *reinterpret_cast<const Pack<T, kPack>*>(x + std::int64_t{token} * call.n);
#pragma unroll
    for (int i = 0; i < kPack; ++i) sums[i] += wide(pack.at[i]);
  }
}

template <class T, int kPack>
__global__ void __launch_bounds__(kBlock)
    pool_tokens_fwd(const PoolTokensCall call, const LiveLimit sequences) {
  constexpr int kColumns = 32 * kPack;
  __shared__ float partial[kWarps][kColumns];
  const int sequence = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  if (sequence >= sequences()) return;
  const PooledTokens tokens(call, sequence);
  float* const out = call.out + std::int64_t{sequence} * call.n;
  float squares = 0;
  for (int first = 0; first < call.n; first += kColumns) {
    float sums[kPack] = {};
    const int column = first + thread % 32 * kPack;
    if (column < call.n) add_tokens<T, kPack>(call, tokens, column, sums);
#pragma unroll
    for (int i = 0; i < kPack; ++i) partial[thread / 32][thread % 32 * kPack + i] = sums[i];
    __syncthreads();
    for (int i = thread; i < kColumns && first + i < call.n; i += kBlock) {
      float sum = 0;
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) sum += partial[warp][i];
      sum *= tokens.by;
      squares = fmaf(sum, sum, squares);
      out[first + i] = sum;
    }
    __syncthreads();
  }
  if (!call.normalize) return;
  const float by = 1 / fmaxf(sqrtf(block_sum(squares)), kMinNorm);
  for (int first = 0; first < call.n; first += kColumns)
    for (int i = thread; i < kColumns && first + i < call.n; i += kBlock) out[first + i] *= by;
}

template <class T>
void run(const PoolTokensCall& call, const LaunchArgs& args) {
  constexpr int kPack = 16 / sizeof(T);
  launch(stream_of(args), {dim3(static_cast<unsigned>(call.sequences)), dim3(kBlock)},
         call.n % kPack == 0 ? pool_tokens_fwd<T, kPack> : pool_tokens_fwd<T, 1>, call,
         LiveLimit(args.live, call.sequences));
}

}  // namespace

void pool_tokens(RealType type, const PoolTokensCall& call, const LaunchArgs& args) {
  if (type == RealType::f32) return run<float>(call, args);
  if (type == RealType::f16) return run<__half>(call, args);
  run<__nv_bfloat16>(call, args);
}

}  // namespace sluice::kernels::cuda
