// Flash attention for sm_90a: persistent and warp-specialized. A producer warp loads queries, keys
// and values of a head of a sequence with TMA; warpgroups take its tiles of 64 queries in turn and
// go over the keys in blocks of 64. Both GEMMs are wgmma: the queries and the softmax weights
// are A operands in registers, keys and values B operands in shared memory, where they stay until
// all tiles have used them, while those of the next heads arrive. A warpgroup that is done with its
// tiles of a head goes on to the next, unless the sequence has more keys than fit.
//
// Limit: the exponentials. A block of 64 x 64 scores takes 256 cycles of them, and as many on the
// tensor cores for heads of size 64, half of that for 32.
#include <algorithm>
#include <limits>

#include "kernels/attention/flash_attention_sm90.h"
#include "kernels/attention/flash_consumer_sm90.cuh"
#include "kernels/attention/flash_producer_sm90.cuh"
#include "kernels/common/launch_dependent.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/tensor_map.h"
#include "kernels/ptx/wgmma.cuh"

namespace sluice::kernels::cuda {
namespace {

// ---- kernel ----------------------------------------------------------------------------------

template <class T, int kHeadSize, bool kMasked>
__global__ void __launch_bounds__(FlashThreads<kHeadSize>::kThreads, 1)
    flash_attention_fwd_sm90(const __grid_constant__ FlashParams p) {
  using Threads = FlashThreads<kHeadSize>;
  const FlashBarriers<kHeadSize> barriers{shared_address(flash_memory()) +
                                          FlashShared<kHeadSize>::kBarriersAt};
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) barriers.init(kMasked ? 32 : 1);
  __syncthreads();
  let_next_kernel_start();
  wait_for_previous_kernels();
  const AttentionCall call = live_call(p.call);
  if (thread >= Threads::kConsumers) {
    keep_registers<Threads::kProducerRegisters>();
    if (thread < Threads::kConsumers + 32)
      FlashProducer<T, kHeadSize, kMasked>(p, call, barriers).run();
  } else {
    take_registers<Threads::kRegisters>();
    if (call.cu_seqlens != nullptr)
      for (int head = static_cast<int>(blockIdx.x); head < call.heads;
           head += static_cast<int>(gridDim.x))
        clear_padding<T>(call, head, thread, Threads::kConsumers);
    FlashConsumer<T, kHeadSize, kMasked>(call, barriers).run();
  }
}

// ---- launch ----------------------------------------------------------------------------------

template <class T, int kHeadSize, bool kMasked>
void enqueue(const AttentionCall& call, const LaunchArgs& args) {
  const bool varlen = call.cu_seqlens != nullptr;
  const std::int64_t q_rows = varlen ? call.tokens : std::int64_t{call.batch} * call.queries;
  const std::int64_t k_rows = varlen ? call.tokens : std::int64_t{call.batch} * call.keys;
  const std::int64_t bytes = std::int64_t{call.heads} * kHeadSize * 2;
  const auto map = [&](const void* x, std::int64_t rows, std::int64_t stride) {
    return tensor_map_2d(x, rows, bytes, {kHeadSize * 2, kTileRows}, stride * 2);
  };
  const FlashParams p{.q = map(call.q, q_rows, call.q_row),
                      .k = map(call.k, k_rows, call.k_row),
                      .v = map(call.v, k_rows, call.v_row),
                      .call = call,
                      .queue = args.queue};
  launch_dependent(
      stream_of(args),
      {dim3(static_cast<unsigned>(multiprocessors())), dim3(FlashThreads<kHeadSize>::kThreads),
       static_cast<std::size_t>(FlashShared<kHeadSize>::kBytes)},
      true, flash_attention_fwd_sm90<T, kHeadSize, kMasked>, p);
}

// Calls body.template operator()<T, kHeadSize>().
template <class Body>
void with_type(RealType type, int head_size, const Body& body) {
  const bool is_bf16 = type == RealType::bf16;
  if (head_size == 32)
    return is_bf16 ? body.template operator()<__nv_bfloat16, 32>()
                   : body.template operator()<__half, 32>();
  is_bf16 ? body.template operator()<__nv_bfloat16, 64>() : body.template operator()<__half, 64>();
}

}  // namespace

bool flash_attention_sm90_supports(const AttentionCall& call) {
  constexpr std::int64_t kMax = std::numeric_limits<int>::max();
  const std::int64_t batch = call.batch, tiles = (call.queries + kTileRows - 1) / kTileRows;
  const bool is_varlen = call.tokens > 0;
  const bool is_dense = call.q_batch == call.q_row * call.queries &&
                        call.k_batch == call.k_row * call.keys &&
                        call.v_batch == call.v_row * call.keys;
  const bool one_mask = call.mask_head == 0 && call.mask_query == 0 && call.keys <= kMaxMaskedKeys;
  return (call.head_size == 32 || call.head_size == 64) && (is_varlen || is_dense) &&
         call.scale > 0 && (one_mask || !call.has_mask) &&
         batch * call.heads <= kMax / std::max<std::int64_t>(tiles, 1) &&
         (is_varlen || batch * std::max(call.queries, call.keys) <= kMax);
}

void prepare_flash_attention_sm90(RealType type, int size) {
  with_type(type, size, [&]<class T, int kHeadSize>() {
    for (const auto kernel : {flash_attention_fwd_sm90<T, kHeadSize, false>,
                              flash_attention_fwd_sm90<T, kHeadSize, true>})
      device::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         FlashShared<kHeadSize>::kBytes));
  });
}

void flash_attention_sm90(RealType type, const AttentionCall& call, const LaunchArgs& args) {
  with_type(type, call.head_size, [&]<class T, int kHeadSize>() {
    if (call.mask == nullptr) return enqueue<T, kHeadSize, false>(call, args);
    enqueue<T, kHeadSize, true>(call, args);
  });
}

}  // namespace sluice::kernels::cuda
