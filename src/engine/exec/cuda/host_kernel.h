// A node that CUDA has no kernel for, among those it has one for: it runs on the CPU.
#pragma once

#include <vector>

#include "engine/exec/cpu/backend.h"
#include "engine/exec/kernel.h"

namespace sluice::engine::cuda {

class HostStep final : public Kernel {
 public:
  HostStep(const Graph& graph, const Node& node, cpu::Context& context);

  // Unlike a kernel of the device it waits. Constants lie on the host, all else on the device;
  // `scratch` is pinned memory of host_bytes().
  void run(const KernelArgs& args) const override;
  std::string_view what() const override { return what_; }

  std::size_t host_bytes() const noexcept { return bytes_; }
  std::size_t copied() const noexcept { return copied_; }  // there and back in each run

 private:
  struct Place {
    std::size_t offset = 0, bytes = 0;
    bool copied = false;  // else left out, or a constant that is read where it lies
  };
  Place place(const Graph& graph, ValueId id);

  std::unique_ptr<Kernel> kernel_;
  std::string what_;
  std::vector<Place> inputs_, outputs_;
  std::size_t scratch_ = 0, bytes_ = 0, copied_ = 0;
};

}  // namespace sluice::engine::cuda
