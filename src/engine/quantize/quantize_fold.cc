#include "engine/quantize/quantize_fold.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "engine/passes/match.h"

namespace sluice::engine {
namespace {

class Folder {
 public:
  explicit Folder(Graph& graph) : graph_(graph), given_(graph.inputs.begin(), graph.inputs.end()) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const ValueId id : graph.nodes[i].inputs) ++uses_[id];
      for (const ValueId id : graph.nodes[i].outputs)
        if (id != kNoValue) maker_[id] = i;
      for (const auto& [name, body] : graph.nodes[i].subgraphs)
        for (const Graph::Captured& captured : body->captured) ++uses_[captured.outer];
    }
    for (const ValueId id : graph.outputs) ++uses_[id];
  }

  void run() {
    std::vector<bool> gone(graph_.nodes.size());
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) gone[i] = fold(graph_.nodes[i]);
    std::vector<Node> kept;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      if (!gone[i]) kept.push_back(std::move(graph_.nodes[i]));
    graph_.nodes = std::move(kept);
  }

 private:
  // An f32 constant with n elements; none otherwise.
  Tensor numbers(const Node& node, std::size_t i, std::int64_t n) const {
    if (i >= node.inputs.size() || node.inputs[i] == kNoValue || given_.contains(node.inputs[i]))
      return {};
    const Tensor& tensor = graph_[node.inputs[i]].constant;
    return tensor.dtype() == DType::f32 && tensor.size() == n ? tensor : Tensor();
  }

  ValueId add(std::string name, const Tensor& tensor) {
    graph_.values.push_back({.name = std::move(name), .dtype = DType::f32});
    graph_.values.back().constant = tensor;
    return static_cast<ValueId>(graph_.values.size() - 1);
  }

  bool fold(Node& norm) {
    if (norm.op != "BatchNormalization" || !norm.domain.empty() || norm.inputs.size() != 5 ||
        norm.outputs.size() != 1 || norm.attributes.flag("training_mode") || norm.version < 9)
      return false;
    const auto made = maker_.find(norm.inputs[0]);
    if (made == maker_.end() || uses_[norm.inputs[0]] != 1) return false;
    Node& conv = graph_.nodes[made->second];
    if (conv.op != "Conv" || !conv.domain.empty() || !has_input(conv, 1) ||
        given_.contains(conv.inputs[1]))
      return false;
    const Tensor weights = graph_[conv.inputs[1]].constant;
    if (weights.dtype() != DType::f32 || weights.rank() < 3 || weights.size() == 0) return false;
    const std::int64_t n = weights.shape()[0];
    Tensor parts[4];
    for (std::size_t i = 0; i < 4; ++i)
      if (!(parts[i] = numbers(norm, i + 1, n))) return false;
    const bool has_bias = conv.inputs.size() > 2 && conv.inputs[2] != kNoValue;
    const Tensor bias = has_bias ? numbers(conv, 2, n) : Tensor();
    if (has_bias && !bias) return false;
    put(conv, weights, bias, parts, norm.attributes.real("epsilon", 1e-5f));
    conv.outputs = norm.outputs;
    maker_[conv.outputs[0]] = made->second;
    return true;
  }

  void put(Node& conv, const Tensor& weights, const Tensor& bias, const Tensor (&parts)[4],
           float epsilon) {
    const Tensor scaled(DType::f32, weights.shape()), moved(DType::f32, {weights.shape()[0]});
    const auto from = weights.values<float>(), to = scaled.values<float>();
    const auto n = static_cast<std::size_t>(weights.shape()[0]), each = from.size() / n;
    const auto at = [](const Tensor& tensor, std::size_t i) {
      return static_cast<double>(tensor.values<float>()[i]);
    };
    for (std::size_t c = 0; c < n; ++c) {
      const double factor =
          at(parts[0], c) / std::sqrt(at(parts[3], c) + static_cast<double>(epsilon));
      const double own = bias ? at(bias, c) : 0;
      for (std::size_t i = c * each; i < (c + 1) * each; ++i)
        to[i] = static_cast<float>(static_cast<double>(from[i]) * factor);
      moved.values<float>()[c] =
          static_cast<float>((own - at(parts[2], c)) * factor + at(parts[1], c));
    }
    const std::string name = graph_[conv.inputs[1]].name;
    const ValueId w = add(name + "/normed", scaled), b = add(name + "/shift", moved);
    conv.inputs.resize(3, kNoValue);
    conv.inputs[1] = w;
    conv.inputs[2] = b;
  }

  Graph& graph_;
  std::set<ValueId> given_;
  std::map<ValueId, int> uses_;
  std::map<ValueId, std::size_t> maker_;
};

}  // namespace

Graph fold_batch_norms(Graph graph) {
  Folder(graph).run();
  return graph;
}

}  // namespace sluice::engine
