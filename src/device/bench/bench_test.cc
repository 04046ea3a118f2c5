#include "device/bench/bench.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "device/bench/bench_stats.h"
#include "device/library.h"

namespace sluice::device {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;

Cpu small_cpu() {
  Cpu cpu;
  cpu.usable_cores = 2;
  cpu.caches = {{3, "unified", 1 << 20}};
  cpu.memory_available = std::uint64_t{512} << 20;
  return cpu;
}

TEST(BenchStats, TheMedianIgnoresOneBadRepeat) {
  const auto row = timed_row({"x", "X"}, "B/s", 100.0, {1, 1, 1, 1, 50});
  EXPECT_DOUBLE_EQ(row.value.value(), 100);
  EXPECT_EQ(row.samples, 5u);
}

TEST(BenchStats, WithoutWorkTheValueIsTheTime) {
  EXPECT_DOUBLE_EQ(timed_row({"x", "X"}, "s", std::nullopt, {2e-6, 4e-6}).value.value(), 3e-6);
}

TEST(BenchStats, TheSpreadIsTheMiddleEightyPercentOverTheMedian) {
  std::vector<double> seconds;
  for (int i = 0; i <= 100; ++i) seconds.push_back(1 + i * 0.01);
  EXPECT_THAT(timed_row({"x", "X"}, "s", std::nullopt, seconds).spread,
              DoubleNear(0.8 / 1.5, 1e-9));
}

TEST(BenchStats, AClockThatSeesNoTimeGivesNoValue) {
  const auto row = timed_row({"x", "X"}, "B/s", 100.0, {0, 0, 0});
  EXPECT_FALSE(row.value.has_value());
  EXPECT_THAT(row.detail, HasSubstr("too coarse"));
}

TEST(BenchStats, ANanIsNeverACorrectResult) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isinf(relative_error(std::vector{1.0, nan}, std::vector{1.0, 2.0})));
  EXPECT_DOUBLE_EQ(relative_error(std::vector{3.0, 4.0}, std::vector{3.0, 4.0}), 0);
  EXPECT_DOUBLE_EQ(relative_error(std::vector{0.0, 0.0}, std::vector{3.0, 4.0}), 1);
}

TEST(BenchStats, ThePercentNeedsBothAValueAndAPeak) {
  auto row = timed_row({"x", "X"}, "B/s", 430.0, {100});
  EXPECT_FALSE(row.percent().has_value());
  row.peak = 4.8;
  EXPECT_THAT(row.percent().value(), DoubleNear(89.58, 0.01));
  EXPECT_FALSE(missing_row({"x", "X"}, "B/s", "no GPU").percent().has_value());
}

TEST(BenchStats, APcieLinksRateFollowsItsGenerationAndWidth) {
  EXPECT_THAT(pcie_rate("32.0 GT/s PCIe", "16").value(), DoubleNear(63.0e9, 0.1e9));
  EXPECT_THAT(pcie_rate("16.0 GT/s PCIe", "8").value(), DoubleNear(15.75e9, 0.01e9));
  EXPECT_THAT(pcie_rate("5.0 GT/s PCIe", "16").value(), DoubleNear(8e9, 1));
  EXPECT_FALSE(pcie_rate("Unknown", "16").has_value());
  EXPECT_FALSE(pcie_rate("8.0 GT/s PCIe", "").has_value());
}

TEST(BenchOptions, OnlyTakesNamesByTheirBeginning) {
  BenchOptions options;
  EXPECT_TRUE(options.wants("gemm_bf16"));
  options.only = {"gemm", "launch_sync"};
  EXPECT_TRUE(options.wants("gemm_bf16"));
  EXPECT_TRUE(options.wants("launch_sync"));
  EXPECT_FALSE(options.wants("launch"));
}

TEST(BenchCpu, MemoryFiguresAreMeasuredAndChecked) {
  BenchOptions options;
  options.quick = true;
  options.only = {"memory"};
  std::vector<std::string> reported;
  const auto rows =
      bench_cpu(small_cpu(), options, [&](std::string_view title, auto done, auto of) {
        reported.push_back(std::string(title) + " " + std::to_string(done) + "/" +
                           std::to_string(of));
      });
  ASSERT_EQ(rows.size(), 2u);
  for (const auto& row : rows) {
    EXPECT_GT(row.value.value_or(0), 1e8) << row.detail;
    EXPECT_LT(row.value.value_or(0), 1e13) << row.detail;
    EXPECT_FALSE(row.peak.has_value());
    EXPECT_THAT(row.detail, HasSubstr("2 threads"));
  }
  EXPECT_THAT(reported, testing::ElementsAre("memory copy 0/2", "memory triad 1/2"));
}

TEST(BenchCpu, TheGemmIsMeasuredOrSaysWhatIsMissing) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers do not survive the threads of a library opened at run time";
#endif
  BenchOptions options;
  options.quick = true;
  options.only = {"gemm"};
  const auto rows = bench_cpu(small_cpu(), options, [](auto, auto, auto) {});
  ASSERT_EQ(rows.size(), 2u);
  for (const auto& row : rows) {
    if (row.value)
      EXPECT_GT(*row.value, 1e8);
    else
      EXPECT_THAT(row.detail, HasSubstr("libdnnl"));
  }
}

TEST(BenchCpu, EveryNameIsARow) {
  for (const auto name : bench_cpu_names()) EXPECT_FALSE(name.empty());
  EXPECT_EQ(bench_cpu_names().size(), 4u);
}

TEST(Library, AMissingLibraryIsAReasonThatNamesIt) {
  const std::string_view names[] = {"libsluice-has-no-such.so.1"};
  const std::string dirs[] = {"/nowhere"};
  try {
    Library library(names, dirs);
    FAIL() << "opened " << library.path();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::unavailable);
    EXPECT_THAT(e.what(), HasSubstr("libsluice-has-no-such.so.1"));
  }
}

TEST(Library, AMissingFunctionNamesTheLibrary) {
  const std::string_view names[] = {"libm.so.6"};
  const Library library(names, {});
  EXPECT_DOUBLE_EQ(library.find<double(double)>("cos")(0), 1);
  EXPECT_THROW(library.find<void()>("sluice_has_no_such"), Error);
}

TEST(BenchRow, AnAbsentValueIsNullInJson) {
  const auto json = to_json(missing_row({"gemm_fp8", "GEMM fp8"}, "FLOP/s", "no kernel"));
  EXPECT_TRUE(json["value"].is_null());
  EXPECT_TRUE(json["percent_of_peak"].is_null());
  EXPECT_EQ(json["detail"], "no kernel");
}

}  // namespace
}  // namespace sluice::device
