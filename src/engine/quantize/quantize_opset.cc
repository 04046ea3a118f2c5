#include "engine/quantize/quantize_opset.h"

#include <algorithm>

#include "base/error.h"

namespace sluice::engine {
namespace {

// Incompatible changes of operators by version; new types and new attributes whose default keeps
// the behavior are compatible.
struct Change {
  std::string_view op;
  int since;
  // The attribute that became input `input`; empty: not convertible.
  std::string_view attribute;
  std::size_t input = 1;
};

constexpr Change kChanges[] = {
    {"BatchNormalization", 9, ""},
    {"Clip", 11, "min", 1},
    {"Clip", 11, "max", 2},
    {"Dropout", 12, "ratio", 1},
    {"GridSample", 20, ""},  // its mode names changed
    {"GroupNormalization", 21, ""},
    {"Hardmax", 13, ""},  // also Softmax: the axes were flattened
    {"LogSoftmax", 13, ""},
    {"Pad", 11, "pads", 1},
    {"Pad", 11, "value", 2},
    {"ReduceL1", 18, "axes"},
    {"ReduceL2", 18, "axes"},
    {"ReduceLogSum", 18, "axes"},
    {"ReduceLogSumExp", 18, "axes"},
    {"ReduceMax", 18, "axes"},
    {"ReduceMean", 18, "axes"},
    {"ReduceMin", 18, "axes"},
    {"ReduceProd", 18, "axes"},
    {"ReduceSum", 13, "axes"},
    {"ReduceSumSquare", 18, "axes"},
    {"Resize", 11, ""},
    {"Slice", 10, ""},
    {"Softmax", 13, ""},
    {"Split", 13, "split"},
    {"Squeeze", 13, "axes"},
    {"TopK", 10, ""},
    {"Unsqueeze", 13, "axes"},
    {"Upsample", 10, ""},
};

Tensor tensor_of(const Node& node, std::string_view name, const Attributes::Any& value) {
  if (const auto* real = std::get_if<float>(&value)) return Tensor::of(*real);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return Tensor::of(*integer);
  if (const auto* integers = std::get_if<Attributes::Integers>(&value))
    return Tensor::of(std::span<const std::int64_t>(*integers));
  throw Error(Code::invalid_argument,
              describe(node) + ": attribute '" + std::string(name) + "' has the wrong type");
}

ValueId add_constant(Graph& graph, std::string name, Tensor tensor) {
  graph.values.push_back({.name = std::move(name), .dtype = tensor.dtype()});
  graph.values.back().constant = std::move(tensor);
  return static_cast<ValueId>(graph.values.size() - 1);
}

void move_attribute(Graph& graph, Node& node, const Change& change) {
  const auto& all = node.attributes.all();
  const auto found = all.find(change.attribute);
  if (found == all.end()) return;
  const ValueId input = add_constant(graph, node.name + "/" + std::string(change.attribute),
                                     tensor_of(node, change.attribute, found->second));
  if (node.inputs.size() <= change.input) node.inputs.resize(change.input + 1, kNoValue);
  node.inputs[change.input] = input;
  node.attributes.erase(change.attribute);
}

// A Split without sizes must have num_outputs.
void count_parts(Node& node, int to) {
  const bool sized = node.inputs.size() > 1 && node.inputs[1] != kNoValue;
  if (node.op == "Split" && to >= 18 && !sized && !node.attributes.has("num_outputs"))
    node.attributes.set("num_outputs", static_cast<std::int64_t>(node.outputs.size()));
}

void raise(Graph& graph, Node& node, int to) {
  if (!node.domain.empty() || node.version >= to) return;
  for (const Change& change : kChanges) {
    if (change.op != node.op || change.since <= node.version || change.since > to) continue;
    if (change.attribute.empty())
      throw Error(Code::unavailable, describe(node) + " means something else from opset " +
                                         std::to_string(change.since) +
                                         " on, and this needs opset " + std::to_string(to) +
                                         ": export the model in that opset");
    move_attribute(graph, node, change);
  }
  count_parts(node, to);
  node.version = to;
}

}  // namespace

void raise_opset(Graph& graph, int to) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    raise(graph, graph.nodes[i], to);
    for (auto& [name, body] : graph.nodes[i].subgraphs) {
      Graph raised = *body;
      raise_opset(raised, to);
      body = std::make_shared<const Graph>(std::move(raised));
    }
  }
}

int opset_of(const Graph& graph) {
  int max = 0;
  for (const Node& node : graph.nodes) {
    if (node.domain.empty()) max = std::max(max, node.version);
    for (const auto& [name, body] : node.subgraphs) max = std::max(max, opset_of(*body));
  }
  return max;
}

}  // namespace sluice::engine
