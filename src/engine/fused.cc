#include "engine/fused.h"

#include <array>
#include <charconv>
#include <cmath>
#include <numbers>
#include <sstream>

#include "base/error.h"

namespace sluice::engine {
namespace {

// In the order of the enumerators.
constexpr std::array<std::string_view, 9> kActivations = {
    "none", "relu", "gelu", "gelu_tanh", "tanh", "sigmoid", "silu", "hard_swish", "clip"};

using enum Chain::Op;
struct Known {
  std::string_view name;
  int operands;
};
constexpr std::array<Known, 27> kSteps = {{
    {"constant", 0},    {"add", 2},        {"subtract", 2},       {"multiply", 2},
    {"divide", 2},      {"power", 2},      {"minimum", 2},        {"maximum", 2},
    {"negate", 1},      {"absolute", 1},   {"reciprocal", 1},     {"square_root", 1},
    {"exponential", 1}, {"logarithm", 1},  {"error_function", 1}, {"tanh", 1},
    {"sigmoid", 1},     {"relu", 1},       {"gelu", 1},           {"gelu_tanh", 1},
    {"silu", 1},        {"hard_swish", 1}, {"softplus", 1},       {"floor", 1},
    {"ceil", 1},        {"sine", 1},       {"cosine", 1},
}};
static_assert(kSteps[static_cast<std::size_t>(cosine)].name == "cosine");
static_assert(kSteps[static_cast<std::size_t>(gelu)].name == "gelu");

const Known& known(Chain::Op op) { return kSteps[static_cast<std::size_t>(op)]; }

// All of `text` as a number.
template <class T>
T number(const std::string& text, const std::string& code) {
  T value{};
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  require(read.ec == std::errc() && read.ptr == text.data() + text.size(),
          "'" + code + "' is no step of a chain");
  return value;
}

std::string to_text(float value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

// `values`: how many are made before it.
Chain::Step parse_step(const std::string& code, int values) {
  std::istringstream words(code);
  std::string word;
  std::vector<std::string> rest;
  words >> word;
  std::size_t op = 0;
  while (op < kSteps.size() && kSteps[op].name != word) ++op;
  require(op < kSteps.size(), "'" + code + "' names no step of a chain");
  Chain::Step step{static_cast<Chain::Op>(op)};
  while (words >> word) rest.push_back(word);
  const int operands = kSteps[op].operands;
  require(static_cast<int>(rest.size()) == std::max(1, operands),
          "'" + code + "' is no step of a chain");
  if (step.op == constant) {
    step.value = number<float>(rest[0], code);
    return step;
  }
  step.a = number<int>(rest[0], code);
  if (operands == 2) step.b = number<int>(rest[1], code);
  const auto made = [&](int value) { return value >= 0 && value < values; };
  require(made(step.a) && (operands < 2 || made(step.b)),
          "'" + code + "' uses a value that is not made yet");
  return step;
}

}  // namespace

Rounding Rounding::of(const Attributes& attributes) {
  return {.residual_scale = attributes.real("residual_scale", 1),
          .to_scale = attributes.real("to_scale", 1),
          .residual_zero = static_cast<int>(attributes.integer("residual_zero", 0)),
          .to_zero = static_cast<int>(attributes.integer("to_zero", 0)),
          .to = attributes.dtype("to_type", DType::f32)};
}

std::string_view to_string(Activation activation) {
  return kActivations[static_cast<std::size_t>(activation)];
}

std::optional<Activation> activation_named(std::string_view name) {
  for (std::size_t i = 0; i < kActivations.size(); ++i)
    if (kActivations[i] == name) return static_cast<Activation>(i);
  return std::nullopt;
}

Epilogue Epilogue::of(const Attributes& attributes) {
  const std::string name = attributes.string("activation", "none");
  const std::optional<Activation> activation = activation_named(name);
  require(activation.has_value(), "activation '" + name + "' is not known");
  return {*activation, attributes.real("low", 0), attributes.real("high", 0)};
}

void Epilogue::write(Attributes& to) const {
  to.set("activation", std::string(to_string(activation)));
  to.erase("low");
  to.erase("high");
  if (activation != Activation::clip) return;
  to.set("low", low);
  to.set("high", high);
}

double Epilogue::operator()(double x) const {
  switch (activation) {
    case Activation::none: return x;
    case Activation::relu: return x < 0 ? 0 : x;
    case Activation::gelu: return 0.5 * x * (1 + std::erf(x * std::numbers::sqrt2 / 2));
    case Activation::gelu_tanh:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::tanh: return std::tanh(x);
    case Activation::sigmoid: return 1 / (1 + std::exp(-x));
    case Activation::silu: return x / (1 + std::exp(-x));
    case Activation::hard_swish: return x * std::max(0.0, std::min(1.0, x / 6 + 0.5));
    case Activation::clip: {
      const double above = x < static_cast<double>(low) ? static_cast<double>(low) : x;
      return above > static_cast<double>(high) ? static_cast<double>(high) : above;
    }
  }
  return x;
}

int Chain::operands(Op op) { return known(op).operands; }
std::string_view Chain::name(Op op) { return known(op).name; }

Chain Chain::of(const Attributes& attributes, std::size_t inputs) {
  Chain chain{static_cast<int>(inputs), {}};
  for (const std::string& code : attributes.strings("code"))
    chain.steps.push_back(parse_step(code, chain.inputs + static_cast<int>(chain.steps.size())));
  require(!chain.steps.empty(), "the chain has no steps");
  return chain;
}

void Chain::write(Attributes& to) const {
  Attributes::Strings code;
  for (const Step& step : steps) {
    std::string line(name(step.op));
    if (step.op == Op::constant) line += " " + to_text(step.value);
    if (operands(step.op) > 0) line += " " + std::to_string(step.a);
    if (operands(step.op) > 1) line += " " + std::to_string(step.b);
    code.push_back(std::move(line));
  }
  to.set("code", std::move(code));
}

}  // namespace sluice::engine
