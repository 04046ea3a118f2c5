// Pieces of the report's page.
#pragma once

#include <string>
#include <string_view>

#include "market/backtest/report/report.h"

namespace sluice::market::page {

std::string escaped(std::string_view text);
std::string signed_number(double value, int digits);   // a minus sign proper, none for zero
std::string percent(double fraction, int digits = 1);  // "12.3 %", a minus sign proper
std::string money(double value);                       // "1,234,567"

// Shows a figure with its name; `tone` is "", "good" or "bad".
std::string tile(std::string_view name, const std::string& value, const std::string& note,
                 std::string_view tone = "");

std::string equity_chart(const Backtest& b);
std::string drawdown_chart(const Backtest& b);
std::string months(const Backtest& b);
std::string trades_table(const Backtest& b);
std::string surface(const SweepResult& r);
std::string best_sets(const SweepResult& r);
std::string tickers(const SweepResult& r);
std::string windows(const WalkForward& w, Strategy strategy, const Trading& trading);
std::string settings(const Backtest& b);
std::string caveats(const Report& report);
std::string split_warning(const Backtest& b);  // empty when there is nothing to warn of

// The style sheet comes before the content, the script after it.
extern const char* const kStyle;
extern const char* const kScript;

}  // namespace sluice::market::page
