// Fuses GELU, SiLU and hard swish as exporters write them. There are many forms, so the nodes
// between a value x and a candidate are expanded to a polynomial of x and of one characteristic
// function of x, and compared with the polynomials of the activations, term by term. So a match
// holds for all x.
#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <numbers>

#include "engine/passes/match.h"
#include "engine/passes/passes.h"

namespace sluice::engine {
namespace {

constexpr int kMaxDepth = 12;  // maximum nodes from a function's result back to its argument
constexpr int kAfter = 4;      // maximum nodes from the characteristic node to the result

constexpr double kTolerance = 1e-6;  // relative; constants and their products are rounded to f32
constexpr double kTanhScale = 0.7978845608028654;  // sqrt(2 / pi)
constexpr double kTanhCubic = 0.044715;

// A constant of the activations that half precision rounds, as itself: sqrt(2) is 1.4140625 in f16.
double unrounded(double number, DType type) {
  constexpr double kKnown[] = {std::numbers::sqrt2, std::numbers::sqrt2 / 2, kTanhScale, kTanhCubic,
                               1.0 / 6};
  for (const double known : kKnown) {
    const auto single = static_cast<float>(known);
    const float rounded = type == DType::f16    ? static_cast<float>(Half(single))
                          : type == DType::bf16 ? static_cast<float>(BFloat16(single))
                                                : single;
    if (static_cast<double>(rounded) == number) return known;
  }
  return number;
}

// The sum of c[i][j] * x^i * g^j, where g is the characteristic function.
class Polynomial {
 public:
  static constexpr std::size_t kPowersOfX = 4, kPowersOfG = 2;
  struct Term {
    std::size_t i, j;
    double c;
  };

  Polynomial() = default;
  Polynomial(std::initializer_list<Term> terms) {
    for (const Term& term : terms) c_[term.i][term.j] = term.c;
  }

  // Whether it stays one: false if a term exists already, has too high a power, or is so large or
  // small that intermediate values of this form overflow or vanish earlier than the activation.
  [[nodiscard]] bool add(std::size_t i, std::size_t j, double c) {
    if (c == 0) return true;
    if (i >= kPowersOfX || j >= kPowersOfG || c_[i][j] != 0) return false;
    if (!(std::abs(c) >= 0.01 && std::abs(c) <= 100)) return false;
    c_[i][j] = c;
    return true;
  }
  double at(std::size_t i, std::size_t j) const { return c_[i][j]; }

  // None for 0: 0 * x is NaN if x is infinite.
  static std::optional<Polynomial> constant(double number) {
    Polynomial p;
    return number != 0 && p.add(0, 0, number) ? std::optional(p) : std::nullopt;
  }
  std::optional<double> as_constant() const {
    for (std::size_t i = 0; i < kPowersOfX; ++i)
      for (std::size_t j = 0; j < kPowersOfG; ++j)
        if (i + j > 0 && c_[i][j] != 0) return {};
    return c_[0][0];
  }

  bool is_near(const Polynomial& other) const {
    for (std::size_t i = 0; i < kPowersOfX; ++i)
      for (std::size_t j = 0; j < kPowersOfG; ++j)
        if (!(std::abs(c_[i][j] - other.c_[i][j]) <= kTolerance * std::abs(other.c_[i][j])))
          return false;
    return true;
  }

 private:
  std::array<std::array<double, kPowersOfG>, kPowersOfX> c_{};
};

using Result = std::optional<Polynomial>;

Result sum(const Polynomial& a, const Polynomial& b, double sign) {
  Polynomial result = a;
  for (std::size_t i = 0; i < Polynomial::kPowersOfX; ++i)
    for (std::size_t j = 0; j < Polynomial::kPowersOfG; ++j)
      if (!result.add(i, j, sign * b.at(i, j))) return {};
  return result;
}

Result multiplied(const Polynomial& a, const Polynomial& b) {
  Polynomial result;
  for (std::size_t i = 0; i < Polynomial::kPowersOfX * Polynomial::kPowersOfX; ++i)
    for (std::size_t j = 0; j < Polynomial::kPowersOfG * Polynomial::kPowersOfG; ++j) {
      const std::size_t ai = i / Polynomial::kPowersOfX, bi = i % Polynomial::kPowersOfX;
      const std::size_t aj = j / Polynomial::kPowersOfG, bj = j % Polynomial::kPowersOfG;
      if (!result.add(ai + bi, aj + bj, a.at(ai, aj) * b.at(bi, bj))) return {};
    }
  return result;
}

Result power(const Polynomial& a, double exponent) {
  if (exponent != 2 && exponent != 3) return {};
  Result result = multiplied(a, a);
  return result && exponent == 3 ? multiplied(*result, a) : result;
}

// Expands a value to a polynomial of `x` and `g`; none if it depends on anything else.
class Expansion {
 public:
  Expansion(const GraphEditor& edit, ValueId x, ValueId g) : edit_(edit), x_(x), g_(g) {}

