#include "tensor/narrow.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sluice {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Every bit pattern survives conversion to float and back (NaNs become the canonical NaN).
template <class T>
void every_pattern_survives(std::uint32_t patterns) {
  for (std::uint32_t bits = 0; bits < patterns; ++bits) {
    T value;
    value.bits = static_cast<decltype(value.bits)>(bits);
    const float wide = value;
    const T back(wide);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(back))) << bits;
    } else {
      EXPECT_EQ(back.bits, value.bits) << bits;
    }
  }
}

TEST(NarrowTest, EveryBitPatternSurvivesARoundTrip) {
  every_pattern_survives<Half>(65536);
  every_pattern_survives<BFloat16>(65536);
  every_pattern_survives<Float8E4M3FN>(256);
  every_pattern_survives<Float8E4M3FNUZ>(256);
  every_pattern_survives<Float4E2M1>(16);
  every_pattern_survives<Float8E8M0>(256);
}

// Brute force: no representable value is nearer.
template <class T>
void rounds_to_the_nearest(int patterns, float from, float to) {
  for (int i = 0; i <= 2000; ++i) {
    const float x = from + (to - from) * static_cast<float>(i) / 2000.0f;
    const float got = T(x);
    for (int bits = 0; bits < patterns; ++bits) {
      T other;
      other.bits = static_cast<decltype(other.bits)>(bits);
      const float value = other;
      if (!std::isfinite(value)) continue;
      EXPECT_LE(std::fabs(got - x), std::fabs(value - x)) << x;
    }
  }
}

TEST(NarrowTest, FloatsRoundToTheNearest) {
  rounds_to_the_nearest<Float8E4M3FN>(256, -470, 470);
  rounds_to_the_nearest<Float8E4M3FN>(256, -0.04f, 0.04f);
  rounds_to_the_nearest<Float8E4M3FNUZ>(256, -250, 250);
  rounds_to_the_nearest<Float8E5M2>(256, -1e-4f, 1e-4f);
  rounds_to_the_nearest<Float8E5M2FNUZ>(256, -60000, 60000);
  rounds_to_the_nearest<Float4E2M1>(16, -8, 8);
  rounds_to_the_nearest<Half>(65536, -3e-7f, 3e-7f);
}

TEST(NarrowTest, TiesRoundToEven) {
  EXPECT_EQ(static_cast<float>(Half(2049.0f)), 2048.0f);
  EXPECT_EQ(static_cast<float>(Half(2051.0f)), 2052.0f);
  EXPECT_EQ(static_cast<float>(Float4E2M1(2.5f)), 2.0f);
  EXPECT_EQ(static_cast<float>(Float4E2M1(3.5f)), 4.0f);
  EXPECT_EQ(static_cast<float>(Float8E4M3FN(17.0f)), 16.0f);
}

TEST(NarrowTest, OverflowSaturatesOrBecomesInfinite) {
  EXPECT_EQ(static_cast<float>(Float8E4M3FN(1e9f)), 448.0f);
  EXPECT_EQ(static_cast<float>(Float8E5M2(-kInfinity)), -57344.0f);
  EXPECT_EQ(static_cast<float>(Float8E5M2(1e9f, Overflow::infinity)), kInfinity);
  EXPECT_TRUE(std::isnan(static_cast<float>(Float8E4M3FN(1e9f, Overflow::infinity))));
  EXPECT_TRUE(std::isnan(static_cast<float>(Float8E5M2FNUZ(kNan))));
  EXPECT_EQ(static_cast<float>(Half(65519.0f)), 65504.0f);
  EXPECT_EQ(static_cast<float>(Half(65520.0f)), kInfinity);
}

TEST(NarrowTest, NanBecomesMinusZeroIfTheTypeHasNoNan) {
  const float zero = Float4E2M1(kNan);
  EXPECT_EQ(zero, 0.0f);
  EXPECT_TRUE(std::signbit(zero));
}

TEST(NarrowTest, TinyIntegersKeepTheirLowBits) {
  EXPECT_EQ(static_cast<int>(Int4(9)), -7);
  EXPECT_EQ(static_cast<int>(UInt4(17)), 1);
  EXPECT_EQ(static_cast<int>(Int2(2)), -2);
  EXPECT_EQ(static_cast<int>(UInt2(7)), 3);
}

}  // namespace
}  // namespace sluice
