#include "market/backtest/engine/backtest.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/error.h"
#include "market/backtest/engine/prices_for_tests.h"

namespace sluice::market {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Trading kFree{.initial_cash = 1000, .fee = 0, .slippage = 0};

// SMA(1) above SMA(2): long after a rise, out after a fall.
BacktestOptions follow(const Trading& trading) {
  return {.strategy = Strategy::sma_cross, .parameters = {1, 2}, .trading = trading};
}

PriceHistory flat_bars(std::vector<double> closes) {
  PriceHistory h{.ticker = "X", .open = closes, .high = closes, .low = closes, .close = closes};
  return h;
}

TEST(Backtest, SignalsAreFilledAtTheNextOpen) {
  PriceHistory h = flat_bars({10, 11, 12, 13, 12, 12});
  h.open = {10, 10, 12.5, 12, 13, 11};
  const Backtest test = run_backtest(h, follow(kFree));
  ASSERT_EQ(test.trades.size(), 1u);
  EXPECT_EQ(test.trades[0].entry_bar, 2);  // the rise was seen at the close of bar 1
  EXPECT_EQ(test.trades[0].entry_price, 12.5);
  EXPECT_EQ(test.trades[0].exit_bar, 5);  // the fall at the close of bar 4
  EXPECT_EQ(test.trades[0].exit_price, 11);
  EXPECT_THAT(test.equity, ElementsAre(1000, 1000, 80 * 12, 80 * 13, 80 * 12, 80 * 11));
  EXPECT_EQ(test.metrics.final_equity, 880);
  EXPECT_DOUBLE_EQ(test.metrics.max_drawdown, 1 - 880.0 / 1040);
  EXPECT_DOUBLE_EQ(test.metrics.exposure, 3 / 5.0);
}

TEST(Backtest, SignalsAreFilledAtTheNextCloseIfRequested) {
  Trading trading = kFree;
  trading.fill = Fill::next_close;
  PriceHistory h = flat_bars({10, 11, 12, 13, 12, 12});
  h.open.clear();
  const Backtest test = run_backtest(h, follow(trading));
  ASSERT_EQ(test.trades.size(), 1u);
  EXPECT_EQ(test.trades[0].entry_price, 12);
  EXPECT_EQ(test.trades[0].exit_bar, 5);
  EXPECT_EQ(test.trades[0].exit, Exit::signal);
}

TEST(Backtest, FeesAndSlippageAreTakenAtEntryAndExit) {
  const Trading trading{.initial_cash = 1000, .fee = 0.01, .fixed_fee = 5, .slippage = 0.02};
  const Backtest test = run_backtest(flat_bars({10, 11, 20, 10, 10, 10}), follow(trading));
  ASSERT_EQ(test.trades.size(), 1u);
  const double shares = (1000 - 5) / (20 * 1.02 * 1.01);
  const double back = shares * 10 * 0.98 * 0.99 - 5;
  EXPECT_DOUBLE_EQ(test.trades[0].quantity, shares);
  EXPECT_DOUBLE_EQ(test.metrics.final_equity, back);
  EXPECT_DOUBLE_EQ(test.trades[0].profit, back - 1000);
}

TEST(Backtest, AShortPositionGainsWhenThePriceFalls) {
  Trading trading = kFree;
  trading.sides = Sides::short_only;
  const Backtest test = run_backtest(flat_bars({10, 9, 8, 6, 7, 7}), follow(trading));
  ASSERT_EQ(test.trades.size(), 1u);
  EXPECT_EQ(test.trades[0].side, -1);
  EXPECT_THAT(test.equity, ElementsAre(1000, 1000, 1000, 1250, 1125, 1125));
}

TEST(Backtest, AShortPositionThatLosesEverythingIsClosedForGood) {
  Trading trading = kFree;
  trading.sides = Sides::short_only;
  const Backtest test = run_backtest(flat_bars({10, 9, 8, 7.9, 30, 20, 10, 5, 4}), follow(trading));
  ASSERT_EQ(test.trades.size(), 1u);
  EXPECT_EQ(test.trades[0].exit, Exit::ruin);
  EXPECT_EQ(test.metrics.final_equity, 0);
  EXPECT_EQ(test.metrics.max_drawdown, 1);
  EXPECT_EQ(test.metrics.cagr, -1);
}

TEST(Backtest, AStopIsFilledAtItsPriceWithinTheBar) {
  Trading trading = kFree;
  trading.stop_loss = 0.1;
  PriceHistory h = flat_bars({10, 11, 12, 13, 14, 15});
  h.low[4] = 10.5;  // entered at 12 on bar 2: the stop is at 10.8
  const Backtest test = run_backtest(h, follow(trading));
  ASSERT_EQ(test.trades.size(), 1u);
  EXPECT_EQ(test.trades[0].exit_bar, 4);
  EXPECT_EQ(test.trades[0].exit, Exit::stop_loss);
  EXPECT_DOUBLE_EQ(test.trades[0].exit_price, 10.8);
}

TEST(Backtest, AStopThatTheOpenJumpsOverIsFilledAtTheOpen) {
  Trading trading = kFree;
  trading.stop_loss = 0.1;
  PriceHistory h = flat_bars({10, 11, 12, 13, 14, 15});
  h.open[4] = h.low[4] = 9;
  EXPECT_EQ(run_backtest(h, follow(trading)).trades[0].exit_price, 9);
  trading = kFree;
  trading.take_profit = 0.1;
  h = flat_bars({10, 11, 12, 12.5, 14, 15});
  EXPECT_EQ(run_backtest(h, follow(trading)).trades[0].exit_price, 14);
}

TEST(Backtest, AStopTakesPrecedenceOverATakeProfitWithinOneBar) {
  Trading trading = kFree;
  trading.stop_loss = trading.take_profit = 0.1;
  PriceHistory h = flat_bars({10, 11, 12, 12.5, 13, 13.1});
  h.high[3] = 20, h.low[3] = 5;
  EXPECT_EQ(run_backtest(h, follow(trading)).trades[0].exit, Exit::stop_loss);
}

TEST(Backtest, TheStrategyWaitsForANewSignalAfterAStop) {
  Trading trading = kFree;
  trading.stop_loss = 0.1;
  PriceHistory h = flat_bars({10, 11, 12, 13, 14, 15, 14, 15, 16, 17});
  h.low[3] = 5;
  const Backtest test = run_backtest(h, follow(trading));
  ASSERT_EQ(test.trades.size(), 2u);
  EXPECT_EQ(test.trades[0].exit_bar, 3);
  EXPECT_EQ(test.trades[1].entry_bar, 8);  // the fall on 6 ended the signal, 7 is a new one
}

TEST(Backtest, PositionsAreSizedByFractionCashOrVolatility) {
  const PriceHistory h = random_history(300, 4);
  Trading trading = kFree;
  trading.fraction = 0.25;
  const auto first_value = [&](const Trading& t) {
    const Trade trade = run_backtest(h, {.parameters = {5, 30}, .trading = t}).trades.at(0);
    return trade.quantity * trade.entry_price;
  };
  EXPECT_NEAR(first_value(trading), 250, 1e-9);
  trading.sizing = Sizing::cash;
  trading.cash = 123;
  EXPECT_NEAR(first_value(trading), 123, 1e-9);
  trading.cash = 1e6;
  EXPECT_NEAR(first_value(trading), 1000, 1e-9);
  trading.sizing = Sizing::volatility;
  trading.target_volatility = 0.1;
  EXPECT_GT(first_value(trading), 150);
  EXPECT_LT(first_value(trading), 600);
}

TEST(Backtest, TheReportComparesWithBuyAndHold) {
  const Backtest test = run_backtest(flat_bars({10, 20, 30, 40}), follow(kFree));
  EXPECT_THAT(test.hold, ElementsAre(1000, 1000, 1500, 2000));
  EXPECT_NEAR(test.hold_metrics.cagr, std::pow(2, 252.0 / 3) - 1, 1e15);
}

TEST(Backtest, BuyAndHoldCountsAsATrade) {
  const Metrics up = run_backtest(flat_bars({10, 20, 30, 40}), follow(kFree)).hold_metrics;
  EXPECT_EQ(std::tuple(up.trades, up.win_rate, up.profit_factor),
            std::tuple(1, 1.0, std::numeric_limits<double>::infinity()));
  EXPECT_EQ(up.turnover, 252.0 / 3);
  const Metrics down = run_backtest(flat_bars({40, 30, 20, 10}), follow(kFree)).hold_metrics;
  EXPECT_EQ(std::tuple(down.trades, down.win_rate, down.profit_factor), std::tuple(1, 0.0, 0.0));
}

// A bar's close is not where it opened: a stop or a take within the bar is filled at its price.
TEST(Backtest, StopsAreFilledAtTheirPriceWithoutOpens) {
  PriceHistory h = flat_bars({100, 101, 101, 100, 100});
  h.open.clear();
  Trading trading = kFree;
  trading.fill = Fill::next_close;
  trading.stop_loss = 0.05;
  h.low[3] = 90, h.close[3] = 92;  // in at 101 on bar 2
  const Trade stopped = run_backtest(h, follow(trading)).trades.at(0);
  EXPECT_EQ(stopped.exit, Exit::stop_loss);
  EXPECT_DOUBLE_EQ(stopped.exit_price, 101 * 0.95);
  trading.stop_loss = 0, trading.take_profit = 0.05;
  h.low[3] = 100, h.high[3] = 120, h.close[3] = 118;
  const Trade taken = run_backtest(h, follow(trading)).trades.at(0);
  EXPECT_EQ(taken.exit, Exit::take_profit);
  EXPECT_DOUBLE_EQ(taken.exit_price, 101 * 1.05);
  h.low[3] = 115;  // the whole bar lies beyond: it opened there
  EXPECT_DOUBLE_EQ(run_backtest(h, follow(trading)).trades.at(0).exit_price, 115);
}

// What is after bar t can change nothing that happened up to t.
void expect_no_look_ahead(Strategy strategy, const Trading& trading) {
  constexpr std::size_t kBars = 260;
  const PriceHistory h = random_history(kBars, 21);
  const BacktestOptions options{strategy, default_parameters(strategy), trading, {}};
  const Backtest whole = run_backtest(h, options);
  for (std::size_t t = 20; t + 1 < kBars; t += 13) {
    PriceHistory other = h;
    for (std::size_t i = t + 1; i < kBars; ++i)
      for (auto* array : {&other.open, &other.high, &other.low, &other.close})
        (*array)[i] = (*array)[i] * (i % 2 == 0 ? 3 : 0.4);
    const Backtest changed = run_backtest(other, options);
    for (std::size_t i = 0; i <= t; ++i) ASSERT_EQ(whole.equity[i], changed.equity[i]) << t;
    const auto filled = [t](const Backtest& b) {
      return std::ranges::count_if(
          b.trades, [t](const Trade& x) { return x.entry_bar <= static_cast<std::int64_t>(t); });
    };
    ASSERT_EQ(filled(whole), filled(changed)) << t;
  }
}

TEST(Backtest, NothingAfterABarChangesWhatHappenedBefore) {
  for (const Strategy strategy : strategies()) {
    SCOPED_TRACE(to_string(strategy));
    expect_no_look_ahead(strategy, {.sides = Sides::both});
    expect_no_look_ahead(strategy, {.sides = Sides::both, .fill = Fill::next_close});
    expect_no_look_ahead(strategy, {.sides = Sides::both,
                                    .sizing = Sizing::volatility,
                                    .stop_loss = 0.03,
                                    .take_profit = 0.05});
  }
}

// The order that bar t's close gives is filled at t + 1, so there it may show.
TEST(Backtest, TheNextOpenIsTheFirstPriceThatCounts) {
  PriceHistory h = flat_bars({10, 11, 12, 13, 14});
  const double before = run_backtest(h, follow(kFree)).trades.at(0).entry_price;
  h.open[2] = 11.5;
  EXPECT_EQ(before, 12);
  EXPECT_EQ(run_backtest(h, follow(kFree)).trades.at(0).entry_price, 11.5);
}

TEST(Backtest, ConstantPricesGiveNoTrades) {
  for (const double price : {0.1, 3.3, 101.7}) {
    const PriceHistory h = flat_bars(std::vector<double>(400, price));
    for (const Strategy strategy : strategies()) {
      if (strategy == Strategy::rsi) continue;  // TA-Lib's RSI of no moves is 0
      EXPECT_EQ(run_backtest(h, {strategy, default_parameters(strategy)}).metrics.trades, 0);
    }
  }
}

TEST(Backtest, BadPricesAreRefusedByBar) {
  const auto refused = [](const PriceHistory& h) {
    try {
      run_backtest(h, {});
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  PriceHistory h = random_history(100, 1);
  h.close[7] = NAN;
  EXPECT_THAT(refused(h), HasSubstr("close of bar 7"));
  h = random_history(100, 1);
  h.low[9] = 0;
  EXPECT_THAT(refused(h), HasSubstr("low of bar 9"));
  h = random_history(100, 1);
  h.days[5] = h.days[4];
  EXPECT_THAT(refused(h), HasSubstr("not after the one before"));
  h.intraday = true;
  EXPECT_EQ(refused(h), "");
  h.days[5] = h.days[3];
  EXPECT_THAT(refused(h), HasSubstr("not after the one before"));
  EXPECT_THAT(refused(PriceHistory{}), HasSubstr("two bars"));
}

TEST(Dates, DatesRoundTrip) {
  EXPECT_EQ(day_from("1970-01-01"), 0);
  EXPECT_EQ(to_date(day_from("2020-02-29")), "2020-02-29");
  EXPECT_EQ(month_of(day_from("1999-12-31")), (Month{1999, 12}));
  EXPECT_EQ(day_from("2020/02/29"), day_from("2020-02-29"));
  EXPECT_EQ(day_from("20200229"), day_from("2020-02-29"));
  for (const char* wrong : {"", "2020-02-30", "2020-02/03", "20-02-2020", "2020-2-03", "2020-0x-03",
                            "20200230", "2020022"})
    EXPECT_THROW(day_from(wrong), Error) << wrong;
}

TEST(Dates, DatesMayHaveATime) {
  for (const char* timed : {"2020-02-29T09:30", "2020-02-29 09:30:00", "20200229 0930"}) {
    EXPECT_TRUE(looks_dated(timed)) << timed;
    EXPECT_EQ(stamp_from(timed).day, day_from("2020-02-29")) << timed;
    EXPECT_TRUE(stamp_from(timed).timed) << timed;
  }
  EXPECT_FALSE(stamp_from("2020-02-29").timed);
  for (const char* other : {"1582934400", "17", "", "close", "99999999", "29-02-2020"})
    EXPECT_FALSE(looks_dated(other)) << other;
  for (const char* wrong : {"2020-02-29x", "2020-02-2", "", "2020-02-30 09:30"})
    EXPECT_THROW(stamp_from(wrong), Error) << wrong;
}

TEST(Grid, SetsWhoseFastAverageIsNotFasterAreLeftOut) {
  const std::vector<Axis> axes = {axis_from("fast", "5:20:5"), axis_from("slow", "10,20")};
  const auto sets = grid(Strategy::sma_cross, axes);
  EXPECT_EQ(sets.size(), 4u);  // 5/10, 5/20, 10/20, 15/20
  EXPECT_EQ(sets[2][0], 10);
  EXPECT_THROW(grid(Strategy::sma_cross, std::vector{axis_from("speed", "1")}), Error);
  EXPECT_THROW(grid(Strategy::sma_cross, std::vector{axis_from("fast", "0")}), Error);
  EXPECT_THROW(axis_from("fast", "5:"), Error);
  EXPECT_THROW(axis_from("fast", "5:1"), Error);
  EXPECT_THROW(axis_from("fast", "1:1e9"), Error);
  EXPECT_THAT(axis_from("x", "0.1:0.3:0.1").values, testing::SizeIs(3));
}

}  // namespace
}  // namespace sluice::market
