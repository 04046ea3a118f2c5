#include "market/backtest/report.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "market/backtest/prices_for_tests.h"

namespace sluice::market {
namespace {

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

TEST_F(ReportPage, HasEveryPartAndNothingFromElsewhere) {
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

TEST_F(ReportPage, EscapesTheTicker) {
  best.ticker = "<script>alert(\"1\")</script>";
  const std::string html = to_html({&best});
  EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;"));
}

TEST_F(ReportPage, WarnsOfPricesThatLookUnadjusted) {
  EXPECT_THAT(to_html({&best}), Not(HasSubstr("Are these prices adjusted?")));
  for (std::size_t i = 500; i < history.size(); ++i)
    for (auto* array : {&history.open, &history.high, &history.low, &history.close})
      (*array)[i] /= 4;
  const Backtest split = run_backtest(history, {});
  EXPECT_THAT(to_html({&split}), HasSubstr("Are these prices adjusted?"));
}

TEST_F(ReportPage, WorksForPricesWithoutDatesTradesOrMoves) {
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
  EXPECT_EQ(json["tried"], found.sets.size());
  EXPECT_EQ(json["best"]["slow"], best.options.parameters[1]);
  const auto one = to_json(best);
  EXPECT_EQ(one["equity"].size(), one["dates"].size());
  EXPECT_EQ(one["trades"].size(), static_cast<std::size_t>(best.metrics.trades));
  EXPECT_EQ(one["trades"][0]["entry_date"].get<std::string>().size(), 10u);
  Metrics endless;
  endless.profit_factor = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(to_json(endless)["profit_factor"].is_null());
}

TEST_F(ReportPage, TheTableHasTheBestFirst) {
  const std::string table = to_table(found, 3);
  EXPECT_THAT(table, HasSubstr(describe(found.strategy, best.options.parameters)));
  EXPECT_THAT(table, HasSubstr("more sets"));
}

}  // namespace
}  // namespace sluice::market
