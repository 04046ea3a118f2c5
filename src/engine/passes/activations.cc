// GELU, SiLU and hard swish as exporters spell them. There are many spellings of one function,
// so what the nodes between a value and a candidate compute is tried at some points and compared
// with the functions themselves.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "engine/passes/match.h"
#include "engine/passes/passes.h"

namespace sluice::engine {
namespace {

constexpr int kDeepest = 12;  // nodes from a function's result back to its argument
constexpr int kAfter = 4;     // and from the part that names it to its result
constexpr std::array kPoints{-9.0, -4.0, -3.0, -2.6, -2.0, -1.3, -0.7, -0.2,
                             0.1,  0.4,  0.9,  1.7,  2.3,  2.9,  3.4,  7.0};

double gelu(double x) { return 0.5 * x * (1 + std::erf(x * std::numbers::sqrt2 / 2)); }
double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x * sigmoid(x); }
double hard_swish(double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }

// The part that only one of the functions has, and that function.
struct Form {
  std::string_view part;
  Chain::Op step;
  double (*function)(double);
};
constexpr Form kForms[] = {
    {"Erf", Chain::Op::gelu, gelu},
    {"Tanh", Chain::Op::gelu_tanh, gelu_tanh},
    {"Sigmoid", Chain::Op::silu, silu},
    {"Clip", Chain::Op::hard_swish, hard_swish},
    {"HardSigmoid", Chain::Op::hard_swish, hard_swish},
};

// What a value is where `x` is `at`; none where it depends on anything else.
class Trial {
 public:
  Trial(const Editor& edit, ValueId x, double at) : edit_(edit), x_(x), at_(at) {}

  std::optional<double> of(ValueId value, int depth = kDeepest) const {
    if (value == x_) return at_;
    if (const auto number = edit_.scalar(value)) return static_cast<double>(*number);
    const NodeId id = edit_.maker(value);
    if (id == kNoNode || depth == 0 || !edit_.node(id).domain.empty()) return {};
    const Node& node = edit_.node(id);
    if (node.op == "Clip") return clip(id, depth);
    if (node.inputs.size() == 1) return one(node, of(node.inputs[0], depth - 1));
    if (node.inputs.size() != 2 || !is_onnx(node, node.op)) return {};
    const auto a = of(node.inputs[0], depth - 1);
    return a ? two(node.op, *a, of(node.inputs[1], depth - 1)) : std::nullopt;
  }

 private:
  std::optional<double> clip(NodeId id, int depth) const {
    const auto bounds = bounds_of(edit_, id);
    auto value = of(edit_.node(id).inputs[0], depth - 1);
    if (!bounds || !value) return {};
    if (bounds->low) value = std::max(*value, static_cast<double>(*bounds->low));
    if (bounds->high) value = std::min(*value, static_cast<double>(*bounds->high));
    return value;
  }

  static std::optional<double> one(const Node& node, std::optional<double> a) {
    if (!a) return {};
    if (node.op == "Erf") return std::erf(*a);
    if (node.op == "Tanh") return std::tanh(*a);
    if (node.op == "Sigmoid") return sigmoid(*a);
    if (node.op == "Neg") return -*a;
    if (node.op == "HardSigmoid")
      return std::clamp(static_cast<double>(node.attributes.real("alpha", 0.2f)) * *a +
                            static_cast<double>(node.attributes.real("beta", 0.5f)),
                        0.0, 1.0);
    return {};
  }

  static std::optional<double> two(std::string_view op, double a, std::optional<double> b) {
    if (!b) return {};
    if (op == "Add") return a + *b;
    if (op == "Sub") return a - *b;
    if (op == "Mul") return a * *b;
    if (op == "Div") return a / *b;
    if (op == "Pow") return std::pow(a, *b);
    return {};
  }

  const Editor& edit_;
  ValueId x_;
  double at_;
};

bool computes(const Editor& edit, ValueId from, ValueId to, const Form& form) {
  // Narrow types have narrow constants: sqrt(2) is 1.4140625 there.
  const double most = edit.type(from).dtype == DType::f32 ? 1e-5 : 1e-2;
  for (const double at : kPoints) {
    const auto value = Trial(edit, from, at).of(to);
    if (!value || !(std::abs(*value - form.function(at)) <= most * (1 + std::abs(at))))
      return false;
  }
  return true;
}

// Values before `id` that may be what the function is of, the nearest first.
std::vector<ValueId> arguments(const Editor& edit, NodeId id) {
  std::vector<ValueId> found{edit.node(id).inputs[0]};
  for (std::size_t i = 0; i < found.size() && found.size() < 16; ++i) {
    const NodeId maker = edit.maker(found[i]);
    if (maker == kNoNode || edit.node(maker).inputs.size() > 2) continue;
    for (const ValueId input : edit.node(maker).inputs)
      if (input != kNoValue && !edit.constant(input) &&
          std::find(found.begin(), found.end(), input) == found.end())
        found.push_back(input);
  }
  return found;
}

void put_step(Editor& edit, NodeId old, ValueId from, Chain::Op step) {
  const Node& node = edit.node(old);
  Node chain = fused("Chain", node.name, {from}, {node.outputs[0]});
  write(Chain{1, {{step, 0}}}, chain.attributes);
  put(edit, old, std::move(chain));
}

bool from_parts(Editor& edit, NodeId part, const Form& form) {
  const std::vector<ValueId> from = arguments(edit, part);
  NodeId last = part;
  for (int i = 0; i < kAfter; ++i) {
    last = edit.only_user(edit.node(last).outputs[0]);
    if (last == kNoNode || edit.node(last).outputs.size() != 1) return false;
    const ValueId result = edit.node(last).outputs[0];
    for (const ValueId x : from) {
      if (edit.type(x) != edit.type(result) || !computes(edit, x, result, form)) continue;
      put_step(edit, last, x, form.step);
      return true;
    }
  }
  return false;
}

// Operators of ONNX that are such a function already.
std::optional<Chain::Op> whole(const Node& node) {
  if (is_onnx(node, "Gelu"))
    return node.attributes.string("approximate", "none") == "tanh" ? Chain::Op::gelu_tanh
                                                                   : Chain::Op::gelu;
  if (is_onnx(node, "HardSwish")) return Chain::Op::hard_swish;
  if (is_onnx(node, "Swish") && node.attributes.real("alpha", 1) == 1) return Chain::Op::silu;
  return {};
}

}  // namespace

int fuse_activations(Editor& edit) {
  int changes = 0;
  for (const NodeId id : edit.nodes()) {
    if (edit.removed(id)) continue;
    const Node& node = edit.node(id);
    if (node.inputs.empty() || node.inputs[0] == kNoValue || node.outputs.size() != 1 ||
        !is_fusable(edit.type(node.inputs[0]).dtype))
      continue;
    if (const auto step = whole(node)) {
      put_step(edit, id, node.inputs[0], *step);
      ++changes;
      continue;
    }
    for (const Form& form : kForms)
      if (is_onnx(node, form.part) && from_parts(edit, id, form)) {
        ++changes;
        break;
      }
  }
  return changes;
}

}  // namespace sluice::engine
