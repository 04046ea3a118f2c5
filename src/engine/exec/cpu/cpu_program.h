// A graph for one set of input shapes, compiled for the CPU.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/exec/cpu/backend.h"
#include "engine/exec/program.h"

namespace sluice::engine {

// Each run takes an arena of the context.
class CpuProgram final : public Program {
 public:
  // `graph` is specialized and optimized.
  CpuProgram(Graph graph, std::shared_ptr<cpu::Context> context);

  const Graph& graph() const noexcept override { return graph_; }
  const Schedule& schedule() const noexcept override { return schedule_; }
  std::vector<Tensor> run(std::span<const Tensor> inputs,
                          std::vector<StepTime>* times = nullptr) const override;
  std::size_t trim() const noexcept override;

 private:
  Graph graph_;
  std::shared_ptr<cpu::Context> context_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  Schedule schedule_;
};

}  // namespace sluice::engine
