#include "base/quantile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace sluice {
namespace {

TEST(Quantile, InterpolatesBetweenTheNearestValues) {
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0.9), 3.7);
  EXPECT_DOUBLE_EQ(quantile({10, 30, 20}, 0.5), 20);
}

TEST(Quantile, EndsAreTheMinimumAndTheMaximum) {
  EXPECT_EQ(quantile({4, 1, 3, 2}, 0), 1);
  EXPECT_EQ(quantile({4, 1, 3, 2}, 1), 4);
  EXPECT_EQ(quantile({7}, 0.3), 7);
}

TEST(Quantile, OfNothingIsZero) { EXPECT_EQ(quantile({}, 0.5), 0); }

TEST(Quantile, AgreesWithSorting) {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    std::vector<double> values(1 + random() % 50);
    for (double& value : values) value = static_cast<double>(random() % 20);
    auto sorted = values;
    std::ranges::sort(sorted);
    const std::size_t at = random() % sorted.size();
    const double q =
        sorted.size() == 1 ? 0 : static_cast<double>(at) / static_cast<double>(sorted.size() - 1);
    EXPECT_NEAR(quantile(values, q), sorted[at], 1e-9);
  }
}

}  // namespace
}  // namespace sluice
