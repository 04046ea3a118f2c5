#include "engine/quantize/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "engine/ops/math/quantize.h"
#include "engine/passes/constant_folding.h"
#include "engine/quantize/quantize_fold.h"
#include "engine/quantize/quantize_opset.h"
#include "engine/quantize/quantize_tables.h"
#include "engine/quantize/quantize_weights.h"
#include "tensor/byte_size.h"

namespace sluice::engine {
namespace {

using What = QuantizeOptions::What;

int opset_for(What what) {
  switch (what) {
    case What::int8:
    case What::int8_weights: return 13;  // a scale for each channel
    case What::fp8: return 19;
    case What::int4_weights: return 21;
  }
  return 13;
}

// Where the zero of a range is, and how large a step.
struct Steps {
  float scale;
  int zero;
};

Steps steps_of(const ValueRange& range, What what, DType type) {
  const float low = std::min(0.0f, range.low), high = std::max(0.0f, range.high);
  const float most = std::max(-low, high);
  if (most == 0) return {1.0f, 0};
  if (what == What::fp8) return {most / kMostFp8, 0};
  if (type == DType::i8) return {most / 127, 0};
  const float scale = std::max((high - low) / 255, std::numeric_limits<float>::min());
  return {scale, static_cast<int>(std::clamp(std::nearbyint(-low / scale), 0.0f, 255.0f))};
}

Tensor zero_of(const Steps& steps, What what, DType type) {
  if (what == What::fp8) return Tensor::of(Float8E4M3FN(0.0f));
  if (type == DType::i8) return Tensor::of(static_cast<std::int8_t>(steps.zero));
  return Tensor::of(static_cast<std::uint8_t>(steps.zero));
}

class Quantizer {
 public:
  Quantizer(Graph& graph, const QuantizeOptions& options) : graph_(graph), options_(options) {}

  void run(const std::vector<QuantizeSite>& sites, const std::map<ValueId, ValueRange>& ranges) {
    for (const QuantizeSite& site : sites) quantize_weights(site);
    if (needs_ranges(options_.what)) quantize_values(sites, ranges);
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
    if (added) found->second = smaller_weights(graph_.nodes[site.node], input, site.channels);
    input = found->second;
  }

  ValueId smaller_weights(const Node& of, ValueId value, int channels) {
    const bool conv = of.op == "Conv";
    const Tensor weights = graph_[value].constant;
    const std::string name = graph_[value].name;
    SmallWeights small = options_.what == What::fp8 ? fp8_weights(weights)
                         : options_.what == What::int4_weights && !conv
                             ? int4_weights(weights, 1 - channels, options_.block)
                             : int8_weights(weights, channels);
    const ValueId q = add_constant(name + "/small", small.values);
    const ValueId scale = add_constant(name + "/scale", small.scales);
    const ValueId out = add_value(name + "/wide", DType::f32);
    Node wide = node("DequantizeLinear", name + "/wide", {q, scale}, out, version());
    if (small.axis >= 0) wide.attributes.set("axis", std::int64_t{small.axis});
    if (small.block > 0) wide.attributes.set("block_size", small.block);
    first_.push_back(std::move(wide));
    return out;
  }

  // In front of the products alone; where one is a convolution, of sums too, so that what they
  // add need not be kept in f32.
  void quantize_values(const std::vector<QuantizeSite>& sites,
                       const std::map<ValueId, ValueRange>& ranges) {
    std::set<ValueId> of_images;
    std::set<std::size_t> products;
    for (const QuantizeSite& site : sites) {
      products.insert(site.node);
      if (graph_.nodes[site.node].op == "Conv") of_images.insert(graph_.nodes[site.node].inputs[0]);
    }
    for (const auto& [value, range] : ranges) wide_[value] = rounded(value, range);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& user = graph_.nodes[i];
      const bool sum = user.op == "Add" && user.domain.empty();
      for (std::size_t k = 0; k < user.inputs.size(); ++k) {
        const auto found = wide_.find(user.inputs[k]);
        if (found == wide_.end()) continue;
        if ((products.contains(i) && k == 0) || (sum && of_images.contains(found->first)))
          user.inputs[k] = found->second;
      }
    }
  }

  // The value through small numbers.
  ValueId rounded(ValueId value, const ValueRange& range) {
    const std::string name = graph_[value].name;
    const DType type = options_.what == What::fp8 ? DType::f8e4m3fn : options_.activations;
    const Steps steps = steps_of(range, options_.what, options_.activations);
    const ValueId scale = add_constant(name + "/scale", Tensor::of(steps.scale));
    const ValueId zero =
        add_constant(name + "/zero", zero_of(steps, options_.what, options_.activations));
    const ValueId small = add_value(name + "/small", type, &graph_[value]);
    const ValueId wide = add_value(name + "/wide", DType::f32, &graph_[value]);
    after_[value] = {
        node("QuantizeLinear", name + "/small", {value, scale, zero}, small, version()),
        node("DequantizeLinear", name + "/wide", {small, scale, zero}, wide, version())};
    return wide;
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
  std::map<std::pair<ValueId, int>, ValueId> weights_;  // by value and axis of the channels
  std::map<ValueId, ValueId> wide_;                     // what stands for a value
  std::map<ValueId, std::vector<Node>> after_;          // the maker of a value
  std::vector<Node> first_;                             // of all
};

// The axis of constant weights that is one of a node's output; -1: it stays as it is.
int channel_axis(const Graph& graph, const Node& node) {
  const auto given = [&](ValueId id) {
    return std::find(graph.inputs.begin(), graph.inputs.end(), id) != graph.inputs.end();
  };
  if (!node.domain.empty() || node.inputs.size() < 2 || given(node.inputs[1])) return -1;
  const Tensor& weights = graph[node.inputs[1]].constant;
  if (weights.dtype() != DType::f32 || weights.size() == 0 || graph[node.inputs[0]].constant)
    return -1;
  if (node.op == "MatMul" && weights.rank() == 2) return 1;
  if (node.op == "Gemm" && !node.attributes.flag("transA"))
    return node.attributes.flag("transB") ? 0 : 1;
  return node.op == "Conv" && node.attributes.integer("group", 1) == 1 ? 0 : -1;
}

// Constants that nobody reads any more take no memory, and no place in a file.
void drop_unused(Graph& graph) {
  std::set<ValueId> used(graph.outputs.begin(), graph.outputs.end());
  used.insert(graph.inputs.begin(), graph.inputs.end());
  for (const Node& node : graph.nodes) {
    used.insert(node.inputs.begin(), node.inputs.end());
    for (const auto& [name, body] : node.bodies)
      for (const Graph::Captured& captured : body->captured) used.insert(captured.outside);
  }
  for (std::size_t i = 0; i < graph.values.size(); ++i)
    if (!used.contains(static_cast<ValueId>(i))) graph.values[i].constant = {};
}

}  // namespace

bool needs_ranges(What what) { return what == What::int8 || what == What::fp8; }

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
  if (!needs_ranges(options.what)) return {};
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
  raise_opset(graph, std::max(opset_of(graph), opset_for(options.what)));
  Quantizer(graph, options).run(sites, ranges);
  quantize_tables(graph, options.keep);
  drop_unused(graph);
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
