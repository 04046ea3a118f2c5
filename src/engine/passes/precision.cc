// Converts f32 graphs to f16 or bf16: weights and intermediate values, with casts at the inputs and
// outputs of the graph and around operators that must stay f32.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "engine/ops/op.h"
#include "engine/passes/match.h"
#include "engine/passes/passes.h"
#include "engine/passes/quantized.h"

namespace sluice::engine {
namespace {

// Operators that stay f32: sums and powers that easily overflow f16, and operators whose output
// type differs from their input type.
constexpr std::string_view kWide[] = {
    "Bernoulli",
    "BlackmanWindow",
    "CumProd",
    "CumSum",
    "DequantizeLinear",
    "Det",
    "DynamicQuantizeLinear",
    "Exp",
    "EyeLike",
    "HammingWindow",
    "HannWindow",
    "If",
    "Log",
    "Loop",
    "MelWeightMatrix",
    "Multinomial",
    "NonMaxSuppression",
    "OneHot",
    "Pow",
    "QLinearConv",
    "QLinearMatMul",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Range",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    "RoiAlign",
    "Scan",
};

// Inputs that are always f32.
struct Fixed {
  std::string_view op;
  std::size_t first, last;
};
constexpr Fixed kFixed[] = {{"QuantizeLinear", 1, 1}, {"Resize", 1, 2}, {"Upsample", 1, 1}};

float smallest_positive(DType type) { return type == DType::f16 ? std::ldexp(1.0f, -24) : 0; }

// Clamps finite numbers to the range: masks use the lowest float.
float clamped(float number, DType type) {
  return std::isfinite(number) ? std::clamp(number, -narrow_limit(type), narrow_limit(type))
                               : number;
}

Tensor narrowed(const Tensor& constant, DType to) {
  std::vector<float> list = numbers(constant);
  for (float& number : list) number = clamped(number, to);
  return tensor_of(list, to, constant.shape());
}

void clamp_chain(Attributes& attributes, std::size_t inputs, DType to) {
  Chain chain = chain_of(attributes, inputs);
  for (Chain::Instruction& instruction : chain.instructions)
    if (instruction.op == Chain::Op::constant) instruction.value = clamped(instruction.value, to);
  write(chain, attributes);
}

class Narrower {
 public:
  Narrower(GraphEditor& edit, DType to, const std::set<std::string>& wide)
      : edit_(edit), to_(to), wide_(wide) {
    for (const Value& value : edit.graph().values)
      before_.push_back(value.constant ? value.constant.dtype() : value.dtype);
  }

  int run() {
    for (const NodeId id : edit_.nodes()) {
      const bool narrow = takes(id) && !is_kept(edit_.node(id));
      changes_ += narrow ? 1 : 0;
      take_inputs(id, narrow);
      if (narrow) make_narrow(id);
    }
    widen_outputs();
    return changes_;
  }

  std::vector<bool> takes() const {
    std::vector<bool> all;
    for (const NodeId id : edit_.nodes()) all.push_back(takes(id));
    return all;
  }

 private:
  bool is_kept(const Node& node) const {
    return std::ranges::any_of(node.outputs, [&](ValueId output) {
      return output != kNoValue && wide_.contains(edit_.graph()[output].name);
    });
  }
  bool was_f32(ValueId id) const {
    return id != kNoValue && static_cast<std::size_t>(id) < before_.size() &&
           before_[static_cast<std::size_t>(id)] == DType::f32;
  }

  // Whether a node may compute in the narrow type and has an f32 input or output.
  bool takes(NodeId id) const {
    const Node& node = edit_.node(id);
    const auto f32 = [&](ValueId value) { return was_f32(value); };
    if (!std::any_of(node.outputs.begin(), node.outputs.end(), f32) &&
        !std::any_of(node.inputs.begin(), node.inputs.end(), f32))
      return false;
    if (!node.subgraphs.empty() || (node.domain.empty() && is_wide(node.op))) return false;
    if (is_quantize(node) && only_quantized(node.inputs[0])) return false;
    const Op* const op = find_op(node);
    if (op == nullptr) return false;
    for (const ValueId value : node.inputs) {
      const std::optional<double> number = edit_.scalar(value);
      if (was_f32(value) && number && *number != 0 &&
          std::abs(*number) < static_cast<double>(smallest_positive(to_)))
        return false;  // it would underflow to 0
    }
    return node.inputs.empty() || !was_f32(node.inputs[0]) || op->types.has(to_);
  }
  static bool is_wide(std::string_view op) {
    return std::find(std::begin(kWide), std::end(kWide), op) != std::end(kWide);
  }
  static bool is_quantize(const Node& node) {
    return node.domain.empty() && node.op == "QuantizeLinear";
  }
  // Whether a value is f32 and only quantized, so that narrowing would round it twice.
  bool only_quantized(ValueId value) const {
    const std::vector<NodeId>& users = edit_.users(value);
    return edit_.type(value).dtype == DType::f32 &&
           std::all_of(users.begin(), users.end(),
                       [&](NodeId user) { return is_quantize(edit_.node(user)); });
  }
  void take_inputs(NodeId id, bool narrow) {
    for (std::size_t i = 0; i < edit_.node(id).inputs.size(); ++i) {
      const ValueId value = edit_.node(id).inputs[i];
      if (!was_f32(value)) continue;
      const DType want = narrow && !stays_f32(edit_.node(id), i) ? to_ : DType::f32;
      edit_.set_input(id, i, as(value, want));
    }
  }

