#include "engine/passes/constant_folding.h"

#include <algorithm>
#include <set>

#include "engine/ops/op.h"

namespace sluice::engine {
namespace {

// None of them produces more than it is given.
bool moves(const Node& node) {
  constexpr std::string_view kOps[] = {"Concat",  "Constant", "Flatten",   "Identity",
                                       "Reshape", "Squeeze",  "Transpose", "Unsqueeze"};
  return node.domain.empty() && node.subgraphs.empty() && node.outputs.size() == 1 &&
         node.outputs[0] != kNoValue &&
         std::find(std::begin(kOps), std::end(kOps), node.op) != std::end(kOps);
}

// The weights of GEMMs and convolutions. If a model expands weights instead of storing them,
// folding pays off, because kernels need constant weights.
std::set<ValueId> weights_of(const Graph& graph) {
  constexpr std::string_view kOps[] = {"Conv", "ConvTranspose", "GRU", "Gemm",
                                       "LSTM", "MatMul",        "RNN"};
  std::set<ValueId> weights;
  for (const Node& node : graph.nodes)
    if (node.domain.empty() &&
        std::find(std::begin(kOps), std::end(kOps), node.op) != std::end(kOps))
      weights.insert(node.inputs.begin() + (node.inputs.empty() ? 0 : 1), node.inputs.end());
  return weights;
}

bool makes_weight(const Graph& graph, const Node& node, const std::set<ValueId>& weights) {
  return node.domain.empty() && node.op == "ConstantOfShape" && node.inputs.size() == 1 &&
         node.inputs[0] != kNoValue && node.outputs.size() == 1 &&
         weights.contains(node.outputs[0]) && graph[node.inputs[0]].constant.dtype() == DType::i64;
}

// The maximum output of a node that moves elements or expands a weight.
double bytes_made(const Node& node, std::span<const Datum> inputs) {
  double bytes = 0;
  for (const Datum& input : inputs) bytes += static_cast<double>(input.tensor.bytes());
  if (node.op != "ConstantOfShape") return bytes;
  bytes = 8;  // the widest element type
  for (const std::int64_t size : inputs[0].tensor.values<std::int64_t>())
    bytes *= static_cast<double>(size);
  return bytes;
}

double bytes_of_constants(const Graph& graph) {
  double bytes = 0;
  for (const Value& value : graph.values)
    if (value.constant) bytes += static_cast<double>(value.constant.bytes());
  return bytes;
}

class NoSubgraphs final : public SubgraphRunner {
 public:
  std::vector<Datum> run(const Graph&, std::span<const Datum>) override { return {}; }
};

// The node's output, or none if it fails.
Tensor made_by(const Node& node, std::span<const Datum> inputs, compute::Workers& workers) {
  const Op* const op = find_op(node);
  if (op == nullptr) return {};
  try {
    check_type(*op, inputs);
    NoSubgraphs none;
    Datum output;
    OpCall call(node, inputs, std::span(&output, 1), workers, none);
    op->run(call);
    return output.tensor;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

Graph fold_moves(Graph graph, compute::Workers& workers, double max_bytes) {
  // The constant of an input is only its default.
  const std::set<ValueId> given(graph.inputs.begin(), graph.inputs.end());
  const std::set<ValueId> weights = weights_of(graph);
  double budget = max_bytes + 4 * bytes_of_constants(graph);
  std::vector<Node> kept;
  for (Node& node : graph.nodes) {
    std::vector<Datum> inputs;
    bool known = moves(node) || makes_weight(graph, node, weights);
    for (const ValueId id : node.inputs) {
      known = known && (id == kNoValue || (graph[id].constant && !given.contains(id)));
      if (known) inputs.push_back(id == kNoValue ? Datum() : Datum(graph[id].constant));
    }
    const double bytes = known ? bytes_made(node, inputs) : 0;
    const Tensor made = known && bytes <= budget ? made_by(node, inputs, workers) : Tensor();
    if (!made) {
      kept.push_back(std::move(node));
      continue;
    }
    budget -= std::max(0.0, bytes);
    graph[node.outputs[0]].constant = made;
  }
  graph.nodes = std::move(kept);
  return graph;
}

}  // namespace sluice::engine
