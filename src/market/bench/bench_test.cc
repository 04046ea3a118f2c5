#include "market/bench/bench.h"

#include <gmock/gmock.h>

#include "device/catalogue.h"
#include "market/bench/limits.h"

namespace sluice::market {
namespace {

using testing::HasSubstr;

// A GPU by name that has the CPU do its work, in a millisecond by its own clock.
class MadeUpGpu final : public compute::Accelerator {
 public:
  std::string name() const override { return "NVIDIA H200"; }
  std::string why_not() override { return ""; }
  compute::Taken run(const compute::Operation& operation, const compute::Call& call) override {
    if (operation.cpu == nullptr) return {0, 2e-3, 0};  // another's kernel, which is slower
    operation.cpu(call, workers_);
    if (wrong) *call.output<double>(0) += 1;
    return {1e-3, 1e-3, 2e-3};
  }
  std::size_t trim() noexcept override { return 0; }
  std::shared_ptr<void> keep(const void* data, std::size_t bytes) override {
    const auto memory = std::make_shared<std::vector<std::byte>>(bytes);
    const auto* const from = static_cast<const std::byte*>(data);
    if (from != nullptr) std::copy_n(from, bytes, memory->begin());
    return {memory, memory->data()};
  }

  bool wrong = false;

 private:
  compute::Workers workers_{2};
};

const device::BenchProgress kSilent = [](std::string_view, std::size_t, std::size_t) {};

Limits h200_limits() {
  const auto card = *device::find_profile("h200");
  const auto rates = *device::vector_rates(card);
  Limits limits{.bytes = 4.3e12, .fp64 = rates.fp64, .matrix_fp64 = card.peaks.fp64};
  limits.issued = rates.issued;
  limits.special = rates.special;
  limits.shared_bytes = rates.shared_bytes;
  return limits;
}

const BenchCase& case_named(std::string_view name) {
  for (const BenchCase& one : bench_cases())
    if (one.what.name == name) return one;
  throw Error(Code::not_found, std::string(name));
}

double h200_limit(std::string_view name) {
  const BenchCase& one = case_named(name);
  return limit_of(one.make(one.which, Scale::quick).needs, h200_limits()).value();
}

TEST(BenchMarket, TheScarcestResourceIsTheLimit) {
  const Limits limits{.bytes = 100, .fp64 = 30};
  EXPECT_EQ(limit_of({.bytes = 10, .fp64 = 1}, limits), 10);
  EXPECT_EQ(limit_of({.bytes = 10, .fp64 = 6}, limits), 5);
  EXPECT_EQ(limit_of({.bytes = 10, .issued = 1000}, limits), 10);  // not known: no limit
  EXPECT_EQ(limit_of({}, limits), std::nullopt);
}

TEST(BenchMarket, TheLimitsOfAnH200AreThoseOfItsDatasheet) {
  EXPECT_NEAR(h200_limit("ema"), 269e9, 1e9);
  EXPECT_NEAR(h200_limit("bbands"), 134e9, 1e9);
  EXPECT_NEAR(h200_limit("black_scholes"), 106e9, 1e9);
  EXPECT_NEAR(h200_limit("black_scholes_float"), 215e9, 1e9);
  EXPECT_NEAR(h200_limit("american_binomial"), 10.6e6, 0.1e6);  // without the matrix units
  EXPECT_NEAR(h200_limit("asian"), 1.39e12, 0.01e12);
  EXPECT_NEAR(h200_limit("covariance"), 67e12, 1e12);
  EXPECT_NEAR(h200_limit("backtest"), 4.2e12, 0.1e12);
}

TEST(BenchMarket, EveryGpuCaseHasAValueAndALimit) {
  const auto rows = bench_gpu(std::make_shared<MadeUpGpu>(), {.quick = true}, kSilent);
  EXPECT_EQ(rows.at(0).name, "copy");
  for (const auto& row : rows) {
    EXPECT_TRUE(row.value) << row.name << ": " << row.detail;
    EXPECT_TRUE(row.percent()) << row.name;
  }
  const auto row = [&](std::string_view name) {
    return std::ranges::find(rows, name, &device::BenchRow::name);
  };
  EXPECT_EQ(row("ema_cached"), rows.end());                                      // the CPU's
  EXPECT_NEAR(*row("backtest")->value / *row("backtest_host")->value, 4, 1e-9);  // with copies
}

TEST(BenchMarket, AResultThatDiffersFromTheCpuHasNoRate) {
  const auto gpu = std::make_shared<MadeUpGpu>();
  gpu->wrong = true;
  const auto rows = bench_gpu(gpu, {.quick = true, .only = {"american_fast"}}, kSilent);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_FALSE(rows[0].value);
  EXPECT_THAT(rows[0].detail, HasSubstr("CPU and GPU differ"));
}

TEST(BenchMarket, CpuCasesHaveMeasuredLimits) {
  compute::Workers workers(2);
  const auto rows = bench_cpu(
      workers, {.quick = true, .only = {"copy", "roc", "risk", "american_fast"}}, kSilent);
  std::vector<std::string> names;
  for (const auto& row : rows) {
    names.push_back(row.name);
    EXPECT_TRUE(row.value) << row.name;
    EXPECT_TRUE(row.percent() || row.name == "copy") << row.name;
  }
  EXPECT_THAT(names, testing::ElementsAre("copy", "american_fast", "risk", "risk_recovery",
                                          "risk_long"));  // ROC is for GPUs
}

}  // namespace
}  // namespace sluice::market
