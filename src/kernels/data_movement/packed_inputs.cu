#include <algorithm>

#include "kernels/common/launch.cuh"
#include "kernels/data_movement/packed_inputs.h"

namespace sluice::kernels::cuda {
namespace {

constexpr int kWarps = 8;

__device__ void store(const TokenInput& input, int at, int value) {
  switch (input.type) {
    case IdType::i32: static_cast<std::int32_t*>(input.to)[at] = value; return;
    case IdType::i64: static_cast<std::int64_t*>(input.to)[at] = value; return;
    case IdType::f32: static_cast<float*>(input.to)[at] = static_cast<float>(value); return;
    case IdType::boolean: static_cast<bool*>(input.to)[at] = value != 0; return;
  }
}

// A batch in device memory, by its header.
struct Batch {
  PackedBatchHeader header;
  const std::int32_t *cu_seqlens, *ids, *types;

  __device__ explicit Batch(const void* at)
      : header(*static_cast<const PackedBatchHeader*>(at)),
        cu_seqlens(reinterpret_cast<const std::int32_t*>(static_cast<const char*>(at) +
                                                         kPackedBatchHeaderBytes)),
        ids(cu_seqlens + header.counts.sequences + 1),
        types(ids + header.counts.tokens) {}

  __device__ int value(TokenInput::Holds what, int token, int position) const {
    switch (what) {
      case TokenInput::Holds::ids: return ids[token];
      case TokenInput::Holds::type_ids: return header.has_types != 0 ? types[token] : 0;
      case TokenInput::Holds::positions: return position;
      case TokenInput::Holds::ones: break;
    }
    return 1;
  }
};

// A warp for each sequence.
__global__ void __launch_bounds__(kWarps * 32) packed_inputs(const PackedInputsCall call) {
  const Batch batch(call.batch);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warps = static_cast<int>(gridDim.x) * kWarps;
  for (int i = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
       i < batch.header.counts.sequences; i += warps) {
    const int begin = batch.cu_seqlens[i], end = batch.cu_seqlens[i + 1];
    for (int token = begin + lane; token < end; token += 32)
      for (int k = 0; k < call.count; ++k)
        store(call.inputs[k], token, batch.value(call.inputs[k].holds, token, token - begin));
  }
}

}  // namespace

void enqueue_packed_inputs(const PackedInputsCall& call, CUstream_st* stream) {
  const int blocks = std::clamp((call.sequences + kWarps - 1) / kWarps, 1, 4 * multiprocessors());
  launch(static_cast<cudaStream_t>(stream),
         {dim3(static_cast<unsigned>(blocks)), dim3(kWarps * 32)}, packed_inputs, call);
}

}  // namespace sluice::kernels::cuda
