// Describes a model: operators, parameters, FLOPs, memory, and the kernel of each node.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compute/workers.h"
#include "engine/exec/gpu.h"
#include "engine/exec/program.h"
#include "engine/passes/passes.h"

namespace sluice::engine {

struct OperatorUse {
  std::string op, domain;
  int nodes = 0;
  double flops = 0;       // of all nodes, if shapes are known
  bool supported = true;  // whether this version of the operator is implemented
};

struct ParameterUse {
  DType dtype;
  std::size_t tensors = 0, elements = 0, bytes = 0;
};

// The device and kernel of one node of the compiled graph.
struct NodePlacement {
  std::string node, op;
  std::string device;  // "cpu" or "cuda"
  std::string kernel;  // "operator" if there is no specialized kernel
  double flops;
};

// The nodes and memory of a program.
struct ProgramUse {
  std::size_t nodes = 0;
  std::size_t weights = 0;                // bytes of constants
  std::size_t unshared = 0;               // bytes of all values without sharing
  std::size_t arena = 0;                  // bytes of the planned memory
  std::size_t min_arena = 0;              // peak bytes alive at once: the lower bound of any plan
  std::vector<NodePlacement> placements;  // in execution order
  std::size_t copied = 0;  // bytes copied to the CPU and back, for nodes without a GPU kernel

  // The arena relative to its lower bound, at least 1.
  double arena_overhead() const;
};
ProgramUse use_of(const Program& program);

struct CompiledUse : ProgramUse {
  std::vector<TensorType> inputs;
  double flops = 0;  // of the graph before fusion
  std::vector<PassReport> passes;
};

struct Inspection {
  std::size_t nodes = 0;                 // including subgraphs
  std::vector<OperatorUse> operators;    // most used first; including subgraphs
  std::vector<ParameterUse> parameters;  // largest first
  std::optional<CompiledUse> compiled;
  std::string why_not;  // the reason if it cannot be compiled
};

// `inputs`: the types to compile for. With `cuda`, compiles for that GPU with `precision` instead
// of f32; nodes without a GPU kernel run on the CPU.
Inspection inspect(const Graph& graph, std::span<const TensorType> inputs,
                   compute::Workers& workers, const std::shared_ptr<cuda::Context>& cuda = nullptr,
                   DType precision = DType::f32);

}  // namespace sluice::engine
