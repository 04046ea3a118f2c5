#include "kernels/norm/norm_cpu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/common/targets_for_tests.h"

namespace sluice::kernels::cpu {
namespace {

void expect_statistics_of_double_precision() {
  constexpr std::size_t kRows = 5;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.5f, 2);
  for (const std::size_t n : {1, 7, 16, 384, 1000}) {
    std::vector<float> x(kRows * n), residual(kRows * n), scale(n, 1.0f), y(kRows * n);
    for (float& one : x) one = normal(random);
    for (float& one : residual) one = normal(random);
    std::vector<float> mean(kRows), rstd(kRows);
    norm_rows({.x = x.data(),
               .residual = residual.data(),
               .scale = scale.data(),
               .y = y.data(),
               .rows = kRows,
               .n = n,
               .epsilon = 1e-5f,
               .mean = mean.data(),
               .rstd = rstd.data()});
    for (std::size_t row = 0; row < kRows; ++row) {
      double sum = 0, squares = 0;
      const auto at = [&](std::size_t i) {
        return static_cast<double>(x[row * n + i]) + static_cast<double>(residual[row * n + i]);
      };
      for (std::size_t i = 0; i < n; ++i) sum += at(i);
      const double want = sum / static_cast<double>(n);
      for (std::size_t i = 0; i < n; ++i) squares += (at(i) - want) * (at(i) - want);
      const double by = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
      EXPECT_NEAR(static_cast<double>(mean[row]), want, 1e-5) << n;
      EXPECT_NEAR(static_cast<double>(rstd[row]) / by, 1, n == 1 ? 1e-3 : 1e-5) << n;
    }
  }
}

TEST(CpuNorm, SavesTheMeanAndTheReciprocalStandardDeviationOfEachRow) {
  for_each_target(expect_statistics_of_double_precision);
}

}  // namespace
}  // namespace sluice::kernels::cpu
