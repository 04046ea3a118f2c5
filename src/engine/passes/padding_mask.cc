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

// They move no element to another token's place: each is of its own, or stretched.
constexpr std::string_view kOfSingleElements[] = {
    "Add", "And", "Cast", "Div", "Equal", "Expand",  "Greater", "Identity",  "Less",  "Max",
    "Min", "Mul", "Neg",  "Not", "Or",    "Reshape", "Sub",     "Unsqueeze", "Where",
};
constexpr float kShutOut = -9000;  // as far below, a key weighs nothing

// The nodes that make a value, makers first; empty where one of them is of another kind.
std::vector<NodeId> makers_of(const Editor& edit, ValueId value) {
  std::set<NodeId> found;
  std::vector<ValueId> open{value};
  while (!open.empty()) {
    const NodeId id = edit.maker(open.back());
    open.pop_back();
    if (id == kNoNode || !found.insert(id).second) continue;
    const Node& node = edit.node(id);
    if (!node.domain.empty() ||
        std::ranges::find(kOfSingleElements, node.op) == std::end(kOfSingleElements))
      return {};
    for (const ValueId input : node.inputs)
      if (input != kNoValue) open.push_back(input);
  }
  std::vector<NodeId> ordered;
  for (const NodeId id : edit.nodes())
    if (found.contains(id)) ordered.push_back(id);
  return ordered;
}

// Zeros and ones without an order that a mistake could keep.
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

// The value for a mask of such bits.
Tensor computed(const Editor& edit, ValueId value, ValueId input, const std::vector<bool>& bits) {
  const TensorType type = edit.type(input);
  std::vector<float> numbers(bits.begin(), bits.end());
  const Tensor mask = converted(tensor_of(numbers, DType::f32, type.shape), type.dtype);
  Graph part;
  part.values = edit.graph().values;
  part.inputs = {input};
  part.outputs = {value};
  for (const NodeId id : makers_of(edit, value)) part.nodes.push_back(edit.node(id));
  compute::Workers workers(1);
  const Interpreter interpreter(part, workers, 1'000'000);
  return converted(interpreter.run(std::vector<Datum>{mask})[0].tensor, DType::f32);
}

// Whether a mask of so many entries is as it has to be for such bits.
bool shuts_out(const Tensor& mask, const std::vector<bool>& bits, std::int64_t keys,
               std::int64_t entries) {
  const std::int64_t each = mask.size() / entries;
  for (std::int64_t i = 0; i < mask.size(); ++i) {
    const float number = mask.values<float>()[static_cast<std::size_t>(i)];
    const bool token = bits[static_cast<std::size_t>(i / each * keys + i % keys)];
    if (token ? number != 0 : !(number <= kShutOut)) return false;
  }
  return true;
}

}  // namespace

ValueId only_input_of(const Editor& edit, ValueId value) {
  std::set<ValueId> inputs;
  for (const NodeId id : makers_of(edit, value))
    for (const ValueId input : edit.node(id).inputs)
      if (input != kNoValue && edit.maker(input) == kNoNode && !edit.constant(input))
        inputs.insert(input);
  return inputs.size() == 1 ? *inputs.begin() : kNoValue;
}

bool is_mask_of(const Editor& edit, ValueId value, ValueId input) {
  const Shape places = edit.type(input).shape, shape = edit.type(value).shape;
  const int rank = shape.rank();
  const std::int64_t keys = rank > 0 ? shape[rank - 1] : 1, entries = rank == 4 ? shape[0] : 1;
  if (keys != places[1] || entries != places[0]) return false;
  // Each place is tried with 0 and with 1, since what it becomes depends on itself alone.
  std::vector<bool> bits = pattern(places.size());
  for (int turn = 0; turn < 2; ++turn, bits.flip())
    if (!shuts_out(computed(edit, value, input, bits), bits, keys, entries)) return false;
  return true;
}

}  // namespace sluice::engine
