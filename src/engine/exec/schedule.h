// The execution order of a specialized graph and the memory location of each of its values.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "engine/graph/tensor_type.h"

namespace sluice::engine {

class Kernel;

// The memory location of a value. Views (Reshape, ...) share the location of what they view.
struct ValueLocation {
  enum class Kind { none, constant, input, output, arena };
  Kind kind = Kind::none;
  std::size_t at = 0;  // constant: ValueId; input, output: the graph's index; arena: offset
};

struct ScheduleStep {
  const Node* node;
  const Kernel* kernel;
  std::vector<ValueLocation> inputs, outputs;
  std::size_t scratch;  // offset of its workspace in the arena
};

// A graph output that is an input, a constant or another output: it is copied at the end.
struct OutputCopy {
  ValueLocation from;
  std::size_t output;
};

struct Schedule {
  std::vector<ScheduleStep> steps;
  std::vector<OutputCopy> copies;
  std::size_t arena = 0;      // bytes
  std::size_t peak_live = 0;  // maximum bytes alive at once
  std::size_t unshared = 0;   // bytes if no memory were shared
};

// `kernels`: one for each node, null for views. The graph outlives the result.
Schedule make_schedule(const Graph& graph, std::span<const std::unique_ptr<Kernel>> kernels,
                       std::size_t alignment);

}  // namespace sluice::engine
