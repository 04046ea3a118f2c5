// Elementwise operators that follow each other, as one function.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace sluice::kernels {

// A function of elements, in steps. Values are numbered: the inputs first, then one for each
// step; the last is the result. Computed in float, whatever the element type.
struct Chain {
  enum class Op {
    constant,
    add,
    subtract,
    multiply,
    divide,
    power,
    minimum,
    maximum,  // two
    negate,
    absolute,
    reciprocal,
    square_root,
    exponential,
    logarithm,
    error_function,  // one
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
  struct Step {
    Op op;
    int a = -1, b = -1;  // operands; b of those with two
    float value = 0;     // of constant
  };
  int inputs = 0;
  std::vector<Step> steps;

  static int operands(Op op);
  static std::string_view name(Op op);
  static std::optional<Op> op_named(std::string_view name);
};

}  // namespace sluice::kernels
