#include "kernels/elementwise/element_program.h"

#include <array>

namespace sluice::kernels::cuda {
namespace {

#define SLUICE_NAME(NAME) std::string_view(#NAME),
constexpr std::array kNames = {std::string_view("constant"), std::string_view("convert"),
                               std::string_view("select"),
                               SLUICE_ELEMENT_UNARY(SLUICE_NAME) SLUICE_ELEMENT_BINARY(SLUICE_NAME)
                                   SLUICE_ELEMENT_COMPARISON(SLUICE_NAME)};
#undef SLUICE_NAME

bool is_comparison(ElementOp op) { return op >= ElementOp::equal; }

}  // namespace

std::string_view name_of(ElementOp op) { return kNames[static_cast<std::size_t>(op)]; }

bool find_op(std::string_view name, ElementOp& op) {
  for (std::size_t i = static_cast<std::size_t>(ElementOp::negate); i < kNames.size(); ++i)
    if (kNames[i] == name) {
      op = static_cast<ElementOp>(i);
      return true;
    }
  return false;
}

ElementKind kind_of(DType type) {
  if (type == DType::f64) return ElementKind::f64;
  if (type == DType::u64) return ElementKind::u64;
  return is_float(type) ? ElementKind::f32 : ElementKind::i64;
}

bool is_element_type(DType type) {
  switch (type) {
    case DType::f32:
    case DType::f64:
    case DType::f16:
    case DType::bf16:
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::i64:
    case DType::u8:
    case DType::u16:
    case DType::u32:
    case DType::u64:
    case DType::boolean: return true;
    default: return false;
  }
}

int ElementProgram::input(DType type) {
  inputs_.push_back(type);
  return static_cast<int>(inputs_.size()) - 1;
}

int ElementProgram::add(ElementInstruction instruction) {
  instructions_.push_back(instruction);
  return values() - 1;
}

int ElementProgram::constant(ElementKind kind, double value) {
  ElementInstruction instruction{ElementOp::constant, kind};
  instruction.real = value;
  instruction.integer =
      static_cast<std::int64_t>(kind == ElementKind::f32 || kind == ElementKind::f64 ? 0 : value);
  return add(instruction);
}

int ElementProgram::convert(ElementKind to, int a) {
  if (kind(a) == to) return a;
  return add({ElementOp::convert, to, static_cast<std::int16_t>(a)});
}

int ElementProgram::apply(ElementOp op, int a, int b) {
  return add({op, kind(a), static_cast<std::int16_t>(a), static_cast<std::int16_t>(b)});
}

int ElementProgram::select(int test, int a, int b) {
  return add({ElementOp::select, kind(a), static_cast<std::int16_t>(test),
              static_cast<std::int16_t>(a), static_cast<std::int16_t>(b)});
}

ElementKind ElementProgram::kind(int value) const {
  const auto i = static_cast<std::size_t>(value);
  if (i < inputs_.size()) return kind_of(inputs_[i]);
  const ElementInstruction& instruction = instructions_[i - inputs_.size()];
  return is_comparison(instruction.op) ? ElementKind::i64 : instruction.kind;
}

void ElementProgram::result(int value, DType type) {
  result_ = value;
  output_ = type;
}

}  // namespace sluice::kernels::cuda
