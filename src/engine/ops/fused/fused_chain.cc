// Chains of elementwise operators, element by element.
#include <cmath>
#include <cstring>

#include "engine/graph/fused_ops.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/convert.h"
#include "engine/ops/families.h"

namespace sluice::engine {
namespace {

template <class W>
W two(Chain::Op op, W a, W b) {
  using enum Chain::Op;
  switch (op) {
    case add: return a + b;
    case subtract: return a - b;
    case multiply: return a * b;
    case divide: return a / b;
    case power: return std::pow(a, b);
    case minimum: return a < b || a != a ? a : b;  // NaN wins
    case maximum: return a > b || a != a ? a : b;
    default: throw Error(Code::internal, "no operator of two");
  }
}

double function(Activation activation, double x) { return ActivationParams{activation}(x); }

template <class W>
W one(Chain::Op op, W x) {
  using enum Chain::Op;
  const auto activated = [x](Activation a) {
    return static_cast<W>(function(a, static_cast<double>(x)));
  };
  switch (op) {
    case negate: return -x;
    case absolute: return std::fabs(x);
    case reciprocal: return 1 / x;
    case square_root: return std::sqrt(x);
    case exponential: return std::exp(x);
    case logarithm: return std::log(x);
    case error_function: return std::erf(x);
    case tanh: return std::tanh(x);
    case sigmoid: return activated(Activation::sigmoid);
    case relu: return activated(Activation::relu);
    case gelu: return activated(Activation::gelu);
    case gelu_tanh: return activated(Activation::gelu_tanh);
    case silu: return activated(Activation::silu);
    case hard_swish: return activated(Activation::hard_swish);
    case softplus: return std::max(x, W(0)) + std::log1p(std::exp(-std::fabs(x)));
    case floor: return std::floor(x);
    case ceil: return std::ceil(x);
    case sine: return std::sin(x);
    case cosine: return std::cos(x);
    default: throw Error(Code::internal, "no operator of one");
  }
}

// The elements of `from`, broadcast to `shape`, as W.
template <class W>
std::vector<W> broadcast_to(const Tensor& from, const Shape& shape) {
  const Tensor wide = converted(from, kDTypeOf<W>);
  std::vector<W> all(static_cast<std::size_t>(shape.size()));
  BroadcastLoop<1>(shape, {from.shape()})
      .each_row([&](std::int64_t to, const auto& at, std::int64_t count, const auto& step) {
        for (std::int64_t i = 0; i < count; ++i)
          all[static_cast<std::size_t>(to + i)] =
              as<W>(wide)[static_cast<std::size_t>(at[0] + i * step[0])];
      });
  return all;
}

template <class W>
void evaluate(OpCall& call, const Chain& chain, const Shape& shape) {
  const Tensor out = call.output(0, call.input(0).dtype(), shape);
  std::vector<std::vector<W>> inputs;
  for (std::size_t i = 0; i < call.inputs(); ++i)
    inputs.push_back(broadcast_to<W>(call.input(i), shape));
  const Tensor result(kDTypeOf<W>, shape);
  std::vector<W> values(inputs.size() + chain.instructions.size());
  for (std::size_t at = 0; at < as<W>(result).size(); ++at) {
    for (std::size_t i = 0; i < inputs.size(); ++i) values[i] = inputs[i][at];
    std::size_t made = inputs.size();
    for (const Chain::Instruction& instruction : chain.instructions) {
      const auto operand = [&](int i) { return values[static_cast<std::size_t>(i)]; };
      switch (Chain::operands(instruction.op)) {
        case 0: values[made++] = static_cast<W>(instruction.value); break;
        case 1: values[made++] = one(instruction.op, operand(instruction.a)); break;
        default:
          values[made++] = two(instruction.op, operand(instruction.a), operand(instruction.b));
          break;
      }
    }
    as<W>(result)[at] = values.back();
  }
  const Tensor narrow = converted(result, out.dtype());
  if (out.bytes() > 0) std::memcpy(out.data(), narrow.data(), out.bytes());
}

void run_chain(OpCall& call) {
  require(call.inputs() > 0, "a chain without inputs");
  const Chain chain = chain_of(call.attributes(), call.inputs());
  const DType type = call.input(0).dtype();
  Shape shape = call.input(0).shape();
  for (std::size_t i = 1; i < call.inputs(); ++i) {
    require(call.input(i).dtype() == type, "inputs of different element types");
    shape = broadcast(shape, call.input(i).shape());
  }
  if (type == DType::f64)
    evaluate<double>(call, chain, shape);
  else
    evaluate<float>(call, chain, shape);
}

constexpr Op kFusedChainOps[] = {{"Chain", 1, kReals, run_chain, "sluice"}};

}  // namespace

std::span<const Op> fused_chain_ops() { return kFusedChainOps; }

}  // namespace sluice::engine
