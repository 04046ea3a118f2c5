#include "market/indicators/batch.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <bit>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "base/sanitized_for_tests.h"
#include "market/indicators/cpu/simd_segments.h"
#include "market/indicators/indicator.h"
#include "market/indicators/market_for_tests.h"
#include "market/indicators/stream.h"

namespace sluice::market {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Outputs = std::vector<std::vector<double>>;

Outputs run_batch(const Indicator& one, const Plan& plan, const Market& market, int threads = 2) {
  compute::Compute compute({.threads = threads});
  Outputs made(one.outputs.size(), std::vector<double>(market.series * market.bars, -7));
  run(compute, plan, market.inputs(one), Arrays<double>(made.begin(), made.end()), market.bars);
  return made;
}

Outputs run_stream(const Indicator& one, const Plan& plan, const Market& market) {
  Outputs made(one.outputs.size(), std::vector<double>(market.series * market.bars));
  const auto in = market.inputs(one);
  std::vector<double> bar(in.size()), out(made.size());
  for (std::size_t s = 0; s < market.series; ++s) {
    Stream stream(plan);
    for (std::size_t t = s * market.bars; t < (s + 1) * market.bars; ++t) {
      for (std::size_t k = 0; k < bar.size(); ++k) bar[k] = in[k][t];
      stream.update(bar, out);
      for (std::size_t k = 0; k < out.size(); ++k) made[k][t] = out[k];
    }
  }
  return made;
}

// The same bits; any NaN is as good as another.
bool identical(const Outputs& a, const Outputs& b) {
  for (std::size_t k = 0; k < a.size(); ++k)
    for (std::size_t i = 0; i < a[k].size(); ++i)
      if (std::bit_cast<std::uint64_t>(a[k][i]) != std::bit_cast<std::uint64_t>(b[k][i]) &&
          !(std::isnan(a[k][i]) && std::isnan(b[k][i]))) {
        ADD_FAILURE() << "output " << k << " at " << i << ": " << a[k][i] << " and " << b[k][i];
        return false;
      }
  return true;
}

double worst(const Outputs& a, const Outputs& b, double floor) {
  double worst = 0;
  for (std::size_t k = 0; k < a.size(); ++k)
    for (std::size_t i = 0; i < a[k].size(); ++i) {
      if (std::isnan(a[k][i]) && std::isnan(b[k][i])) continue;
      const double size = std::max({std::fabs(a[k][i]), std::fabs(b[k][i]), floor});
      const double off = std::fabs(a[k][i] - b[k][i]) / size;
      if (!(off <= worst)) worst = off;
      if (std::isnan(off)) return off;
    }
  return worst;
}

TEST(Batch, BatchAndStreamGiveTheSameBitsForEveryIndicator) {
  for (const std::size_t series : {1u, 3u, 40u, 67u}) {
    const Market market(series, 301);
    for (const Indicator& one : indicators()) {
      SCOPED_TRACE(one.name);
      EXPECT_TRUE(
          identical(run_batch(one, one.plan(), market), run_stream(one, one.plan(), market)));
    }
  }
}

TEST(Batch, EveryInstructionSetGivesTheSameBits) {
  const Market market(21, 130);
  for (const std::int64_t target : {HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_SCALAR}) {
    if ((hwy::SupportedTargets() & target) == 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    for (const Indicator& one : indicators()) {
      SCOPED_TRACE(std::string(one.name) + " with " + hwy::TargetName(target));
      EXPECT_TRUE(
          identical(run_batch(one, one.plan(), market), run_stream(one, one.plan(), market)));
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
}

// Sums, variances and roots that are infinite, tiny, denormal, zero or NaN.
TEST(Batch, BatchAndStreamGiveTheSameBitsForPricesOfAnyMagnitude) {
  Market market(16, 700);
  for (std::size_t i = 0; i < market.column[3].size(); ++i) {
    const std::size_t series = i / 700, t = i % 700;
    double& price = market.column[3][i];
    price = std::ldexp(price, static_cast<int>(series) * 128 - 1050);
    if (t > 300 && t < 400) price = market.column[3][series * 700 + 300];
    if (series % 3 == 0 && t == 500) price = 1e308;
  }
  for (const Indicator& one : indicators()) {
    if (one.inputs.size() > 1) continue;
    SCOPED_TRACE(one.name);
    EXPECT_TRUE(identical(run_batch(one, one.plan(), market), run_stream(one, one.plan(), market)));
  }
}

TEST(Batch, SegmentsOfLongSeriesAgreeToTwelveDigits) {
  const Market market(2, 60000);
  for (const Indicator& one : indicators()) {
    SCOPED_TRACE(one.name);
    const auto parts = segment_count(one.plan(), 60000, 2, 12);
    const auto off =
        worst(run_batch(one, one.plan(), market), run_stream(one, one.plan(), market), 1.0);
    EXPECT_LE(off, 1e-12) << parts << " parts";
    if (one.plan().align > 0 || parts == 1) {
      EXPECT_EQ(off, 0);
    }
  }
}

TEST(Batch, SegmentsThatBeginInUnchangedBarsReadTheBarsBefore) {
  Market market(1, 60000);
  for (auto& column : market.column) {
    std::fill(column.begin() + 9000, column.begin() + 30000, column[9000]);
    std::fill(column.begin() + 31000, column.end(), column[31000]);
  }
  for (const std::string_view name : {"RSI", "ADX", "DX", "PLUS_DI"}) {
    const Indicator& one = indicator(name);
    ASSERT_GT(segment_count(one.plan(), 60000, 1, 12), 2) << name;
    const Outputs parts = run_batch(one, one.plan(), market);
    const Outputs serial = run_stream(one, one.plan(), market);
    EXPECT_LE(worst(parts, serial, 1.0), 1e-12) << name;
  }
}

TEST(Batch, ResultsDoNotDependOnTheNumberOfThreads) {
  const Market market(5, 30000);
  for (const std::string_view name : {"EMA", "RSI", "BBANDS", "ADX", "STOCH"}) {
    const Indicator& one = indicator(name);
    EXPECT_TRUE(
        identical(run_batch(one, one.plan(), market, 1), run_batch(one, one.plan(), market, 3)));
  }
}

TEST(Batch, LeadingNansAreSkippedPerSeries) {
  Market market(37, 200);
  for (std::size_t s = 0; s < market.series; ++s)
    for (std::size_t t = 0; t < s * 6; ++t)
      market.column[3][s * 200 + std::min<std::size_t>(t, 199)] = kNan;
  for (const Indicator& one : indicators()) {
    SCOPED_TRACE(one.name);
    EXPECT_TRUE(identical(run_batch(one, one.plan(), market), run_stream(one, one.plan(), market)));
  }
}

TEST(Batch, SeriesShorterThanTheLookbackAreAllNan) {
  for (const std::size_t bars : {1u, 2u, 5u})
    for (const Indicator& one : indicators()) {
      const Market market(3, bars);
      const Outputs made = run_batch(one, one.plan(), market);
      for (std::size_t t = 0; t < bars; ++t)
        EXPECT_EQ(std::isnan(made[0][t]), t < static_cast<std::size_t>(one.plan().lookback))
            << one.name << ' ' << t;
    }
}

TEST(Batch, EmptyArraysAreAccepted) {
  compute::Compute compute({.threads = 1});
  std::vector<double> none;
  const compute::Outcome outcome = run(compute, indicator("EMA").plan(), {none}, {none});
  EXPECT_EQ(outcome.items_on_cpu + outcome.items_on_gpu, 0u);
  EXPECT_EQ(outcome.fallback, "");
}

TEST(Batch, ArraysThatDoNotFitAreRefused) {
  compute::Compute compute({.threads = 1});
  std::vector<double> ten(10), nine(9);
  const Plan plan = indicator("EMA").plan();
  EXPECT_THROW(run(compute, plan, {ten}, {nine}), Error);
  EXPECT_THROW(run(compute, plan, Arrays<const double>{ten, ten}, {ten}), Error);
  EXPECT_THROW(run(compute, plan, {ten}, {ten}, 3), Error);
}

TEST(Batch, FloatsAreComputedAsDoubles) {
  const Market market(9, 500);
  compute::Compute compute({.threads = 1});
  const std::vector<float> in(market.column[3].begin(), market.column[3].end());
  Market rounded = market;
  rounded.column[3].assign(in.begin(), in.end());
  for (const std::string_view name : {"SMA", "EMA", "RSI"}) {
    std::vector<float> out(in.size());
    run(compute, indicator(name).plan(), {in}, {out}, 500);
    const Outputs wanted = run_batch(indicator(name), indicator(name).plan(), rounded);
    for (std::size_t i = 0; i < out.size(); ++i)
      if (!std::isnan(out[i])) {
        ASSERT_EQ(out[i], static_cast<float>(wanted[0][i])) << name;
      }
  }
}

// ---- windows -----------------------------------------------------------------------------

TEST(Windows, ASpikeOutsideTheWindowHasNoEffect) {
  Market market(1, 400), spiked(1, 400);
  spiked.column[3][100] = 1e15;
  for (const std::string_view name : {"SMA", "WMA", "BBANDS", "STDDEV", "VAR", "ZSCORE"}) {
    const Indicator& one = indicator(name);
    const Outputs clean = run_batch(one, one.plan(), market),
                  after = run_batch(one, one.plan(), spiked);
    for (std::size_t k = 0; k < clean.size(); ++k)
      for (std::size_t t = 131; t < 400; ++t)
        ASSERT_NEAR(after[k][t], clean[k][t], 1e-9 * std::fabs(clean[k][t]) + 1e-12)
            << name << ' ' << t;
  }
}

TEST(Windows, DeviationsOfTinyAndOfConstantPricesAreRight) {
  const Indicator& one = indicator("STDDEV");
  Market market(1, 300);
  const std::vector<double> walk = market.column[3];
  for (const double scale : {1e-9, 1e-3, 1.0, 1e6}) {
    for (std::size_t t = 0; t < 300; ++t) market.column[3][t] = walk[t] * scale;
    const Outputs made = run_batch(one, one.plan(), market);
    for (std::size_t t = 4; t < 300; ++t) {
      long double sum = 0, square = 0;
      for (std::size_t i = t - 4; i <= t; ++i) sum += market.column[3][i];
      for (std::size_t i = t - 4; i <= t; ++i)
        square += (market.column[3][i] - sum / 5) * (market.column[3][i] - sum / 5);
      ASSERT_NEAR(made[0][t] / static_cast<double>(std::sqrt(square / 5)), 1, 1e-9);
    }
  }
  market.column[3].assign(300, 0.1);
  const Outputs flat = run_batch(one, one.plan(), market);
  for (std::size_t t = 4; t < 300; ++t) ASSERT_EQ(flat[0][t], 0);
}

// Numbers whose roots lie as close to the middle between two doubles as roots can: M odd of
// 54 bits with M^2 = c + N 2^bits, c small, has sqrt(N 2^(bits - 2)) next to M / 2.
void add_hard_roots(int bits, std::int64_t c, std::vector<double>& to) {
  std::uint64_t x = 1;
  for (int i = 3; i < bits; ++i)
    if ((x * x - static_cast<std::uint64_t>(c)) >> i & 1) x += std::uint64_t{1} << (i - 1);
  const std::uint64_t turn = std::uint64_t{1} << bits, half = turn / 2;
  for (const std::uint64_t m : {x, turn - x, x + half, half - x}) {
    const std::uint64_t root = m & (turn - 1);
    if (root >> 53 != 1) continue;
    const auto square =
        static_cast<unsigned __int128>(root) * root - static_cast<unsigned __int128>(c);
    to.push_back(std::ldexp(static_cast<double>(static_cast<std::uint64_t>(square >> bits)), bits));
  }
}

TEST(Windows, RootsInLanesEqualStdSqrtToTheBit) {
  std::vector<double> x = {0, -0.0, 1, 2, 4, 1e-320, 1e-300, 1e300, 1.7e308, INFINITY, kNan, -1};
  for (std::int64_t c = -4095; c < 4096; c += 8) {
    add_hard_roots(54, c, x);
    add_hard_roots(55, c, x);
  }
  ASSERT_GT(x.size(), 2000u);
  std::uint64_t seed = 1;
  for (int i = 0; i < 100000; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    x.push_back(std::ldexp(1 + static_cast<double>(seed >> 12) * 0x1p-52, i % 2098 - 1074));
  }
  std::vector<double> made(2 * x.size());
  for (const double min_value : {0.0, 1e-14, 1e200}) {
    roots_in_lanes(min_value, x.data(), made.data(), x.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
      const double right = x[i / 2] < min_value ? 0 : std::sqrt(x[i / 2]);
      if (std::isnan(right) && std::isnan(made[i])) continue;
      ASSERT_EQ(std::bit_cast<std::uint64_t>(made[i]), std::bit_cast<std::uint64_t>(right))
          << x[i / 2] << " from " << min_value;
    }
  }
}

TEST(Windows, ANanStaysInAveragesAndLeavesExtremes) {
  Market market(1, 200);
  market.column[3][77] = kNan;
  const auto value = [&](std::string_view name, std::size_t t) {
    return run_batch(indicator(name), indicator(name).plan(), market)[0][t];
  };
  for (const std::string_view name : {"SMA", "EMA", "WMA", "BBANDS", "STDDEV", "MACD"}) {
    EXPECT_FALSE(std::isnan(value(name, 76))) << name;
    EXPECT_TRUE(std::isnan(value(name, 77))) << name;
    EXPECT_TRUE(std::isnan(value(name, 199))) << name;
  }
  for (const std::string_view name : {"RSI", "STOCHRSI", "OBV"}) {
    EXPECT_FALSE(std::isnan(value(name, 76))) << name;
    EXPECT_TRUE(std::isnan(value(name, 77))) << name;
    EXPECT_TRUE(std::isnan(value(name, 199))) << name;
  }
  EXPECT_FALSE(std::isnan(value("MAX", 77)));
  EXPECT_TRUE(std::isnan(value("ROC", 87)));
  EXPECT_FALSE(std::isnan(value("ROC", 88)));
}

TEST(Windows, ANanStaysInTrends) {
  Market market(1, 200);
  market.column[1][77] = kNan;  // a high
  for (const std::string_view name : {"PLUS_DI", "MINUS_DI", "DX", "ADX", "ATR", "NATR"}) {
    const auto made = run_batch(indicator(name), indicator(name).plan(), market)[0];
    EXPECT_FALSE(std::isnan(made[76])) << name;
    for (std::size_t t = 77; t < 200; ++t) EXPECT_TRUE(std::isnan(made[t])) << name << ' ' << t;
  }
}

TEST(Windows, ANanAmongConstantPricesGivesNan) {
  Market market(1, 60);
  for (auto& column : market.column) std::fill(column.begin(), column.end(), 100.0);
  market.column[3][50] = kNan;
  for (const std::string_view name : {"STOCHF", "WILLR", "RSI", "STOCHRSI"})
    EXPECT_TRUE(std::isnan(run_batch(indicator(name), indicator(name).plan(), market)[0][50]))
        << name;
}

// A segment for each part would read the flat bars before it again.
TEST(Windows, ConstantPricesTakeNoMoreTime) {
  Market flat(1, 4'000'000);
  for (auto& column : flat.column) std::fill(column.begin(), column.end(), 100.0);
  flat.column[3][10] = 101;
  const auto begun = std::chrono::steady_clock::now();
  run_batch(indicator("RSI"), indicator("RSI").plan({{"timeperiod", 2}}), flat);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, kPatience * std::chrono::seconds(2));
}

// ---- streams -----------------------------------------------------------------------------

TEST(Streams, PeekChangesNothingAndASavedStateContinues) {
  const Market market(1, 250);
  for (const Indicator& one : indicators()) {
    SCOPED_TRACE(one.name);
    const Outputs whole = run_stream(one, one.plan(), market);
    const auto in = market.inputs(one);
    std::vector<double> bar(in.size()), out(whole.size());
    Stream first(one.plan());
    const auto feed = [&](Stream& stream, std::size_t t) {
      for (std::size_t k = 0; k < bar.size(); ++k) bar[k] = in[k][t];
      stream.peek(std::vector<double>(bar.size(), 1e9), out);
      stream.update(bar, out);
    };
    for (std::size_t t = 0; t < 120; ++t) feed(first, t);
    Stream second(one.plan());
    second.load(first.save());
    for (std::size_t t = 120; t < 250; ++t) feed(second, t);
    for (std::size_t k = 0; k < out.size(); ++k)
      EXPECT_EQ(std::bit_cast<std::uint64_t>(out[k]), std::bit_cast<std::uint64_t>(whole[k][249]));
  }
}

TEST(Streams, AStateOfOtherParametersOrADamagedOneIsRefused) {
  Stream ten(indicator("SMA").plan({{"timeperiod", 10}})), other(indicator("SMA").plan());
  EXPECT_THROW(other.load(ten.save()), Error);
  auto state = ten.save();
  state[sizeof(Plan) + 9] ^= std::byte{1};
  EXPECT_THROW(ten.load(state), Error);
  EXPECT_THROW(ten.load({}), Error);
}

// ---- the table ---------------------------------------------------------------------------

TEST(Table, NamesParametersAndRangesAreChecked) {
  EXPECT_EQ(indicator("bbands").outputs.size(), 3u);
  EXPECT_EQ(indicator("Rsi").plan().lookback, 14);
  EXPECT_EQ(indicator("MACD").plan().lookback, 33);
  EXPECT_EQ(indicator("ADX").plan().lookback, 27);
  EXPECT_THROW(indicator("nope"), Error);
  EXPECT_THROW(indicator("RSI").plan({{"timeperiod", 1}}), Error);
  EXPECT_THROW(indicator("RSI").plan({{"timeperiod", 2.5}}), Error);
  EXPECT_THROW(indicator("RSI").plan({{"timeperiod", kNan}}), Error);
  EXPECT_THROW(indicator("RSI").plan({{"period", 5}}), Error);
  for (const Indicator& one : indicators()) {
    EXPECT_EQ(one.plan().inputs, static_cast<int>(one.inputs.size())) << one.name;
    EXPECT_EQ(one.plan().outputs, static_cast<int>(one.outputs.size())) << one.name;
  }
}

}  // namespace
}  // namespace sluice::market
