// Reports of a backtest, a sweep or a walk-forward as JSON, as text and as an HTML page.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "market/backtest/sweep/deflated_sharpe.h"
#include "market/backtest/sweep/walk_forward.h"

namespace sluice::market {

// Numbers that JSON does not have (an infinite profit factor) are null.
nlohmann::json to_json(const Metrics& metrics);
nlohmann::json to_json(const Trading& trading);
nlohmann::json to_json(const Backtest& backtest);   // with curves and trades
nlohmann::json to_json(const SweepResult& result);  // every set, in order
nlohmann::json to_json(const WalkForward& result, Strategy strategy);
nlohmann::json to_json(const DeflatedSharpe& check);

// These give lines for a terminal.
std::string to_table(const Backtest& backtest);
std::string to_table(const SweepResult& result, std::size_t max_rows = 10);  // the best first
std::string to_table(const WalkForward& result, Strategy strategy);
// Explains the selection bias of a best result: "The best of 570 parameter sets ...".
std::string describe(const DeflatedSharpe& check);

// A self-contained page: curves, drawdown, months, trades, the settings and what
// they leave out; with a sweep also its surface, with a walk-forward its windows. Light or
// dark as the reader's system, for screens of any width.
struct Report {
  const Backtest* backtest = nullptr;  // must be given
  const SweepResult* sweep = nullptr;
  const WalkForward* walk_forward = nullptr;
};
std::string to_html(const Report& report);

}  // namespace sluice::market
