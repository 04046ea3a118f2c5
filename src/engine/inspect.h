// What a model is and what it costs: operators, parameters, arithmetic, memory, and what runs
// each of its nodes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compute/workers.h"
#include "engine/exec/cuda/cuda_program.h"
#include "engine/passes/passes.h"

namespace sluice::engine {

struct OperatorUse {
  std::string op, domain;
  int nodes = 0;
  double flops = 0;       // of all of them, where shapes are known
  bool supported = true;  // an operator here runs it, in this version
};

struct ParameterUse {
  DType dtype;
  std::size_t tensors = 0, elements = 0, bytes = 0;
};

// How one node of the compiled graph runs.
struct NodePlace {
  std::string node, op;
  std::string device;  // "cpu" or "cuda"
  std::string kernel;  // "operator" where no kernel was made for it
  double flops;
};

// What a program runs and takes.
struct ProgramUse {
  std::size_t nodes = 0;
  std::size_t weights = 0;        // bytes of constants
  std::size_t unshared = 0;       // bytes of all values, were nothing shared
  std::size_t arena = 0;          // bytes of the memory they lie in
  std::size_t least = 0;          // bytes alive at once: no placement takes less
  std::vector<NodePlace> places;  // in the order they run
  std::size_t copied = 0;         // bytes to the CPU and back, for nodes the GPU lacks

  // How much more the arena is than it must be, at least 1.
  double over_least() const;
};
ProgramUse use_of(const Program& program);

struct CompiledUse : ProgramUse {
  std::vector<TensorType> inputs;
  double flops = 0;  // of the graph before it was fused
  std::vector<PassReport> passes;
};

struct Inspection {
  std::size_t nodes = 0;                 // with those in bodies
  std::vector<OperatorUse> operators;    // the most used first; with those in bodies
  std::vector<ParameterUse> parameters;  // the most bytes first
  std::optional<CompiledUse> compiled;
  std::string why_not;  // compiled, where it is not
};

// `inputs`: the types to compile it for. With `cuda` it is compiled for that GPU, where nodes it
// has no kernel for run on the CPU; what is f32 computes in `precision` there.
Inspection inspect(const Graph& graph, std::span<const TensorType> inputs,
                   compute::Workers& workers, const std::shared_ptr<cuda::Context>& cuda = nullptr,
                   DType precision = DType::f32);

}  // namespace sluice::engine