  void make_narrow(NodeId id) {
    const bool sums = edit_.node(id).domain == kFused && edit_.node(id).op == "PoolTokens";
    for (const ValueId value : edit_.node(id).outputs)
      if (was_f32(value) && !sums) edit_.graph()[value].dtype = to_;  // its result is small: f32
    Attributes& attributes = edit_.node(id).attributes;
    const Node& node = edit_.node(id);
    if (node.domain.empty() && node.op == "Cast" &&
        attributes.dtype("to", DType::none) == DType::f32)
      attributes.set("to", static_cast<std::int64_t>(to_));
    if (node.domain.empty() && node.op == "ConstantOfShape")
      if (const Tensor value = attributes.tensor("value"); !value || value.dtype() == DType::f32)
        attributes.set("value",
                       narrowed(value ? value : tensor_of({0}, DType::f32, Shape{1}), to_));
    if (is_quantized(node) && !attributes.has("to_type"))
      attributes.set("to_type", static_cast<std::int64_t>(to_));
    narrow_attributes(edit_.node(id), to_);
  }

  // The value in `type`, cast once and shared.
  ValueId as(ValueId value, DType type) {
    if (edit_.type(value).dtype == type) return value;
    const auto [found, is_new] = cast_.try_emplace({value, type}, kNoValue);
    if (is_new) found->second = cast(value, type);
    return found->second;
  }

  ValueId cast(ValueId value, DType type) {
    const std::string name(to_string(type));
    if (const Tensor constant = edit_.constant(value))
      return derived(edit_, {value}, "as " + name, [&] { return narrowed(constant, to_); });
    const ValueId made =
        edit_.add_value(edit_.graph()[value].name + " as " + name, {type, edit_.type(value).shape});
    add_cast(value, made, type);
    return made;
  }

  void add_cast(ValueId from, ValueId to, DType type) {
    Node node{.name = "cast of " + edit_.graph()[from].name,
              .op = "Cast",
              .domain = "",
              .version = 13,
              .attributes = {},
              .inputs = {from},
              .outputs = {to},
              .subgraphs = {}};
    node.attributes.set("to", static_cast<std::int64_t>(type));
    edit_.add(std::move(node));
  }

  // Graph outputs keep their type and name.
  void widen_outputs() {
    for (std::size_t i = 0; i < edit_.graph().outputs.size(); ++i) {
      const ValueId output = edit_.graph().outputs[i];
      if (!was_f32(output)) continue;
      const ValueId wide = as(output, DType::f32);
      if (wide == output) continue;
      if (edit_.graph()[wide].name != edit_.graph()[output].name)
        std::swap(edit_.graph()[wide].name, edit_.graph()[output].name);
      edit_.set_graph_output(i, wide);
    }
  }

  GraphEditor& edit_;
  const DType to_;
  const std::set<std::string>& wide_;
  std::vector<DType> before_;  // by value
  std::map<std::pair<ValueId, DType>, ValueId> cast_;
  int changes_ = 0;
};

}  // namespace

int to_precision(GraphEditor& edit, DType to, const std::set<std::string>& wide) {
  require(to == DType::f16 || to == DType::bf16, "a graph is made narrower to f16 or bf16");
  return Narrower(edit, to, wide).run();
}

std::vector<bool> narrow_nodes(Graph& graph, DType to) {
  GraphEditor edit(graph);
  return Narrower(edit, to, {}).takes();
}

bool stays_f32(const Node& node, std::size_t input) {
  if (is_quantized(node)) return input != 3;  // bias and scales may exceed the range
  return node.domain.empty() && std::any_of(std::begin(kFixed), std::end(kFixed), [&](auto& f) {
           return node.op == f.op && input >= f.first && input <= f.last;
         });
}

float narrow_limit(DType to) {
  return to == DType::f16 ? 65504.0f : std::ldexp(255.0f, 120);  // bf16: 1.1111111b * 2^127
}

void narrow_attributes(Node& node, DType to) {
  if (node.domain == kFused && node.op == "Chain")
    clamp_chain(node.attributes, node.inputs.size(), to);
}

}  // namespace sluice::engine
