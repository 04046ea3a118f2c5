// Runs a node without a CUDA kernel on the CPU, as a step of a CUDA program.
#pragma once

#include <vector>

#include "engine/exec/cpu/backend.h"
#include "engine/exec/kernel.h"

namespace sluice::engine::cuda {

class HostKernel final : public Kernel {
 public:
  HostKernel(const Graph& graph, const Node& node, cpu::Context& context);

  // Waits for the stream, unlike a device kernel. Constants lie on the host, everything else on
  // the device; `scratch` is pinned memory of host_bytes().
  void run(const KernelArgs& args) const override;
  std::string_view name() const override { return name_; }

  std::size_t host_bytes() const noexcept { return bytes_; }
  std::size_t copied() const noexcept { return copied_; }  // bytes, both directions, each run

 private:
  struct StagingBuffer {
    std::size_t offset = 0, bytes = 0;
    bool copied = false;  // false: omitted, or a constant that is read in place
  };
  StagingBuffer stage(const Graph& graph, ValueId id);

  std::unique_ptr<Kernel> kernel_;
  std::string name_;
  std::vector<StagingBuffer> inputs_, outputs_;
  std::size_t scratch_ = 0, bytes_ = 0, copied_ = 0;
};

}  // namespace sluice::engine::cuda
