// The order in which a specialized graph runs, and where each of its values lies.
#pragma once

#include <vector>

#include "engine/exec/kernel.h"
#include "engine/graph/tensor_type.h"

namespace sluice::engine {

// Where a value lies. Values that only show others in another shape (Reshape, ...) lie where
// those lie.
struct Where {
  enum class Kind { none, constant, input, output, arena };
  Kind kind = Kind::none;
  std::size_t at = 0;  // constant: its ValueId; input, output: which of the graph's; arena: offset
};

struct Step {
  const Node* node;
  const Kernel* kernel;
  std::vector<Where> inputs, outputs;
  std::size_t scratch;  // its offset in the arena
};

// An output of the graph that is an input, a constant or another output: it is copied at the end.
struct LastCopy {
  Where from;
  std::size_t output;
};

struct Schedule {
  std::vector<Step> steps;
  std::vector<LastCopy> copies;
  std::size_t arena = 0;     // bytes
  std::size_t least = 0;     // alive at once at most
  std::size_t unshared = 0;  // the sum of all, were nothing shared
};

// `kernels`: one for each node that is no view, null for views. The graph outlives the result.
Schedule make_schedule(const Graph& graph, std::span<const std::unique_ptr<Kernel>> kernels,
                       std::size_t alignment);

}  // namespace sluice::engine
