// A backtest request and its results.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "market/backtest/sweep/deflated_sharpe.h"
#include "market/backtest/sweep/walk_forward.h"
#include "market/request/fields.h"

namespace sluice::market {

struct StudyRequest {
  std::vector<PriceHistory> histories;
  SweepOptions sweep;
  std::optional<WalkForwardOptions> walk_forward;
  bool fill_given = false;  // else at the next close where there are no opens
  std::string ticker;       // ticker whose account is shown; empty: the first
};

// Reads "strategy", "parameters" (a number, a list, or a range such as "5:50:5" for each),
// "metric", "trading", "walk_forward" and "ticker". Leaves the histories alone.
void read_rules(Fields& fields, StudyRequest& request);

// Reads "prices" by ticker, or "close", "open", "high" and "low" for one ticker.
std::vector<PriceHistory> read_histories(Fields& fields);

struct Study {
  SweepResult sweep;
  Backtest shown;  // the best set on the ticker that is shown
  std::optional<WalkForward> walk_forward{};
  std::optional<DeflatedSharpe> deflated_sharpe{};  // with more than one set
};

// Resolves defaults that depend on both the rules and the histories. Called before run_study().
void settle(StudyRequest& request);

// Bars x sets, plus the cost of windows and of a long answer.
double work_of(const StudyRequest& request);
// Bytes: of indicator rows and tables of a ticker, of all tickers' prices, and of the answer.
double memory_of(const StudyRequest& request, int threads);
// The additional bytes of to_page().
double memory_of_page(const StudyRequest& request);

// `progress` takes a fraction of 0 to 1 and a text; it may be null.
using StudyProgress = std::function<void(double share, const std::string& what)>;
Study run_study(compute::Compute& compute, const StudyRequest& request,
                const StudyProgress& progress = {});

Json to_json(const Study& study);
std::string to_page(const Study& study);

}  // namespace sluice::market
