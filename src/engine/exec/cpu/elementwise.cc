#include "engine/exec/cpu/elementwise.h"

#include <array>
#include <cmath>

namespace sluice::engine::cpu {
namespace {

struct Known {
  std::string_view op;
  Chain::Op chain_op;
};
constexpr auto kKnown = [] {
  using enum Chain::Op;
  return std::to_array<Known>({
      {"Add", add},
      {"Sub", subtract},
      {"Mul", multiply},
      {"Div", divide},
      {"Pow", power},
      {"Min", minimum},
      {"Max", maximum},
      {"Sum", add},
      {"Neg", negate},
      {"Abs", absolute},
      {"Reciprocal", reciprocal},
      {"Sqrt", square_root},
      {"Exp", exponential},
      {"Log", logarithm},
      {"Erf", error_function},
      {"Tanh", tanh},
      {"Sigmoid", sigmoid},
      {"Relu", relu},
      {"Gelu", gelu},
      {"HardSwish", hard_swish},
      {"Softplus", softplus},
      {"Floor", floor},
      {"Ceil", ceil},
      {"Sin", sine},
      {"Cos", cosine},
  });
}();

class Builder {
 public:
  explicit Builder(std::vector<std::size_t> inputs) {
    made_.chain.inputs = static_cast<int>(inputs.size());
    made_.inputs = std::move(inputs);
  }

  int apply(Chain::Op op, int a, int b = -1) { return append({op, a, b}); }
  int number(float value) { return append({Chain::Op::constant, -1, -1, value}); }
  Single finish() { return std::move(made_); }

 private:
  int append(const Chain::Instruction& instruction) {
    made_.chain.instructions.push_back(instruction);
    return made_.chain.inputs + static_cast<int>(made_.chain.instructions.size()) - 1;
  }
  Single made_;
};

// A variadic operator, applied pairwise from the left.
Single join(Chain::Op op, std::size_t inputs) {
  std::vector<std::size_t> all(inputs);
  for (std::size_t i = 0; i < inputs; ++i) all[i] = i;
  Builder build(std::move(all));
  int so_far = 0;
  for (int i = 1; i < static_cast<int>(inputs); ++i) so_far = build.apply(op, so_far, i);
  return build.finish();
}

// Bounds are attributes before opset 11, and inputs from then on.
Single clip(const Node& node) {
  std::vector<std::size_t> inputs{0};
  std::vector<std::pair<Chain::Op, std::optional<float>>> bounds;
  const auto bound = [&](Chain::Op op, std::size_t input, std::string_view attribute) {
    if (node.version >= 11) {
      if (input >= node.inputs.size() || node.inputs[input] == kNoValue) return;
      inputs.push_back(input);
      bounds.emplace_back(op, std::nullopt);
    } else if (node.attributes.has(attribute)) {
      bounds.emplace_back(op, node.attributes.real(attribute, 0));
    }
  };
  bound(Chain::Op::maximum, 1, "min");
  bound(Chain::Op::minimum, 2, "max");
  Builder build(inputs);
  int so_far = 0, input = 1;
  for (const auto& [op, value] : bounds)
    so_far = build.apply(op, so_far, value ? build.number(*value) : input++);
  return build.finish();
}

// The sum of both halves; 0 times a slope that is no number would be NaN in the other half.
std::optional<Single> leaky_relu(const Node& node) {
  if (!std::isfinite(node.attributes.real("alpha", 0.01f))) return std::nullopt;
  using enum Chain::Op;
  Builder build({0});
  const int low = build.apply(minimum, 0, build.number(0));
  const int scaled = build.apply(multiply, low, build.number(node.attributes.real("alpha", 0.01f)));
  build.apply(add, build.apply(relu, 0), scaled);
  return build.finish();
}

Single hard_sigmoid(const Node& node) {
  using enum Chain::Op;
  Builder build({0});
  const int scaled = build.apply(multiply, 0, build.number(node.attributes.real("alpha", 0.2f)));
  const int moved = build.apply(add, scaled, build.number(node.attributes.real("beta", 0.5f)));
  build.apply(maximum, build.apply(minimum, moved, build.number(1)), build.number(0));
  return build.finish();
}

}  // namespace

std::optional<Single> as_chain(const Node& node) {
  if (!node.domain.empty() || node.inputs.empty()) return std::nullopt;
  for (const std::string_view unlike : {"broadcast", "consumed_inputs"})
    if (node.attributes.has(unlike)) return std::nullopt;
  if (node.op == "Clip") return clip(node);
  if (node.op == "LeakyRelu") return leaky_relu(node);
  if (node.op == "HardSigmoid") return hard_sigmoid(node);
  for (const Known& known : kKnown) {
    if (known.op != node.op) continue;
    const std::string how = node.attributes.string("approximate", "none");
    const Chain::Op op = node.op == "Gelu" && how == "tanh" ? Chain::Op::gelu_tanh : known.chain_op;
    if (Chain::operands(op) == 2) return join(op, node.inputs.size());
    Builder build({0});
    build.apply(op, 0);
    return build.finish();
  }
  return std::nullopt;
}

}  // namespace sluice::engine::cpu
