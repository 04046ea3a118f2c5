#include "engine/exec/cuda/host_kernel.h"

#include <cuda_runtime_api.h>

#include "device/cuda/check.h"
#include "memory/alloc/allocator.h"

namespace sluice::engine::cuda {

HostKernel::HostKernel(const Graph& graph, const Node& node, cpu::Context& context)
    : kernel_(cpu::make_kernel(graph, node, context)), name_("CPU: ") {
  name_ += kernel_->name();
  for (const ValueId id : node.inputs) inputs_.push_back(stage(graph, id));
  for (const ValueId id : node.outputs) outputs_.push_back(stage(graph, id));
  scratch_ = bytes_;
  bytes_ += kernel_->scratch();
}

HostKernel::StagingBuffer HostKernel::stage(const Graph& graph, ValueId id) {
  if (id == kNoValue || graph[id].constant) return {};
  const std::size_t bytes = type_of(graph[id]).bytes();
  const StagingBuffer made{bytes_, bytes, true};
  bytes_ += memory::round_up(bytes, memory::kAlignment);
  copied_ += bytes;
  return made;
}

void HostKernel::run(const KernelArgs& args) const {
  auto* const staging = static_cast<std::byte*>(args.scratch);
  auto* const stream = static_cast<cudaStream_t>(args.stream);
  const auto copy = [&](void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) device::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
  };
  std::vector<void*> from(inputs_.size()), to(outputs_.size());
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const StagingBuffer& input = inputs_[i];
    from[i] = input.copied ? staging + input.offset : args.inputs[i];
    if (input.copied) copy(from[i], args.inputs[i], input.bytes);
  }
  device::check(cudaStreamSynchronize(stream));
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    to[i] = args.outputs[i] == nullptr ? nullptr : staging + outputs_[i].offset;
  kernel_->run({from, to, staging + scratch_, nullptr});
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    if (to[i] != nullptr) copy(args.outputs[i], to[i], outputs_[i].bytes);
}

}  // namespace sluice::engine::cuda