  Result of(ValueId value, int depth = kMaxDepth) const {
    if (value == kNoValue) return {};
    if (value == x_) return Polynomial{{1, 0, 1.0}};
    if (value == g_) return Polynomial{{0, 1, 1.0}};
    if (const auto number = edit_.scalar(value))
      return Polynomial::constant(unrounded(*number, edit_.constant(value).dtype()));
    const NodeId id = edit_.producer(value);
    if (id == kNoNode || depth == 0) return {};
    const Node& node = edit_.node(id);
    if (!is_onnx(node, node.op) || node.inputs.empty() || node.inputs.size() > 2) return {};
    const Result a = of(node.inputs[0], depth - 1);
    if (!a) return {};
    if (node.inputs.size() == 1) return node.op == "Neg" ? sum(Polynomial(), *a, -1) : std::nullopt;
    const Result b = of(node.inputs[1], depth - 1);
    return b ? two(node.op, *a, *b) : std::nullopt;
  }

 private:
  static Result two(std::string_view op, const Polynomial& a, const Polynomial& b) {
    if (op == "Add") return sum(a, b, 1);
    if (op == "Sub") return sum(a, b, -1);
    if (op == "Mul") return multiplied(a, b);
    const auto number = b.as_constant();
    if (!number || *number == 0) return {};
    if (op == "Pow") return power(a, *number);
    const Result inverse = Polynomial::constant(1 / *number);
    return op == "Div" && inverse ? multiplied(a, *inverse) : std::nullopt;
  }

