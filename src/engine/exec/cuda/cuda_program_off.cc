// A build without CUDA: no GPU runs a graph.
#include "base/error.h"
#include "engine/exec/cuda/bucket_program.h"
#include "engine/exec/cuda/cuda_program.h"
#include "engine/exec/gpu.h"

namespace sluice::engine {
namespace {

[[noreturn]] void no_cuda() {
  throw Error(Code::unavailable, "this build has no CUDA; configure with --preset cuda");
}

}  // namespace

std::shared_ptr<cuda::Context> make_cuda_context(cuda::Options) { no_cuda(); }

CudaStamp cuda_stamp(cuda::Context&) { no_cuda(); }

cuda::Memory cuda::Context::allocate(std::size_t) const { no_cuda(); }

cuda::ConstMemory cuda::Context::constant(const Tensor&) { no_cuda(); }

std::unique_ptr<CudaProgram> make_cuda_program(Graph, std::shared_ptr<cuda::Context>,
                                               std::shared_ptr<cpu::Context>) {
  no_cuda();
}

std::shared_ptr<cuda::StreamSlotPool> make_cuda_slots(std::shared_ptr<cuda::Context>, std::size_t) {
  no_cuda();
}
std::size_t free_slot_bytes(const cuda::StreamSlotPool&) { return 0; }
std::size_t trim_slots(cuda::StreamSlotPool&) noexcept { return 0; }

std::shared_ptr<const BucketProgram> make_bucket_program(BucketGraph,
                                                         std::shared_ptr<cuda::StreamSlotPool>,
                                                         const std::shared_ptr<cpu::Context>&) {
  no_cuda();
}

std::unique_ptr<Gpu> make_cuda_gpu(std::shared_ptr<cuda::Context>) { no_cuda(); }

}  // namespace sluice::engine
