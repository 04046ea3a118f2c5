// Limit: the exponential functions, five for each unit of an LSTM. Compiled for several instruction
// sets; dispatched at run time.
#include "kernels/rnn/rnn_cells.h"

#include "kernels/common/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rnn/rnn_cells.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/common/math-inl.h"
#include "kernels/common/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::cpu::HWY_NAMESPACE {
namespace {

constexpr auto kWide = static_cast<std::int64_t>(kLanes);

HWY_INLINE V at(const float* from) { return hn::LoadU(kFloats, from); }
HWY_INLINE V clipped(V x, float clip) {
  return hn::Min(hn::Set(kFloats, clip), hn::Max(hn::Set(kFloats, -clip), x));
}
HWY_INLINE V sigmoid(V x, float clip) { return Sigmoid(kFloats, clipped(x, clip)); }
HWY_INLINE V tanh(V x, float clip) { return Tanh(kFloats, clipped(x, clip)); }

HWY_INLINE V with_peephole(V sum, const float* peephole, V c) {
  return peephole == nullptr ? sum : hn::MulAdd(at(peephole), c, sum);
}

void lstm(const RnnCellUnits& cell, const float* gates, const float* peepholes, std::int64_t step,
          float* c, float* h) {
  const auto peephole = [&](std::int64_t which, std::int64_t i) {
    return peepholes == nullptr ? nullptr : peepholes + which * step + i;
  };
  for (std::int64_t i = 0; i < cell.units; i += kWide) {
    const V before = at(c + i);
    const V in = sigmoid(with_peephole(at(gates + i), peephole(0, i), before), cell.clip);
    const V forget =
        sigmoid(with_peephole(at(gates + 2 * cell.units + i), peephole(2, i), before), cell.clip);
    const V candidate = tanh(at(gates + 3 * cell.units + i), cell.clip);
    const V after = hn::MulAdd(forget, before, hn::Mul(in, candidate));
    const V out =
        sigmoid(with_peephole(at(gates + cell.units + i), peephole(1, i), after), cell.clip);
    hn::StoreU(after, kFloats, c + i);
    hn::StoreU(hn::Mul(out, tanh(after, cell.clip)), kFloats, h + i);
  }
}

void rnn(const RnnCellUnits& cell, const float* sums, bool relu, float* h) {
  for (std::int64_t i = 0; i < cell.units; i += kWide) {
    const V x = clipped(at(sums + i), cell.clip);
    hn::StoreU(relu ? hn::Max(hn::Zero(kFloats), x) : Tanh(kFloats, x), kFloats, h + i);
  }
}

void gru_gates(const RnnCellUnits& cell, const float* x, float* sums, const float* h, float* kept) {
  for (std::int64_t i = 0; i < cell.units; i += kWide) {
    const std::int64_t second = cell.units + i;
    hn::StoreU(sigmoid(hn::Add(at(x + i), at(sums + i)), cell.clip), kFloats, sums + i);
    const V reset = sigmoid(hn::Add(at(x + second), at(sums + second)), cell.clip);
    hn::StoreU(reset, kFloats, sums + second);
    hn::StoreU(hn::Mul(reset, at(h + i)), kFloats, kept + i);
  }
}

void gru_state(const RnnCellUnits& cell, const float* x, const float* sums, const float* gates,
               bool late, const float* before, float* h) {
  for (std::int64_t i = 0; i < cell.units; i += kWide) {
    const V update = at(gates + i), reset = at(gates + cell.units + i);
    const V part = late ? hn::Mul(reset, at(sums + i)) : at(sums + i);
    const V candidate = tanh(hn::Add(at(x + i), part), cell.clip);
    const V fresh = hn::Mul(hn::Sub(hn::Set(kFloats, 1.0f), update), candidate);
    hn::StoreU(hn::MulAdd(update, at(before + i), fresh), kFloats, h + i);
  }
}

}  // namespace
}  // namespace sluice::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::kernels::cpu {
namespace {

HWY_EXPORT(lstm);
HWY_EXPORT(rnn);
HWY_EXPORT(gru_gates);
HWY_EXPORT(gru_state);

}  // namespace

void RnnCellUnits::lstm(const float* gates, const float* peepholes, std::int64_t peephole_step,
                        float* c, float* h) const {
  HWY_DYNAMIC_DISPATCH(lstm)(*this, gates, peepholes, peephole_step, c, h);
}
void RnnCellUnits::rnn(const float* sums, bool relu, float* h) const {
  HWY_DYNAMIC_DISPATCH(rnn)(*this, sums, relu, h);
}
void RnnCellUnits::gru_gates(const float* x, float* sums, const float* h, float* kept) const {
  HWY_DYNAMIC_DISPATCH(gru_gates)(*this, x, sums, h, kept);
}
void RnnCellUnits::gru_state(const float* x, const float* sums, const float* gates, bool late,
                             const float* before, float* h) const {
  HWY_DYNAMIC_DISPATCH(gru_state)(*this, x, sums, gates, late, before, h);
}

}  // namespace sluice::kernels::cpu
#endif
