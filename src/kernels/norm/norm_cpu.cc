#include "kernels/norm/norm_cpu.h"

#include <algorithm>
#include <limits>

#include "kernels/common/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/norm_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/common/math-inl.h"
#include "kernels/common/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::cpu::HWY_NAMESPACE {

// The passes over a row, each for the vector at element i; `count` is kLanes except at the end of
// the row. They are functors, not lambdas, so that they are inlined.
struct AddRow {
  const float *x, *residual;  // residual may be null
  float* y;                   // may be x

  HWY_INLINE V operator()(std::size_t i, std::size_t count) const {
    V sum = load(x + i, count);
    if (residual != nullptr) sum = hn::Add(sum, load(residual + i, count));
    store(sum, y + i, count);
    return sum;
  }
};

HWY_INLINE V first_lanes(V value, std::size_t count) {
  return count == kLanes ? value : hn::IfThenElseZero(hn::FirstN(kFloats, count), value);
}

struct SquaredDeviation {
  const float* y;
  V mean;

  HWY_INLINE V operator()(std::size_t i, std::size_t count) const {
    const V off = first_lanes(hn::Sub(load(y + i, count), mean), count);
    return hn::Mul(off, off);
  }
};

struct ScaleRow {
  const float *scale, *bias;  // bias may be null
  float* y;
  V mean, by;

  HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
    const V off = hn::Sub(load(y + i, count), mean);
    const V shift = bias != nullptr ? load(bias + i, count) : hn::Zero(kFloats);
    store(hn::MulAdd(off, hn::Mul(by, load(scale + i, count)), shift), y + i, count);
  }
};

struct ExpMinusMax {
  const float* x;
  float* y;
  V max;

  HWY_INLINE V operator()(std::size_t i, std::size_t count) const {
    const V power = first_lanes(Exp(kFloats, hn::Sub(load(x + i, count), max)), count);
    store(power, y + i, count);
    return power;
  }
};

struct ScaleBy {
  float* y;
  V by;

  HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
    store(hn::Mul(by, load(y + i, count)), y + i, count);
  }
};

template <class Body>
HWY_INLINE void each_vector(std::size_t n, const Body& body) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, kLanes);
  if (i < n) body(i, n - i);
}

// Sums with two accumulators, so that additions overlap. The order of additions depends on n alone.
template <class Term>
HWY_INLINE V sum_of(std::size_t n, const Term& term) {
  V even = hn::Zero(kFloats), odd = even;
  std::size_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    even = hn::Add(even, term(i, kLanes));
    odd = hn::Add(odd, term(i + kLanes, kLanes));
  }
  for (; i < n; i += kLanes) even = hn::Add(even, term(i, std::min<std::size_t>(kLanes, n - i)));
  return hn::SumOfLanes(kFloats, hn::Add(even, odd));
}

HWY_INLINE void softmax_row(const float* x, float* y, std::size_t n) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  V max = hn::Set(kFloats, kLowest);
  for (std::size_t i = 0; i < n; i += kLanes)
    max = hn::Max(max, load(x + i, std::min<std::size_t>(kLanes, n - i), kLowest));
  max = hn::MaxOfLanes(kFloats, max);
  const V sum = sum_of(n, ExpMinusMax{x, y, max});
  each_vector(n, ScaleBy{y, hn::Div(hn::Set(kFloats, 1.0f), sum)});
}

// Limit: three passes over each row, which stays in the L1 cache.
void norm_rows_of(const NormRows& call) {
  const std::size_t n = call.n;
  const V per = hn::Set(kFloats, 1.0f / static_cast<float>(n));
  for (std::size_t i = 0; i < call.rows; ++i) {
    const float* const residual = call.residual != nullptr ? call.residual + i * n : nullptr;
    float* const y = call.y + i * n;
    const V mean = hn::Mul(per, sum_of(n, AddRow{call.x + i * n, residual, y}));
    const V variance = hn::Mul(per, sum_of(n, SquaredDeviation{y, mean}));
    const V off = hn::Sqrt(hn::Add(variance, hn::Set(kFloats, call.epsilon)));
    const V rstd = hn::Div(hn::Set(kFloats, 1.0f), off);
    each_vector(n, ScaleRow{call.scale, call.bias, y, mean, rstd});
    if (call.mean != nullptr) call.mean[i] = hn::GetLane(mean);
    if (call.rstd != nullptr) call.rstd[i] = hn::GetLane(rstd);
  }
}

void softmax_rows(const float* x, float* y, std::size_t rows, std::size_t n) {
  for (std::size_t i = 0; i < rows; ++i) softmax_row(x + i * n, y + i * n, n);
}

}  // namespace sluice::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::kernels::cpu {
namespace {

HWY_EXPORT(norm_rows_of);
HWY_EXPORT(softmax_rows);

}  // namespace

void norm_rows(const NormRows& call) { HWY_DYNAMIC_DISPATCH(norm_rows_of)(call); }

void softmax_rows(const float* x, float* y, std::size_t rows, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(softmax_rows)(x, y, rows, n);
}

}  // namespace sluice::kernels::cpu
#endif
