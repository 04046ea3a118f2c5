#include <cuda_fp16.h>

#include "kernels/common/launch.cuh"
#include "kernels/elementwise/element_interpreter.h"

namespace sluice::kernels::cuda {
namespace {

__device__ inline float half_to_float(unsigned short x) {
  return __half2float(__ushort_as_half(x));
}
__device__ inline unsigned short float_to_half(float x) {
  return __half_as_ushort(__float2half_rn(x));
}
__device__ inline unsigned short double_to_half(double x) {
  return __half_as_ushort(__double2half(x));
}

#pragma nv_diag_suppress 186  // unsigned integers are compared with 0
#define SLUICE_CODE(...) __VA_ARGS__
#include "kernels/elementwise/element_ops.inc"
#undef SLUICE_CODE

union Value {
  float f32;
  double f64;
  i64 i64_value;
  u64 u64_value;
};

template <class W>
__device__ W get(const Value& value);
template <>
__device__ float get<float>(const Value& value) {
  return value.f32;
}
template <>
__device__ double get<double>(const Value& value) {
  return value.f64;
}
template <>
__device__ i64 get<i64>(const Value& value) {
  return value.i64_value;
}
template <>
__device__ u64 get<u64>(const Value& value) {
  return value.u64_value;
}
__device__ Value value_of(float x) {
  Value v;
  v.f32 = x;
  return v;
}
__device__ Value value_of(double x) {
  Value v;
  v.f64 = x;
  return v;
}
__device__ Value value_of(i64 x) {
  Value v;
  v.i64_value = x;
  return v;
}
__device__ Value value_of(u64 x) {
  Value v;
  v.u64_value = x;
  return v;
}

struct Inputs {
  const void* at[kMaxElementInputs];
};

__device__ Value load(DType type, const void* from, std::int64_t i) {
  switch (type) {
    case DType::f32: return value_of(static_cast<const float*>(from)[i]);
    case DType::f64: return value_of(static_cast<const double*>(from)[i]);
    case DType::f16: return value_of(load_f16(static_cast<const unsigned short*>(from)[i]));
    case DType::bf16: return value_of(load_bf16(static_cast<const unsigned short*>(from)[i]));
    case DType::i8: return value_of(load_i8(static_cast<const signed char*>(from)[i]));
    case DType::i16: return value_of(load_i16(static_cast<const short*>(from)[i]));
    case DType::i32: return value_of(load_i32(static_cast<const int*>(from)[i]));
    case DType::u8: return value_of(load_u8(static_cast<const unsigned char*>(from)[i]));
    case DType::u16: return value_of(load_u16(static_cast<const unsigned short*>(from)[i]));
    case DType::u32: return value_of(load_u32(static_cast<const unsigned*>(from)[i]));
    case DType::u64: return value_of(static_cast<const u64*>(from)[i]);
    case DType::boolean: return value_of(load_bool(static_cast<const unsigned char*>(from)[i]));
    default: return value_of(static_cast<const i64*>(from)[i]);
  }
}

template <class W>
__device__ void store(DType type, void* to, std::int64_t i, W x) {
  switch (type) {
    case DType::f32: static_cast<float*>(to)[i] = store_f32(x); break;
    case DType::f64: static_cast<double*>(to)[i] = store_f64(x); break;
    case DType::f16: static_cast<unsigned short*>(to)[i] = store_f16(x); break;
    case DType::bf16: static_cast<unsigned short*>(to)[i] = store_bf16(x); break;
    case DType::i8: static_cast<signed char*>(to)[i] = store_i8(x); break;
    case DType::i16: static_cast<short*>(to)[i] = store_i16(x); break;
    case DType::i32: static_cast<int*>(to)[i] = store_i32(x); break;
    case DType::u8: static_cast<unsigned char*>(to)[i] = store_u8(x); break;
    case DType::u16: static_cast<unsigned short*>(to)[i] = store_u16(x); break;
    case DType::u32: static_cast<unsigned*>(to)[i] = store_u32(x); break;
    case DType::u64: static_cast<u64*>(to)[i] = store_u64(x); break;
    case DType::boolean: static_cast<unsigned char*>(to)[i] = store_bool(x); break;
    default: static_cast<i64*>(to)[i] = store_i64(x); break;
  }
}

__device__ Value converted(ElementKind from, ElementKind to, const Value& x) {
  const auto as = [&](auto value) {
    switch (to) {
      case ElementKind::f32: return value_of(to_f32(value));
      case ElementKind::f64: return value_of(to_f64(value));
      case ElementKind::u64: return value_of(to_u64(value));
      default: return value_of(to_i64(value));
    }
  };
  switch (from) {
    case ElementKind::f32: return as(x.f32);
    case ElementKind::f64: return as(x.f64);
    case ElementKind::u64: return as(x.u64_value);
    default: return as(x.i64_value);
  }
}

// For f64 only basic functions are compiled: the others take long and are rare.
constexpr ElementOp kLastBasicUnary = ElementOp::relu, kLastBasicBinary = ElementOp::maximum;

template <class W>
__device__ Value apply(ElementOp op, const Value& a, const Value& b) {
  const W x = get<W>(a), y = get<W>(b);
  switch (op) {
#define SLUICE_CASE(NAME)                                                           \
  case ElementOp::NAME:                                                             \
    if constexpr (!std::is_same_v<W, double> || ElementOp::NAME <= kLastBasicUnary) \
      return value_of(op_##NAME<W>(x));                                             \
    break;
    SLUICE_ELEMENT_UNARY(SLUICE_CASE)
#undef SLUICE_CASE
#define SLUICE_CASE(NAME)                                                            \
  case ElementOp::NAME:                                                              \
    if constexpr (!std::is_same_v<W, double> || ElementOp::NAME <= kLastBasicBinary) \
      return value_of(op_##NAME<W>(x, y));                                           \
    break;
    SLUICE_ELEMENT_BINARY(SLUICE_CASE)
#undef SLUICE_CASE
#define SLUICE_CASE(NAME) \
  case ElementOp::NAME: return value_of(static_cast<i64>(op_##NAME<W>(x, y)));
    SLUICE_ELEMENT_COMPARISON(SLUICE_CASE)
#undef SLUICE_CASE
    default: break;
  }
  return value_of(W(0));
}

__device__ Value instruction_value(const ElementInstruction& instruction, const Value* values,
                                   const ElementKind* kinds) {
  if (instruction.op == ElementOp::constant) {
    if (instruction.kind == ElementKind::f32) return value_of(static_cast<float>(instruction.real));
    if (instruction.kind == ElementKind::f64) return value_of(instruction.real);
    return value_of(static_cast<i64>(instruction.integer));
  }
  const Value& a = values[instruction.a];
  if (instruction.op == ElementOp::convert)
    return converted(kinds[instruction.a], instruction.kind, a);
  if (instruction.op == ElementOp::select)
    return a.i64_value != 0 ? values[instruction.b] : values[instruction.c];
  const Value& b = instruction.b >= 0 ? values[instruction.b] : a;
  switch (instruction.kind) {
    case ElementKind::f32: return apply<float>(instruction.op, a, b);
    case ElementKind::f64: return apply<double>(instruction.op, a, b);
    case ElementKind::u64: return apply<u64>(instruction.op, a, b);
    default: return apply<i64>(instruction.op, a, b);
  }
}

__device__ ElementKind input_kind(DType type) {
  if (type == DType::f64) return ElementKind::f64;
  if (type == DType::u64) return ElementKind::u64;
  return type == DType::f32 || type == DType::f16 || type == DType::bf16 ? ElementKind::f32
                                                                         : ElementKind::i64;
}

__global__ void __launch_bounds__(kElementThreads)
    elementwise_interpreter(const ElementTable table, const Extent extent, const Inputs inputs,
                            void* output) {
  const unsigned i = blockIdx.x * kElementThreads + threadIdx.x;
  if (i >= (extent.live_rows != nullptr ? *extent.live_rows * extent.each : extent.total)) return;
  Value values[kMaxElementValues];
  ElementKind kinds[kMaxElementValues];
  for (int k = 0; k < table.inputs; ++k) {
    std::int64_t at = 0;
    unsigned rest = i;
    for (int axis = extent.rank - 1; axis >= 0; --axis) {
      const unsigned outer = quotient(extent, axis, rest);
      at += static_cast<std::int64_t>(rest - outer * extent.size[axis]) * extent.stride[k][axis];
      rest = outer;
    }
    values[k] = load(table.types[k], inputs.at[k], at);
    kinds[k] = input_kind(table.types[k]);
  }
  for (int k = 0; k < table.count; ++k) {
    const ElementInstruction instruction = table.instructions[k];
    values[table.inputs + k] = instruction_value(instruction, values, kinds);
    kinds[table.inputs + k] =
        instruction.op >= ElementOp::equal ? ElementKind::i64 : instruction.kind;
  }
  const Value& result = values[table.result];
  switch (kinds[table.result]) {
    case ElementKind::f32: return store(table.output, output, i, result.f32);
    case ElementKind::f64: return store(table.output, output, i, result.f64);
    case ElementKind::u64: return store(table.output, output, i, result.u64_value);
    default: return store(table.output, output, i, result.i64_value);
  }
}

}  // namespace

bool element_interpreter_supports(const ElementProgram& program) {
  if (program.values() > kMaxElementValues) return false;
  for (const ElementInstruction& instruction : program.instructions()) {
    const bool basic = instruction.op <= kLastBasicUnary ||
                       (instruction.op >= ElementOp::add && instruction.op <= kLastBasicBinary) ||
                       instruction.op >= ElementOp::equal;
    if (instruction.kind == ElementKind::f64 && !basic) return false;
  }
  return true;
}

void run_element_interpreter(const ElementTable& table, const Extent& extent,
                             const LaunchArgs& args, const void* const* inputs, void* output) {
  Inputs all{};
  for (int i = 0; i < table.inputs; ++i) all.at[i] = inputs[i];
  const unsigned blocks = (extent.total + kElementThreads - 1) / kElementThreads;
  launch(stream_of(args), {dim3(blocks), dim3(kElementThreads)}, elementwise_interpreter, table,
         extent, all, output);
}

}  // namespace sluice::kernels::cuda
