// Which operators keep the rows of a batch apart, and where they leave them.
#pragma once

#include <optional>
#include <vector>

#include "engine/graph/tensor_type.h"

namespace sluice::engine {

// Where a value has its rows: `each` elements of that axis belong to one.
struct Along {
  int axis = 0;
  std::int64_t each = 1;
  friend bool operator==(const Along&, const Along&) = default;
};
using MaybeAlong = std::optional<Along>;  // none: it is the same for all rows

// A node of a graph that is specialized for so many rows.
struct RowSite {
  const Graph& graph;
  const Node& node;
  std::int64_t rows;
  std::vector<MaybeAlong> given;  // by input
  std::vector<MaybeAlong> out;    // by output, none yet

  MaybeAlong in(std::size_t i) const { return i < given.size() ? given[i] : MaybeAlong(); }
  Shape shape(std::size_t i) const { return type_of(graph[node.inputs[i]]).shape; }
  Shape made() const { return type_of(graph[node.outputs[0]]).shape; }
  bool only_first() const {
    for (std::size_t i = 1; i < given.size(); ++i)
      if (given[i]) return false;
    return in(0).has_value();
  }
};

// Sets `out`, by rules for the operators that keep rows apart. False where there is no rule: the
// operator mixes them, as far as anybody knows here.
bool follow_rows(RowSite& site);

// Of the sizes [begin, end).
std::int64_t product(const Shape& shape, int begin, int end);

}  // namespace sluice::engine
