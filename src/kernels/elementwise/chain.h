// A chain of elementwise operators, fused into one function.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace sluice::kernels {

// A function of elements as a list of instructions. Values are numbered: the inputs first, then one
// for each instruction; the last one is the result. It is computed in float for all element types.
struct Chain {
  enum class Op {
    constant,
    add,
    subtract,
    multiply,
    divide,
    power,
    minimum,
    maximum,  // the last one with two operands
    negate,
    absolute,
    reciprocal,
    square_root,
    exponential,
    logarithm,
    error_function,
    tanh,
    sigmoid,
    relu,
    gelu,
    gelu_tanh,
    silu,
    hard_swish,
    softplus,
    floor,
    ceil,
    sine,
    cosine,
  };
  struct Instruction {
    Op op;
    int a = -1, b = -1;  // operands; b: -1 with one operand
    float value = 0;     // of constant
  };
  int inputs = 0;
  std::vector<Instruction> instructions;

  static int operands(Op op);
  static std::string_view name(Op op);
  static std::optional<Op> op_named(std::string_view name);
};

}  // namespace sluice::kernels
