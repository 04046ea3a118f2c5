#include "kernels/elementwise/element_source.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

namespace sluice::kernels::cuda {
namespace {

#define SLUICE_CODE(...) #__VA_ARGS__
constexpr std::string_view kExtent =
#include "kernels/elementwise/element_extent.inc"
    ;
constexpr std::string_view kOps =
#include "kernels/elementwise/element_ops.inc"
    ;
#undef SLUICE_CODE

// The helpers that element_ops.inc calls, without CUDA's headers, which are slow to parse.
constexpr std::string_view kHalves = R"(
__device__ inline float half_to_float(unsigned short x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
__device__ inline unsigned short float_to_half(float x) {
  unsigned short y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
__device__ inline unsigned short double_to_half(double x) {
  unsigned short y;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(y) : "d"(x));
  return y;
}
template <class T, int N> struct alignas(sizeof(T) * N) Pack { T at[N]; };
)";

struct StoredAs {
  std::string_view type, name;  // C type in memory; suffix of its load and store functions
};

StoredAs stored_as(DType type) {
  switch (type) {
    case DType::f32: return {"float", "f32"};
    case DType::f64: return {"double", "f64"};
    case DType::f16: return {"unsigned short", "f16"};
    case DType::bf16: return {"unsigned short", "bf16"};
    case DType::i8: return {"signed char", "i8"};
    case DType::i16: return {"short", "i16"};
    case DType::i32: return {"int", "i32"};
    case DType::u8: return {"unsigned char", "u8"};
    case DType::u16: return {"unsigned short", "u16"};
    case DType::u32: return {"unsigned", "u32"};
    case DType::u64: return {"u64", "u64"};
    case DType::boolean: return {"unsigned char", "bool"};
    default: return {"i64", "i64"};
  }
}

std::string_view type_of_kind(ElementKind kind) {
  switch (kind) {
    case ElementKind::f32: return "float";
    case ElementKind::f64: return "double";
    case ElementKind::u64: return "u64";
    case ElementKind::i64: break;
  }
  return "i64";
}

std::string constant_of(const ElementInstruction& instruction) {
  if (instruction.kind == ElementKind::f32)
    return fmt::format("__int_as_float(0x{:x})",
                       std::bit_cast<std::uint32_t>(static_cast<float>(instruction.real)));
  if (instruction.kind == ElementKind::f64)
    return fmt::format("__longlong_as_double(0x{:x}ll)",
                       std::bit_cast<std::uint64_t>(instruction.real));
  return fmt::format("static_cast<{}>(0x{:x}ull)", type_of_kind(instruction.kind),
                     static_cast<std::uint64_t>(instruction.integer));
}

// Constant exponents need no pow().
std::string power_of(const ElementProgram& program, const ElementInstruction& instruction) {
  const int first = static_cast<int>(program.inputs().size());
  if (instruction.b >= first && instruction.kind != ElementKind::i64 &&
      instruction.kind != ElementKind::u64) {
    const ElementInstruction& by =
        program.instructions()[static_cast<std::size_t>(instruction.b - first)];
    if (by.op == ElementOp::constant) {
      if (by.real == 2) return fmt::format("v{0} * v{0}", instruction.a);
      if (by.real == 3) return fmt::format("v{0} * v{0} * v{0}", instruction.a);
      if (by.real == 0.5) return fmt::format("op_square_root(v{})", instruction.a);
    }
  }
  return fmt::format("op_power(v{}, v{})", instruction.a, instruction.b);
}

std::string expression_of(const ElementProgram& program, const ElementInstruction& instruction) {
  switch (instruction.op) {
    case ElementOp::constant: return constant_of(instruction);
    case ElementOp::convert: {
      constexpr std::string_view kTo[] = {"to_f32", "to_f64", "to_i64", "to_u64"};
      return fmt::format("{}(v{})", kTo[static_cast<std::size_t>(instruction.kind)], instruction.a);
    }
    case ElementOp::select:
      return fmt::format("v{} != 0 ? v{} : v{}", instruction.a, instruction.b, instruction.c);
    case ElementOp::power: return power_of(program, instruction);
    default: break;
  }
  if (instruction.b < 0) return fmt::format("op_{}(v{})", name_of(instruction.op), instruction.a);
  return fmt::format("op_{}(v{}, v{})", name_of(instruction.op), instruction.a, instruction.b);
}

bool is_strided(ElementAccess access) {
  return access == ElementAccess::strided || access == ElementAccess::broadcast;
}

// Code that computes the offset of each strided input.
std::string offsets_of(const ElementLayout& layout) {
  std::string text;
  for (std::size_t i = 0; i < layout.access.size(); ++i)
    if (is_strided(layout.access[i])) text += fmt::format("  int at{} = 0;\n", i);
  if (text.empty()) return text;
  text += "  unsigned rest = i;\n#pragma unroll\n";
  text += fmt::format("  for (int axis = {}; axis >= 0; --axis) {{\n", layout.rank - 1);
  text += "    const unsigned outer = quotient(e, axis, rest);\n";
  text += "    const int own = static_cast<int>(rest - outer * e.size[axis]);\n";
  for (std::size_t i = 0; i < layout.access.size(); ++i)
    if (is_strided(layout.access[i]))
      text += fmt::format("    at{0} += own * e.stride[{0}][axis];\n", i);
  return text + "    rest = outer;\n  }\n";
}

std::string load_of(std::size_t i, ElementAccess access, std::string_view type, int width) {
  const std::string pack =
      fmt::format("  const Pack<{0}, {1}> x{2} = *reinterpret_cast<const Pack<{0}, {1}>*>(p{2}",
                  type, width, i);
  switch (access) {
    case ElementAccess::contiguous:
      return pack + fmt::format(" + static_cast<u64>(i) * {});\n", width);
    case ElementAccess::strided: return pack + fmt::format(" + at{});\n", i);
    case ElementAccess::broadcast:
      return fmt::format("  const {} x{} = p{}[at{}];\n", type, i, i, i);
    case ElementAccess::scalar: break;
  }
  return fmt::format("  const {} x{} = *p{};\n", type, i, i);
}

// Code for element k of the vector.
std::string body_of(const ElementProgram& program, const ElementLayout& layout) {
  std::string text;
  int value = 0;
  for (std::size_t i = 0; i < layout.access.size(); ++i, ++value) {
    const bool many =
        layout.access[i] == ElementAccess::contiguous || layout.access[i] == ElementAccess::strided;
    text += fmt::format("    const {} v{} = load_{}(x{}{});\n", type_of_kind(program.kind(value)),
                        value, stored_as(program.inputs()[i]).name, i, many ? ".at[k]" : "");
  }
  for (const ElementInstruction& instruction : program.instructions()) {
    text += fmt::format("    const {} v{} = {};\n", type_of_kind(program.kind(value)), value,
                        expression_of(program, instruction));
    ++value;
  }
  return text + fmt::format("    y.at[k] = store_{}(v{});\n", stored_as(program.output()).name,
                            program.result());
}

}  // namespace

std::string element_source(const ElementProgram& program, const ElementLayout& layout) {
  std::string text = fmt::format("{}\n{}\n{}\n", kExtent, kHalves, kOps);
  text += "extern \"C\" __global__ void __launch_bounds__(256) elementwise_fused(const Extent e";
  for (std::size_t i = 0; i < layout.access.size(); ++i)
    text += fmt::format(", const {}* p{}", stored_as(program.inputs()[i]).type, i);
  const std::string_view out = stored_as(program.output()).type;
  text += fmt::format(", {}* out) {{\n", out);
  text +=
      "  const unsigned i = blockIdx.x * 256u + threadIdx.x;\n  if (i >= (e.live_rows ? "
      "*e.live_rows * e.each : e.total)) return;\n";
  text += offsets_of(layout);
  for (std::size_t i = 0; i < layout.access.size(); ++i)
    text += load_of(i, layout.access[i], stored_as(program.inputs()[i]).type, layout.width);
  text += fmt::format("  Pack<{}, {}> y;\n#pragma unroll\n", out, layout.width);
  text += fmt::format("  for (int k = 0; k < {}; ++k) {{\n", layout.width);
  text += body_of(program, layout);
  text += fmt::format(
      "  }}\n  *reinterpret_cast<Pack<{0}, {1}>*>(out + static_cast<u64>(i) * {1}) = y;\n}}\n", out,
      layout.width);
  return text;
}

}  // namespace sluice::kernels::cuda
