#include "market/backtest/report/report.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "market/backtest/engine/prices_for_tests.h"

namespace sluice::market {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ReportPage : public testing::Test {
 protected:
  ReportPage() {
    const std::vector<Axis> axes = {axis_from("fast", "2:10:2"), axis_from("slow", "12:60:8")};
    found = sweep(compute, {&history, 1}, {.sets = grid(Strategy::sma_cross, axes)});
    best = run_backtest(history, {.parameters = found.sets[found.best()].parameters});
  }
  compute::Compute compute{{.threads = 1}};
  PriceHistory history = random_history(900, 31);
  SweepResult found;
  Backtest best;
};

TEST_F(ReportPage, ThePageHasEveryPartAndNoExternalResources) {
  WalkForwardOptions options;
  options.sweep.sets = {{2, 12}, {4, 20}};
  options.in_sample = 300;
  const WalkForward walked = walk_forward(compute, {&history, 1}, options);
  const std::string html = to_html({&best, &found, &walked});
  for (const char* part : {"Equity", "Drawdown", "Months", "Walk-forward", "Parameters", "Trades",
                           "Settings", "What this leaves out", "The best of"})
    EXPECT_THAT(html, HasSubstr(part));
  for (const char* outside : {"http://", "https://", "src=", "@import", "url("})
    EXPECT_THAT(html, Not(HasSubstr(outside)));
}

TEST_F(ReportPage, TheTickerIsEscaped) {
  best.ticker = "<script>alert(\"1\")</script>";
  const std::string html = to_html({&best});
  EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;"));
}

TEST_F(ReportPage, UnadjustedPricesGiveAWarning) {
  EXPECT_THAT(to_html({&best}), Not(HasSubstr("Are these prices adjusted?")));
  for (std::size_t i = 500; i < history.size(); ++i)
    for (auto* array : {&history.open, &history.high, &history.low, &history.close})
      (*array)[i] /= 4;
  const Backtest split = run_backtest(history, {});
  EXPECT_THAT(to_html({&split}), HasSubstr("Are these prices adjusted?"));
}

TEST_F(ReportPage, ThePageWorksWithoutDatesTradesOrMoves) {
  history = {.ticker = "flat", .close = std::vector<double>(50, 7.0)};
  BacktestOptions options;
  options.trading.fill = Fill::next_close;
  const Backtest still = run_backtest(history, options);
  EXPECT_THAT(to_html({&still}), HasSubstr("no dates"));
  EXPECT_THAT(to_html({&still}), Not(HasSubstr("nan")));
  EXPECT_THROW(to_html({}), Error);
}

TEST_F(ReportPage, JsonHasNumbersByNameAndNullForNone) {
  const auto json = to_json(found);
  EXPECT_EQ(json["trials"], found.sets.size());
  EXPECT_EQ(json["best"]["slow"], best.options.parameters[1]);
  const auto one = to_json(best);
  EXPECT_EQ(one["equity"].size(), one["dates"].size());
  EXPECT_EQ(one["trades"].size(), static_cast<std::size_t>(best.metrics.trades));
  EXPECT_EQ(one["trades"][0]["entry_date"].get<std::string>().size(), 10u);
  Metrics endless;
  endless.profit_factor = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(to_json(endless)["profit_factor"].is_null());
}

TEST_F(ReportPage, ThePageShowsEveryTicker) {
  const std::vector<PriceHistory> two = {random_history(300, 41), random_history(300, 42)};
  const SweepResult of_one_set = sweep(compute, two, {.sets = {{5, 20}}});
  const Backtest first = run_backtest(two[0], {.parameters = {5, 20}});
  EXPECT_THAT(to_html({&first, &of_one_set}), AllOf(HasSubstr("2 tickers"), HasSubstr("T42")));
  EXPECT_THAT(to_table(of_one_set), AllOf(HasSubstr("mean of 2"), HasSubstr("\nT42 ")));
}

TEST_F(ReportPage, SmallPricesHaveEnoughDigits) {
  for (auto* array : {&history.open, &history.high, &history.low, &history.close})
    for (double& price : *array) price *= 1e-6;
  const Backtest small = run_backtest(history, {});
  EXPECT_THAT(to_html({&small}), Not(HasSubstr("<td>0.00</td>")));
}

TEST_F(ReportPage, ThePageHasNoNegativeZero) {
  std::vector<double> almost(80, 100.0);
  for (std::size_t i = 0; i < almost.size(); ++i) almost[i] -= 1e-6 * static_cast<double>(i);
  PriceHistory falling{.ticker = "slow", .close = almost};
  for (std::int32_t i = 0; i < 80; ++i) falling.days.push_back(18000 + i);
  BacktestOptions options{.parameters = {1, 2}};
  options.trading = {.sides = Sides::both, .fill = Fill::next_close, .fee = 1e-9};
  options.trading.slippage = 0;
  const Backtest test = run_backtest(falling, options);
  EXPECT_THAT(to_html({&test}), AllOf(Not(HasSubstr("\u22120.0<")), Not(HasSubstr("\u22120.0 %"))));
}

TEST_F(ReportPage, TheDeflatedSharpeRatioUsesTheMeanOfTheTickers) {
  const std::vector<PriceHistory> two = {random_history(300, 41), random_history(300, 42)};
  const SweepResult of_two = sweep(compute, two, {.sets = {{5, 20}, {10, 40}, {20, 60}}});
  const auto& top = of_two.sets[of_two.best()];
  const Backtest shown = run_backtest(two[0], {.parameters = top.parameters});
  EXPECT_EQ(deflated_sharpe(of_two, shown).sharpe, top.metrics.sharpe);
  EXPECT_NE(deflated_sharpe(of_two, shown).sharpe, shown.metrics.sharpe);
}

TEST_F(ReportPage, TheTableListsTheBestSetFirst) {
  const std::string table = to_table(found, 3);
  EXPECT_THAT(table, HasSubstr(describe(found.strategy, best.options.parameters)));
  EXPECT_THAT(table, HasSubstr("more sets"));
}

}  // namespace
}  // namespace sluice::market
