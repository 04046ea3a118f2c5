#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/common/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/common/math_test.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/common/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::cpu::HWY_NAMESPACE {
namespace {

using D = hn::CappedTag<float, 16>;

// Sixteen values at a time.
#define SLUICE_APPLY(NAME)                                    \
  void apply##NAME(const float* from, float* to) {            \
    const D d;                                                \
    for (std::size_t i = 0; i < 16; i += hn::Lanes(d))        \
      hn::StoreU(NAME(d, hn::LoadU(d, from + i)), d, to + i); \
  }
SLUICE_APPLY(Exp)
SLUICE_APPLY(Erf)
SLUICE_APPLY(Tanh)
SLUICE_APPLY(Sigmoid)
SLUICE_APPLY(Gelu)
SLUICE_APPLY(GeluTanh)

}  // namespace
}  // namespace sluice::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/common/targets_for_tests.h"

namespace sluice::kernels::cpu {
namespace {

HWY_EXPORT(applyExp);
HWY_EXPORT(applyErf);
HWY_EXPORT(applyTanh);
HWY_EXPORT(applySigmoid);
HWY_EXPORT(applyGelu);
HWY_EXPORT(applyGeluTanh);

// Calls check(x, y) for floats of all magnitudes, on each instruction set.
template <class Apply, class Check>
void for_floats(const Apply& apply, const Check& check) {
  constexpr std::uint32_t kStep = 9973;
  for_each_target([&] {
    const bool vectors = hwy::SupportedTargets() != HWY_SCALAR;
    float x[16], y[16];
    for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 16 * kStep) {
      for (std::size_t i = 0; i < 16; ++i)
        x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(bits + i * kStep));
      apply(x, y);
      for (std::size_t i = 0; i < 16; ++i) {
        if (std::isnan(x[i]))
          ASSERT_TRUE(std::isnan(y[i]) || !vectors) << x[i];
        else
          ASSERT_TRUE(check(static_cast<double>(x[i]), y[i])) << "f(" << x[i] << ") = " << y[i];
      }
    }
  });
}

// The error of a result in units in the last place.
double ulps(float is, double exact) {
  const auto rounded = static_cast<float>(exact);
  if (is == rounded) return 0;
  const double ulp = static_cast<double>(
      std::nextafter(std::abs(rounded), std::numeric_limits<float>::infinity()) -
      std::abs(rounded));
  return std::abs(static_cast<double>(is) - exact) / ulp;
}

TEST(MathTest, ExpIsWithinTwoUlps) {
  for_floats(
      [](const float* x, float* y) {
        HWY_DYNAMIC_DISPATCH(applyExp)
        (x, y);
      },
      [](double x, float y) {
        const double exact = std::exp(x);
        return exact < 0x1p-125 ? y >= 0 && y < 0x1p-124 : ulps(y, exact) <= 2;
      });
}

TEST(MathTest, ErfIsAccurateAndSaturatesAtOne) {
  for_floats(
      [](const float* x, float* y) {
        HWY_DYNAMIC_DISPATCH(applyErf)
        (x, y);
      },
      [](double x, float y) {
        if (std::abs(x) >= 3.92) return std::abs(y) == 1.0f;
        return std::abs(static_cast<double>(y) - std::erf(x)) <= 3.5e-7;
      });
}

TEST(MathTest, TanhIsWithinSixUlpsAndSaturatesAtOne) {
  for_floats(
      [](const float* x, float* y) {
        HWY_DYNAMIC_DISPATCH(applyTanh)
        (x, y);
      },
      [](double x, float y) {
        if (std::abs(x) >= 8.9) return std::abs(y) == 1.0f;
        return ulps(y, std::tanh(x)) <= 6;
      });
}

TEST(MathTest, SigmoidIsWithinThreeUlps) {
  for_floats(
      [](const float* x, float* y) {
        HWY_DYNAMIC_DISPATCH(applySigmoid)
        (x, y);
      },
      [](double x, float y) {
        const double exact = 1 / (1 + std::exp(-x));
        return exact < 0x1p-125 ? y >= 0 && y < 0x1p-124 : ulps(y, exact) <= 3;
      });
}

TEST(MathTest, GeluAndGeluTanhAreAccurate) {
  const auto near = [](double x, float y, double exact) {
    if (std::isinf(x)) return true;  // 0 times infinity
    return std::abs(static_cast<double>(y) - exact) <= 2.5e-7 * std::max(1.0, std::abs(x));
  };
  for_floats(
      [](const float* x, float* y) {
        HWY_DYNAMIC_DISPATCH(applyGelu)
        (x, y);
      },
      [&](double x, float y) { return near(x, y, x * 0.5 * std::erfc(-x / std::sqrt(2.0))); });
  for_floats(
      [](const float* x, float* y) {
        HWY_DYNAMIC_DISPATCH(applyGeluTanh)
        (x, y);
      },
      [&](double x, float y) {
        const double inside = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
        return near(x, y, x * 0.5 * (1 + std::tanh(inside)));
      });
}

}  // namespace
}  // namespace sluice::kernels::cpu
#endif
