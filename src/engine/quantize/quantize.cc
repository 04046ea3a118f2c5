#include "engine/quantize/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "engine/ops/math/quantize.h"
#include "engine/passes/constant_folding.h"
#include "engine/passes/match.h"
#include "engine/quantize/quantize_fold.h"
#include "engine/quantize/quantize_opset.h"
#include "engine/quantize/quantize_tables.h"
#include "engine/quantize/quantize_weights.h"
#include "tensor/byte_size.h"

namespace sluice::engine {
namespace {

using Scheme = QuantizeOptions::Scheme;

int opset_for(Scheme scheme) {
  switch (scheme) {
    case Scheme::int8:
    case Scheme::int8_weights: return 13;  // scales per channel
    case Scheme::fp8: return 19;
    case Scheme::int4_weights: return 21;
  }
  return 13;
}

// The quantization parameters of a value.
struct ScaleZeroPoint {
  float scale;
  int zero_point;
};

ScaleZeroPoint params_for(const ValueRange& range, Scheme scheme, DType type) {
  const float low = std::min(0.0f, range.low), high = std::max(0.0f, range.high);
  const float max = std::max(-low, high);
  if (max == 0) return {1.0f, 0};
  if (scheme == Scheme::fp8) return {max / kMaxFp8, 0};
  if (type == DType::i8) return {max / 127, 0};
  const float scale = std::max((high - low) / 255, std::numeric_limits<float>::min());
  return {scale, static_cast<int>(std::clamp(std::nearbyint(-low / scale), 0.0f, 255.0f))};
}

Tensor zero_point_tensor(const ScaleZeroPoint& params, Scheme scheme, DType type) {
  if (scheme == Scheme::fp8) return Tensor::of(Float8E4M3FN(0.0f));
  if (type == DType::i8) return Tensor::of(static_cast<std::int8_t>(params.zero_point));
  return Tensor::of(static_cast<std::uint8_t>(params.zero_point));
}

class Quantizer {
 public:
  Quantizer(Graph& graph, const QuantizeOptions& options) : graph_(graph), options_(options) {}

  void run(const std::vector<QuantizeSite>& sites, const std::map<ValueId, ValueRange>& ranges) {
    for (const QuantizeSite& site : sites) quantize_weights(site);
    if (needs_ranges(options_.scheme)) quantize_values(sites, ranges);
    put_nodes();
  }

 private:
  ValueId add_value(std::string name, DType dtype, const Value* like = nullptr) {
    Value value{.name = std::move(name), .dtype = dtype};
    if (like != nullptr) value.dims = like->dims;
    graph_.values.push_back(std::move(value));
    return static_cast<ValueId>(graph_.values.size() - 1);
  }
  ValueId add_constant(std::string name, const Tensor& tensor) {
    const ValueId id = add_value(std::move(name), tensor.dtype());
    graph_[id].constant = tensor;
    return id;
  }
  static Node node(std::string_view op, std::string name, std::vector<ValueId> inputs, ValueId out,
                   int version) {
    return {.name = std::move(name),
            .op = std::string(op),
            .domain = "",
            .version = version,
            .inputs = std::move(inputs),
            .outputs = {out}};
  }

  void quantize_weights(const QuantizeSite& site) {
    ValueId& input = graph_.nodes[site.node].inputs[1];
    const auto [found, added] = weights_.try_emplace({input, site.channels}, kNoValue);
    if (added) found->second = dequantized_weights(graph_.nodes[site.node], input, site.channels);
    input = found->second;
  }

  ValueId dequantized_weights(const Node& of, ValueId value, int channels) {
    const bool conv = of.op == "Conv";
    const Tensor weights = graph_[value].constant;
    const std::string name = graph_[value].name;
    QuantizedWeights quantized = options_.scheme == Scheme::fp8 ? fp8_weights(weights)
                                 : options_.scheme == Scheme::int4_weights && !conv
                                     ? int4_weights(weights, 1 - channels, options_.block)
                                     : int8_weights(weights, channels);
    const ValueId q = add_constant(name + "/quantized", quantized.values);
    const ValueId scale = add_constant(name + "/scale", quantized.scales);
    const ValueId out = add_value(name + "/dequantized", DType::f32);
    Node dequantize = node("DequantizeLinear", name + "/dequantized", {q, scale}, out, version());
    if (quantized.axis >= 0) dequantize.attributes.set("axis", std::int64_t{quantized.axis});
    if (quantized.block > 0) dequantize.attributes.set("block_size", quantized.block);
    first_.push_back(std::move(dequantize));
    return out;
  }

