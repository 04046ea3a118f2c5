#include "engine/passes/padding_mask.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>

#include "engine/ops/convert.h"
#include "engine/ops/interpreter.h"
#include "engine/passes/match.h"

namespace sluice::engine {
namespace {

// These operators never move an element to another token's position.
constexpr std::string_view kPositionPreserving[] = {
    "Add", "And", "Cast", "Div", "Equal", "Expand",  "Greater", "Identity",  "Less",  "Max",
    "Min", "Mul", "Neg",  "Not", "Or",    "Reshape", "Sub",     "Unsqueeze", "Where",
};
constexpr float kMaskedScore = -9000;  // scores below it have zero weight after softmax

// The nodes a value depends on, in topological order; empty if one of them is another operator.
std::vector<NodeId> producers_of(const GraphEditor& edit, ValueId value) {
  std::set<NodeId> found;
  std::vector<ValueId> open{value};
  while (!open.empty()) {
    const NodeId id = edit.producer(open.back());
    open.pop_back();
    if (id == kNoNode || !found.insert(id).second) continue;
    const Node& node = edit.node(id);
    if (!node.domain.empty() ||
        std::ranges::find(kPositionPreserving, node.op) == std::end(kPositionPreserving))
      return {};
    for (const ValueId input : node.inputs)
      if (input != kNoValue) open.push_back(input);
  }
  std::vector<NodeId> ordered;
  for (const NodeId id : edit.nodes())
    if (found.contains(id)) ordered.push_back(id);
  return ordered;
}

// Pseudo-random zeros and ones.
std::vector<bool> pattern(std::int64_t size) {
  std::vector<bool> bits;
  std::uint64_t state = 88172645463325252u;
  for (std::int64_t i = 0; i < size; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    bits.push_back((state >> 40 & 1) != 0);
  }
  return bits;
}

// Evaluates the value for a mask of these bits.
Tensor computed(const GraphEditor& edit, ValueId value, ValueId input,
                const std::vector<bool>& bits) {
  const TensorType type = edit.type(input);
  std::vector<float> numbers(bits.begin(), bits.end());
  const Tensor mask = converted(tensor_of(numbers, DType::f32, type.shape), type.dtype);
  Graph part;
  part.values = edit.graph().values;
  part.inputs = {input};
  part.outputs = {value};
  for (const NodeId id : producers_of(edit, value)) part.nodes.push_back(edit.node(id));
  compute::Workers workers(1);
  const Interpreter interpreter(part, workers, 1'000'000);
  return converted(interpreter.run(std::vector<Datum>{mask})[0].tensor, DType::f32);
}

// Whether a bias with `entries` batch entries excludes exactly the padding of these bits.
bool masks_padding(const Tensor& mask, const std::vector<bool>& bits, std::int64_t keys,
                   std::int64_t entries) {
  const std::int64_t each = mask.size() / entries;
  for (std::int64_t i = 0; i < mask.size(); ++i) {
    const float number = mask.values<float>()[static_cast<std::size_t>(i)];
    const bool token = bits[static_cast<std::size_t>(i / each * keys + i % keys)];
    if (token ? number != 0 : !(number <= kMaskedScore)) return false;
  }
  return true;
}

}  // namespace

ValueId sole_graph_input(const GraphEditor& edit, ValueId value) {
  std::set<ValueId> inputs;
  for (const NodeId id : producers_of(edit, value))
    for (const ValueId input : edit.node(id).inputs)
      if (input != kNoValue && edit.producer(input) == kNoNode && !edit.constant(input))
        inputs.insert(input);
  return inputs.size() == 1 ? *inputs.begin() : kNoValue;
}

bool is_padding_mask(const GraphEditor& edit, ValueId value, ValueId input) {
  const Shape positions = edit.type(input).shape, shape = edit.type(value).shape;
  const int rank = shape.rank();
  const std::int64_t keys = rank > 0 ? shape[rank - 1] : 1, entries = rank == 4 ? shape[0] : 1;
  if (keys != positions[1] || entries != positions[0]) return false;
  // Tests each position with 0 and with 1; each result depends on its own position only.
  std::vector<bool> bits = pattern(positions.size());
  for (int pass = 0; pass < 2; ++pass, bits.flip())
    if (!masks_padding(computed(edit, value, input, bits), bits, keys, entries)) return false;
  return true;
}

}  // namespace sluice::engine
