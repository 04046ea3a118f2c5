// A function of elements in typed steps, of which a kernel is made: by a compiler at run time,
// or step by step where there is none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace sluice::kernels::cuda {

// op_<name> of element_ops.inc. The first of each list are known for f64 step by step, too.
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
#define SLUICE_ELEMENT_TEST(X) X(equal) X(differs) X(less) X(less_or_equal)

enum class ElementOp : std::int16_t {
  constant,
  convert,  // a, as the step's kind
  select,   // a != 0 ? b : c
#define SLUICE_NAME(NAME) NAME,
  SLUICE_ELEMENT_UNARY(SLUICE_NAME) SLUICE_ELEMENT_BINARY(SLUICE_NAME)
      SLUICE_ELEMENT_TEST(SLUICE_NAME)
#undef SLUICE_NAME
};
std::string_view name_of(ElementOp op);
// Of one with operands; false where there is none.
bool find_op(std::string_view name, ElementOp& op);

// What values are computed in: f16 and bf16 in f32, integers and booleans in i64.
enum class ElementKind : std::int16_t { f32, f64, i64, u64 };
ElementKind kind_of(DType type);
bool is_element_type(DType type);  // one that programs take

// The kind is that of the operands; tests give i64.
struct ElementStep {
  ElementOp op;
  ElementKind kind;
  std::int16_t a = -1, b = -1, c = -1;
  std::int16_t unused = 0;
  double real = 0;         // of a constant f32 or f64
  std::int64_t whole = 0;  // of a constant i64 or u64
};

// Values are numbered: inputs, then steps. The last is the result, or the one input.
class ElementProgram {
 public:
  int input(DType type);
  int constant(ElementKind kind, double value);
  int convert(ElementKind to, int a);  // a itself where it is that already
  int apply(ElementOp op, int a, int b = -1);
  int select(int test, int a, int b);

  ElementKind kind(int value) const;  // of a value
  const std::vector<DType>& inputs() const noexcept { return inputs_; }
  const std::vector<ElementStep>& steps() const noexcept { return steps_; }
  int values() const noexcept { return static_cast<int>(inputs_.size() + steps_.size()); }

  // What value is written, as that type. Call it last.
  void result(int value, DType type);
  int result() const noexcept { return result_; }
  DType output() const noexcept { return output_; }

 private:
  int add(ElementStep step);

  std::vector<DType> inputs_;
  std::vector<ElementStep> steps_;
  int result_ = 0;
  DType output_ = DType::none;
};

}  // namespace sluice::kernels::cuda
