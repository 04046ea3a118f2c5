// A program of typed elementwise instructions. A kernel for it is compiled at run time by NVRTC, or
// interpreted where there is no NVRTC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace sluice::kernels::cuda {

// The operators op_<name> of element_ops.inc. The interpreter implements the first ones of each
// list for f64 too.
// clang-format off
#define SLUICE_ELEMENT_UNARY(X)                                                            \
  X(negate) X(absolute) X(sign) X(relu) X(bit_not) X(reciprocal) X(square_root)            \
  X(exponential) X(exponential_less_one) X(logarithm) X(error_function) X(tanh) X(sigmoid) \
  X(gelu) X(gelu_tanh) X(silu) X(hard_swish) X(softplus) X(softsign) X(mish) X(floor)      \
  X(ceil) X(round) X(sine) X(cosine) X(tangent) X(arc_sine) X(arc_cosine) X(arc_tangent)   \
  X(hyperbolic_sine) X(hyperbolic_cosine) X(area_sine) X(area_cosine) X(area_tangent)
#define SLUICE_ELEMENT_BINARY(X)                                                           \
  X(add) X(subtract) X(multiply) X(divide) X(minimum) X(maximum) X(remainder) X(modulo)    \
  X(power) X(bit_and) X(bit_or) X(bit_xor) X(shift_left) X(shift_right)
// clang-format on
#define SLUICE_ELEMENT_COMPARISON(X) X(equal) X(differs) X(less) X(less_or_equal)

enum class ElementOp : std::int16_t {
  constant,
  convert,  // a, to the instruction's kind
  select,   // a != 0 ? b : c
#define SLUICE_NAME(NAME) NAME,
  SLUICE_ELEMENT_UNARY(SLUICE_NAME) SLUICE_ELEMENT_BINARY(SLUICE_NAME)
      SLUICE_ELEMENT_COMPARISON(SLUICE_NAME)
#undef SLUICE_NAME
};
std::string_view name_of(ElementOp op);
// Finds an operator that has operands; false where there is none of this name.
bool find_op(std::string_view name, ElementOp& op);

// The type of computation: f32 for f16 and bf16 too, i64 for integers and booleans.
enum class ElementKind : std::int16_t { f32, f64, i64, u64 };
ElementKind kind_of(DType type);
bool is_element_type(DType type);  // whether programs support it

// `kind` is that of the operands; comparisons return i64.
struct ElementInstruction {
  ElementOp op;
  ElementKind kind;
  std::int16_t a = -1, b = -1, c = -1;
  std::int16_t unused = 0;
  double real = 0;           // of a constant f32 or f64
  std::int64_t integer = 0;  // of a constant i64 or u64
};

// Values are numbered: inputs, then instructions.
class ElementProgram {
 public:
  int input(DType type);
  int constant(ElementKind kind, double value);
  int convert(ElementKind to, int a);  // returns a where it has that kind
  int apply(ElementOp op, int a, int b = -1);
  int select(int test, int a, int b);

  ElementKind kind(int value) const;  // of a value
  const std::vector<DType>& inputs() const noexcept { return inputs_; }
  const std::vector<ElementInstruction>& instructions() const noexcept { return instructions_; }
  int values() const noexcept { return static_cast<int>(inputs_.size() + instructions_.size()); }

  // Sets the value that is written, and its type. Call it last.
  void result(int value, DType type);
  int result() const noexcept { return result_; }
  DType output() const noexcept { return output_; }

 private:
  int add(ElementInstruction instruction);

  std::vector<DType> inputs_;
  std::vector<ElementInstruction> instructions_;
  int result_ = 0;
  DType output_ = DType::none;
};

}  // namespace sluice::kernels::cuda