  const GraphEditor& edit_;
  ValueId x_, g_;
};

// The characteristic function of hard swish: the argument, limited to [0, high].
struct Ramp {
  Polynomial argument;
  double high;
};

std::optional<Ramp> ramp_of(const GraphEditor& edit, NodeId id, const Polynomial& argument) {
  const Node& node = edit.node(id);
  if (node.op == "Clip") {
    const auto bounds = bounds_of(edit, id);
    if (!bounds || bounds->low != 0.0f || !bounds->high) return {};
    return Ramp{argument, static_cast<double>(*bounds->high)};
  }
  const Result factor =
      Polynomial::constant(static_cast<double>(node.attributes.real("alpha", 0.2f)));
  const Result shift =
      Polynomial::constant(static_cast<double>(node.attributes.real("beta", 0.5f)));
  const Result product = factor ? multiplied(argument, *factor) : std::nullopt;
  const Result total = product && shift ? sum(*product, *shift, 1) : std::nullopt;
  return total ? std::optional(Ramp{*total, 1}) : std::nullopt;
}

// Whether result = x * clamp(x / 6 + 1 / 2, 0, 1), for result = factor * x * ramp.
bool is_hard_swish(const Ramp& ramp, const Polynomial& result) {
  const double factor = result.at(1, 1);
  const Result gate = multiplied(ramp.argument, Polynomial{{0, 0, factor}});
  return gate && gate->is_near({{1, 0, 1.0 / 6}, {0, 0, 0.5}}) &&
         std::abs(factor * ramp.high - 1) <= kTolerance && result.is_near({{1, 1, factor}});
}

// The activation of `x` that `result` is, by the characteristic node `part`.
std::optional<Chain::Op> activation_of(const GraphEditor& edit, NodeId part, ValueId x,
                                       ValueId result) {
  const Node& node = edit.node(part);
  const Result argument = Expansion(edit, x, kNoValue).of(node.inputs[0]);
  if (!argument) return {};
  const Result expanded = Expansion(edit, x, node.outputs[0]).of(result);
  if (!expanded) return {};
  const Polynomial half_of_both{{1, 0, 0.5}, {1, 1, 0.5}};
  if (node.op == "Erf") {
    const Polynomial scaled{{1, 0, std::numbers::sqrt2 / 2}};
    if (argument->is_near(scaled) && expanded->is_near(half_of_both)) return Chain::Op::gelu;
  } else if (node.op == "Tanh") {
    const Polynomial cubic{{1, 0, kTanhScale}, {3, 0, kTanhScale * kTanhCubic}};
    if (argument->is_near(cubic) && expanded->is_near(half_of_both)) return Chain::Op::gelu_tanh;
  } else if (node.op == "Sigmoid") {
    if (argument->is_near({{1, 0, 1.0}}) && expanded->is_near({{1, 1, 1.0}}))
      return Chain::Op::silu;
  } else if (const auto ramp = ramp_of(edit, part, *argument)) {
    if (is_hard_swish(*ramp, *expanded)) return Chain::Op::hard_swish;
  }
  return {};
}

bool is_characteristic(const Node& node) {
  constexpr std::string_view kOps[] = {"Erf", "Tanh", "Sigmoid", "Clip", "HardSigmoid"};
  return is_onnx(node, node.op) && std::ranges::find(kOps, node.op) != std::end(kOps);
}

// Candidate arguments of the function, nearest first.
std::vector<ValueId> arguments(const GraphEditor& edit, NodeId id) {
  std::vector<ValueId> found{edit.node(id).inputs[0]};
  for (std::size_t i = 0; i < found.size() && found.size() < 16; ++i) {
    const NodeId maker = edit.producer(found[i]);
    if (maker == kNoNode || edit.node(maker).inputs.size() > 2) continue;
    for (const ValueId input : edit.node(maker).inputs)
      if (input != kNoValue && !edit.constant(input) &&
          std::find(found.begin(), found.end(), input) == found.end())
        found.push_back(input);
  }
  return found;
}

void put_chain(GraphEditor& edit, NodeId old, ValueId from, Chain::Op op) {
  const Node& node = edit.node(old);
  Node chain = fused("Chain", node.name, {from}, {node.outputs[0]});
  write(Chain{1, {{op, 0}}}, chain.attributes);
  replace_node(edit, old, std::move(chain));
}

bool fuse_decomposed_activation(GraphEditor& edit, NodeId part) {
  const std::vector<ValueId> from = arguments(edit, part);
  NodeId last = part;
  for (int i = 0; i < kAfter; ++i) {
    last = edit.only_user(edit.node(last).outputs[0]);
    if (last == kNoNode || edit.node(last).outputs.size() != 1) return false;
    const ValueId result = edit.node(last).outputs[0];
    for (const ValueId x : from) {
      if (edit.type(x) != edit.type(result)) continue;
      const auto op = activation_of(edit, part, x, result);
      if (!op) continue;
      put_chain(edit, last, x, *op);
      return true;
    }
  }
  return false;
}

// ONNX operators that are such a function.
std::optional<Chain::Op> onnx_activation(const Node& node) {
  if (is_onnx(node, "Gelu"))
    return node.attributes.string("approximate", "none") == "tanh" ? Chain::Op::gelu_tanh
                                                                   : Chain::Op::gelu;
  if (is_onnx(node, "HardSwish")) return Chain::Op::hard_swish;
  if (is_onnx(node, "Swish") && node.attributes.real("alpha", 1) == 1) return Chain::Op::silu;
  return {};
}

}  // namespace

int fuse_activations(GraphEditor& edit) {
  int changes = 0;
  for (const NodeId id : edit.nodes()) {
    if (edit.removed(id)) continue;
    const Node& node = edit.node(id);
    if (node.inputs.empty() || node.inputs[0] == kNoValue || node.outputs.size() != 1 ||
        !is_fusable(edit.type(node.inputs[0]).dtype))
      continue;
    if (const auto op = onnx_activation(node)) {
      put_chain(edit, id, node.inputs[0], *op);
      ++changes;
      continue;
    }
    if (is_characteristic(node) && fuse_decomposed_activation(edit, id)) ++changes;
  }
  return changes;
}

}  // namespace sluice::engine
