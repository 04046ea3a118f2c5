// One loop over a block for each instruction. Compiled for several instruction sets; dispatched at
// run time.
#include "kernels/elementwise/chain_cpu.h"

#include <cmath>

#include "kernels/common/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/chain_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/common/math-inl.h"
#include "kernels/common/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::cpu::HWY_NAMESPACE {

static_assert(kLanes <= kMaxChainLanes);

// A register as an operand; a scalar register repeats one vector.
struct Operand {
  const float* at;
  std::size_t kept;  // mask of the index: 0 for scalars

  explicit Operand(const ChainRegister& r) : at(r.at), kept(r.is_scalar ? 0 : ~std::size_t{0}) {}
  HWY_INLINE V vector(std::size_t i) const { return hn::LoadU(kFloats, at + (i & kept)); }
  HWY_INLINE V partial(std::size_t i, std::size_t count) const {
    return load(at + (i & kept), count);
  }
};

template <class F>
HWY_INLINE void unary(const Operand& a, float* to, std::size_t count, const F& f) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(f(a.vector(i)), kFloats, to + i);
  if (i < count) store(f(a.partial(i, count - i)), to + i, count - i);
}

template <class F>
HWY_INLINE void binary(const Operand& a, const Operand& b, float* to, std::size_t count,
                       const F& f) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(f(a.vector(i), b.vector(i)), kFloats, to + i);
  if (i < count) store(f(a.partial(i, count - i), b.partial(i, count - i)), to + i, count - i);
}

// For rare functions, without SIMD.
template <class F>
void each_scalar(const Operand& a, float* to, std::size_t count, const F& f) {
  for (std::size_t i = 0; i < count; ++i) to[i] = f(a.at[i & a.kept]);
}

void binary_op(Chain::Op op, const Operand& a, const Operand& b, float* to, std::size_t n) {
  switch (op) {
    case Chain::Op::add:
      return binary(a, b, to, n, [](V x, V y) HWY_ATTR { return hn::Add(x, y); });
    case Chain::Op::subtract:
      return binary(a, b, to, n, [](V x, V y) HWY_ATTR { return hn::Sub(x, y); });
    case Chain::Op::multiply:
      return binary(a, b, to, n, [](V x, V y) HWY_ATTR { return hn::Mul(x, y); });
    case Chain::Op::divide:
      return binary(a, b, to, n, [](V x, V y) HWY_ATTR { return hn::Div(x, y); });
    case Chain::Op::minimum:  // NaN propagates
      return binary(a, b, to, n, [](V x, V y) HWY_ATTR {
        return hn::IfThenElse(hn::Or(hn::Lt(x, y), hn::IsNaN(x)), x, y);
      });
    case Chain::Op::maximum:
      return binary(a, b, to, n, [](V x, V y) HWY_ATTR {
        return hn::IfThenElse(hn::Or(hn::Gt(x, y), hn::IsNaN(x)), x, y);
      });
    default:
      for (std::size_t i = 0; i < n; ++i) to[i] = std::pow(a.at[i & a.kept], b.at[i & b.kept]);
  }
}

void activate(Activation activation, const Operand& a, float* to, std::size_t n) {
  const auto with = [&](const auto& f) HWY_ATTR { unary(a, to, n, f); };
  switch (activation) {
    case Activation::relu: return with([](V x) HWY_ATTR { return hn::Max(hn::Zero(kFloats), x); });
    case Activation::gelu: return with([](V x) HWY_ATTR { return Gelu(kFloats, x); });
    case Activation::gelu_tanh: return with([](V x) HWY_ATTR { return GeluTanh(kFloats, x); });
    case Activation::tanh: return with([](V x) HWY_ATTR { return Tanh(kFloats, x); });
    case Activation::sigmoid: return with([](V x) HWY_ATTR { return Sigmoid(kFloats, x); });
    case Activation::silu:
      return with([](V x) HWY_ATTR { return hn::Mul(x, Sigmoid(kFloats, x)); });
    case Activation::hard_swish: return with([](V x) HWY_ATTR { return HardSwish(kFloats, x); });
    default: return;
  }
}

void scalar_op(Chain::Op op, const Operand& a, float* to, std::size_t n) {
  switch (op) {
    case Chain::Op::logarithm: return each_scalar(a, to, n, [](float x) { return std::log(x); });
    case Chain::Op::sine: return each_scalar(a, to, n, [](float x) { return std::sin(x); });
    case Chain::Op::cosine: return each_scalar(a, to, n, [](float x) { return std::cos(x); });
    default:
      return each_scalar(a, to, n, [](float x) {
        return std::max(x, 0.0f) + std::log1p(std::exp(-std::fabs(x)));  // softplus
      });
  }
}

void unary_op(Chain::Op op, const Operand& a, float* to, std::size_t n) {
  const auto with = [&](const auto& f) HWY_ATTR { unary(a, to, n, f); };
  switch (op) {
    case Chain::Op::negate: return with([](V x) HWY_ATTR { return hn::Neg(x); });
    case Chain::Op::absolute: return with([](V x) HWY_ATTR { return hn::Abs(x); });
    case Chain::Op::reciprocal:
      return with([](V x) HWY_ATTR { return hn::Div(hn::Set(kFloats, 1.0f), x); });
    case Chain::Op::square_root: return with([](V x) HWY_ATTR { return hn::Sqrt(x); });
    case Chain::Op::exponential: return with([](V x) HWY_ATTR { return Exp(kFloats, x); });
    case Chain::Op::error_function: return with([](V x) HWY_ATTR { return Erf(kFloats, x); });
    case Chain::Op::floor: return with([](V x) HWY_ATTR { return hn::Floor(x); });
    case Chain::Op::ceil: return with([](V x) HWY_ATTR { return hn::Ceil(x); });
    case Chain::Op::relu: return activate(Activation::relu, a, to, n);
    case Chain::Op::gelu: return activate(Activation::gelu, a, to, n);
    case Chain::Op::gelu_tanh: return activate(Activation::gelu_tanh, a, to, n);
    case Chain::Op::tanh: return activate(Activation::tanh, a, to, n);
    case Chain::Op::sigmoid: return activate(Activation::sigmoid, a, to, n);
    case Chain::Op::silu: return activate(Activation::silu, a, to, n);
    case Chain::Op::hard_swish: return activate(Activation::hard_swish, a, to, n);
    default: return scalar_op(op, a, to, n);
  }
}

void run_instruction(const ChainCode::Instruction& instruction, const ChainRegister* registers,
                     std::size_t count) {
  const Operand a(registers[instruction.a]);
  float* const to = registers[instruction.to].at;
  if (instruction.b >= 0)
    binary_op(instruction.op, a, Operand(registers[instruction.b]), to, count);
  else
    unary_op(instruction.op, a, to, count);
}

}  // namespace sluice::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::kernels::cpu {

HWY_EXPORT(run_instruction);

void run_block(const ChainCode& code, std::span<const ChainRegister> registers, std::size_t count) {
  for (const ChainCode::Instruction& instruction : code.instructions)
    HWY_DYNAMIC_DISPATCH(run_instruction)(instruction, registers.data(), count);
}

}  // namespace sluice::kernels::cpu
#endif