  // Quantizes the inputs of the quantized nodes; for convolutions also those of Add, so that
  // residuals need not be kept in f32.
  void quantize_values(const std::vector<QuantizeSite>& sites,
                       const std::map<ValueId, ValueRange>& ranges) {
    std::set<ValueId> of_images;
    std::set<std::size_t> quantized_nodes;
    for (const QuantizeSite& site : sites) {
      quantized_nodes.insert(site.node);
      if (graph_.nodes[site.node].op == "Conv") of_images.insert(graph_.nodes[site.node].inputs[0]);
    }
    for (const auto& [value, range] : ranges)
      dequantized_[value] = quantize_dequantize(value, range);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& user = graph_.nodes[i];
      const bool sum = user.op == "Add" && user.domain.empty();
      for (std::size_t k = 0; k < user.inputs.size(); ++k) {
        const auto found = dequantized_.find(user.inputs[k]);
        if (found == dequantized_.end()) continue;
        if ((quantized_nodes.contains(i) && k == 0) || (sum && of_images.contains(found->first)))
          user.inputs[k] = found->second;
      }
    }
  }

  // The value through QuantizeLinear and DequantizeLinear.
  ValueId quantize_dequantize(ValueId value, const ValueRange& range) {
    const std::string name = graph_[value].name;
    const DType type = options_.scheme == Scheme::fp8 ? DType::f8e4m3fn : options_.activations;
    const ScaleZeroPoint params = params_for(range, options_.scheme, options_.activations);
    const ValueId scale = add_constant(name + "/scale", Tensor::of(params.scale));
    const ValueId zero = add_constant(
        name + "/zero_point", zero_point_tensor(params, options_.scheme, options_.activations));
    const ValueId quantized = add_value(name + "/quantized", type, &graph_[value]);
    const ValueId dequantized = add_value(name + "/dequantized", DType::f32, &graph_[value]);
    after_[value] = {
        node("QuantizeLinear", name + "/quantized", {value, scale, zero}, quantized, version()),
        node("DequantizeLinear", name + "/dequantized", {quantized, scale, zero}, dequantized,
             version())};
    return dequantized;
  }

  void put_nodes() {
    std::vector<Node> all = std::move(first_);
    const auto put_after = [&](ValueId value) {
      const auto found = after_.find(value);
      if (found == after_.end()) return;
      for (Node& node : found->second) all.push_back(std::move(node));
      after_.erase(found);
    };
    for (const ValueId input : graph_.inputs) put_after(input);
    for (Node& node : graph_.nodes) {
      const std::vector<ValueId> outputs = node.outputs;
      all.push_back(std::move(node));
      for (const ValueId output : outputs) put_after(output);
    }
    graph_.nodes = std::move(all);
  }

  int version() const { return opset_; }

