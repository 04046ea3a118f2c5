// Rules for operators that keep the items of a batch independent, and the resulting batch axis.
#pragma once

#include <optional>
#include <vector>

#include "engine/graph/tensor_type.h"

namespace sluice::engine {

// The batch axis of a value; `each` consecutive elements of the axis belong to one batch item.
struct BatchAxis {
  int axis = 0;
  std::int64_t each = 1;
  friend bool operator==(const BatchAxis&, const BatchAxis&) = default;
};
using MaybeBatchAxis = std::optional<BatchAxis>;  // none: the value is the same for all batch items

// A node of a graph that is specialized for a batch of `batch` items.
struct BatchAxisNode {
  const Graph& graph;
  const Node& node;
  std::int64_t batch;
  std::vector<MaybeBatchAxis> given;  // by input
  std::vector<MaybeBatchAxis> out;    // by output, to be set

  MaybeBatchAxis in(std::size_t i) const { return i < given.size() ? given[i] : MaybeBatchAxis(); }
  Shape shape(std::size_t i) const { return type_of(graph[node.inputs[i]]).shape; }
  Shape made() const { return type_of(graph[node.outputs[0]]).shape; }
  bool only_first() const {
    for (std::size_t i = 1; i < given.size(); ++i)
      if (given[i]) return false;
    return in(0).has_value();
  }
};

// Sets `out` by the rule of the operator. False if there is no rule, so the operator may mix rows.
bool propagate_batch_axis(BatchAxisNode& site);

// The number of elements of dimensions [begin, end).
std::int64_t size_of_axes(const Shape& shape, int begin, int end);

}  // namespace sluice::engine
