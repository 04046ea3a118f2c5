#include "engine/graph/fused_ops.h"

#include <array>
#include <charconv>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"

namespace sluice::engine {
namespace {

// Parses the entire `text` as a number.
template <class T>
T number(const std::string& text, const std::string& code) {
  T value{};
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  require(read.ec == std::errc() && read.ptr == text.data() + text.size(),
          "'" + code + "' is no instruction of a chain");
  return value;
}

std::string to_text(float value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

// `values`: the number of values computed before it.
Chain::Instruction parse_instruction(const std::string& code, int values) {
  std::istringstream words(code);
  std::string word;
  std::vector<std::string> rest;
  words >> word;
  const std::optional<Chain::Op> op = Chain::op_named(word);
  require(op.has_value(), "'" + code + "' names no instruction of a chain");
  Chain::Instruction instruction{*op};
  while (words >> word) rest.push_back(word);
  const int operands = Chain::operands(*op);
  require(static_cast<int>(rest.size()) == std::max(1, operands),
          "'" + code + "' is no instruction of a chain");
  if (instruction.op == Chain::Op::constant) {
    instruction.value = number<float>(rest[0], code);
    return instruction;
  }
  instruction.a = number<int>(rest[0], code);
  if (operands == 2) instruction.b = number<int>(rest[1], code);
  const auto made = [&](int value) { return value >= 0 && value < values; };
  require(made(instruction.a) && (operands < 2 || made(instruction.b)),
          "'" + code + "' uses a value that is not computed yet");
  return instruction;
}

}  // namespace

kernels::TokenPooling token_pooling_of(const Attributes& attributes) {
  const std::string name = attributes.string("pooling", "");
  const auto pooling = kernels::token_pooling_named(name);
  require(pooling.has_value(), "'" + name + "' names no pooling of tokens");
  return *pooling;
}

QuantParams quant_params_of(const Attributes& attributes) {
  return {.residual_scale = attributes.real("residual_scale", 1),
          .to_scale = attributes.real("to_scale", 1),
          .residual_zero = static_cast<int>(attributes.integer("residual_zero", 0)),
          .to_zero = static_cast<int>(attributes.integer("to_zero", 0)),
          .to = attributes.dtype("to_type", DType::f32)};
}

ActivationParams activation_params_of(const Attributes& attributes) {
  const std::string name = attributes.string("activation", "none");
  const std::optional<Activation> activation = activation_named(name);
  require(activation.has_value(), "activation '" + name + "' is not known");
  return {*activation, attributes.real("low", 0), attributes.real("high", 0)};
}

void write(const ActivationParams& activation, Attributes& to) {
  to.set("activation", std::string(to_string(activation.activation)));
  to.erase("low");
  to.erase("high");
  if (activation.activation != Activation::clip) return;
  to.set("low", activation.low);
  to.set("high", activation.high);
}

Chain chain_of(const Attributes& attributes, std::size_t inputs) {
  Chain chain{static_cast<int>(inputs), {}};
  for (const std::string& code : attributes.strings("code"))
    chain.instructions.push_back(
        parse_instruction(code, chain.inputs + static_cast<int>(chain.instructions.size())));
  require(!chain.instructions.empty(), "the chain has no instructions");
  return chain;
}

void write(const Chain& chain, Attributes& to) {
  Attributes::Strings code;
  for (const Chain::Instruction& instruction : chain.instructions) {
    const int operands = Chain::operands(instruction.op);
    std::string line(Chain::name(instruction.op));
    if (instruction.op == Chain::Op::constant) line += " " + to_text(instruction.value);
    if (operands > 0) line += " " + std::to_string(instruction.a);
    if (operands > 1) line += " " + std::to_string(instruction.b);
    code.push_back(std::move(line));
  }
  to.set("code", std::move(code));
}

}  // namespace sluice::engine