  Graph& graph_;
  const QuantizeOptions& options_;
  const int opset_ = opset_of(graph_);
  std::map<std::pair<ValueId, int>, ValueId> weights_;  // by value and channel axis
  std::map<ValueId, ValueId> dequantized_;              // replaces a value
  std::map<ValueId, std::vector<Node>> after_;          // runs after the producer of a value
  std::vector<Node> first_;                             // runs before all other nodes
};

// The output channel axis of a node's constant weights; -1: the node is not quantized.
int channel_axis(const Graph& graph, const Node& node) {
  const auto given = [&](ValueId id) {
    return std::find(graph.inputs.begin(), graph.inputs.end(), id) != graph.inputs.end();
  };
  if (!node.domain.empty() || !has_input(node, 0) || !has_input(node, 1) || given(node.inputs[1]))
    return -1;
  const Tensor& weights = graph[node.inputs[1]].constant;
  if (weights.dtype() != DType::f32 || weights.size() == 0 || graph[node.inputs[0]].constant)
    return -1;
  if (node.op == "MatMul" && weights.rank() == 2) return 1;
  if (node.op == "Gemm" && weights.rank() == 2 && !node.attributes.flag("transA"))
    return node.attributes.flag("transB") ? 0 : 1;
  const bool conv = node.op == "Conv" && weights.rank() >= 3;
  return conv && node.attributes.integer("group", 1) == 1 ? 0 : -1;
}

// Drops unused constants from memory and from the file.
void drop_unused(Graph& graph) {
  std::set<ValueId> used(graph.outputs.begin(), graph.outputs.end());
  used.insert(graph.inputs.begin(), graph.inputs.end());
  for (const Node& node : graph.nodes) {
    used.insert(node.inputs.begin(), node.inputs.end());
    for (const auto& [name, body] : node.subgraphs)
      for (const Graph::Captured& captured : body->captured) used.insert(captured.outer);
  }
  for (std::size_t i = 0; i < graph.values.size(); ++i)
    if (!used.contains(static_cast<ValueId>(i))) graph.values[i].constant = {};
}

// Weights whose scales lie along two axes add two nodes of one name.
void make_node_names_unique(Graph& graph) {
  std::set<std::string> used;
  std::map<std::string, int> count;
  for (Node& node : graph.nodes) {
    if (node.name.empty()) continue;
    const std::string name = node.name;
    while (!used.insert(node.name).second) node.name = name + "/" + std::to_string(++count[name]);
  }
}

}  // namespace

bool needs_ranges(Scheme scheme) { return scheme == Scheme::int8 || scheme == Scheme::fp8; }

Graph prepare_to_quantize(Graph graph, compute::Workers& workers) {
  return fold_batch_norms(fold_moves(std::move(graph), workers));
}

std::vector<QuantizeSite> sites_to_quantize(const Graph& graph, const QuantizeOptions& options) {
  std::vector<QuantizeSite> sites;
  std::set<std::string> kept;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const int channels = channel_axis(graph, graph.nodes[i]);
    if (channels < 0) continue;
    if (options.keep.contains(graph.nodes[i].name))
      kept.insert(graph.nodes[i].name);
    else
      sites.push_back({i, channels});
  }
  for (const std::string& name : options.keep)
    require(kept.contains(name), "no node that would be quantized is called '" + name + "'");
  return sites;
}

std::vector<ValueId> values_to_quantize(const Graph& graph, const QuantizeOptions& options) {
  std::set<ValueId> values;
  if (!needs_ranges(options.scheme)) return {};
  for (const QuantizeSite& site : sites_to_quantize(graph, options))
    values.insert(graph.nodes[site.node].inputs[0]);
  return {values.begin(), values.end()};
}

Graph quantize(Graph graph, const std::map<ValueId, ValueRange>& ranges,
               const QuantizeOptions& options) {
  const std::vector<QuantizeSite> sites = sites_to_quantize(graph, options);
  if (sites.empty())
    throw Error(Code::unavailable,
                "nothing to quantize: no MatMul, Gemm or Conv has constant weights of f32");
  raise_opset(graph, std::max(opset_of(graph), opset_for(options.scheme)));
  Quantizer(graph, options).run(sites, ranges);
  quantize_tables(graph, options.keep);
  drop_unused(graph);
  make_node_names_unique(graph);
  return graph;
}

std::size_t weight_bytes(const Graph& graph) {
  std::set<ValueId> used;
  for (const Node& node : graph.nodes) used.insert(node.inputs.begin(), node.inputs.end());
  std::set<const void*> seen;
  std::size_t total = 0;
  for (const ValueId id : used) {
    if (id == kNoValue) continue;
    const Tensor& tensor = graph[id].constant;
    if (tensor && seen.insert(tensor.data()).second)
      total += packed_byte_size(tensor.shape().dims(), tensor.dtype());
  }
  return total;
}

}  // namespace sluice::engine
