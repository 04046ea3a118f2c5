#include "market/backtest/sweep/set_code.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace sluice::market {
namespace {

// Rows by what they are, so that sets share them.
class Rows {
 public:
  explicit Rows(std::vector<RowSpec>& rows) : rows_(rows) {}

  std::int32_t index(RowKind kind, double period, double scale = 1) {
    const auto key = std::tuple(kind, static_cast<int>(period), scale);
    const auto [at, fresh] = seen_.try_emplace(key, static_cast<std::int32_t>(rows_.size()));
    if (fresh) rows_.push_back({kind, static_cast<int>(period), scale});
    return at->second;
  }

 private:
  std::vector<RowSpec>& rows_;
  std::map<std::tuple<RowKind, int, double>, std::int32_t> seen_;
};

constexpr double kSlow = 1 + kSameAverage;

SetCode code_of(Strategy strategy, const ParameterSet& set, Rows& rows) {
  const auto period = [&](std::size_t i) { return static_cast<std::int32_t>(set[i]); };
  SetCode code;
  switch (strategy) {
    case Strategy::sma_cross:
    case Strategy::ema_cross: {
      const RowKind kind = strategy == Strategy::sma_cross ? RowKind::sma : RowKind::ema;
      code.rows[0] = rows.index(kind, set[0]);
      code.rows[1] = rows.index(kind, set[1], kSlow);
      code.warm = period(1) - 1;
      break;
    }
    case Strategy::rsi:
      code = {{rows.index(RowKind::rsi, set[0])}, period(0), {set[1], set[2]}};
      break;
    case Strategy::bollinger:
      code = {{rows.index(RowKind::score, set[0])}, period(0) - 1, {set[1], set[2]}};
      break;
    case Strategy::momentum:
      code = {{rows.index(RowKind::change, set[0])}, period(0), {set[1]}};
      break;
    case Strategy::swing:
      code.rows[0] = rows.index(RowKind::ema, set[0]);
      code.rows[1] = rows.index(RowKind::ema, set[1], kSlow);
      code.rows[2] = rows.index(RowKind::rsi, set[2]);
      code.warm = std::max(period(1) - 1, period(2) + 1);
      code.k[0] = set[3];
      break;
  }
  return code;
}

}  // namespace

SweepPlan plan_sweep(Strategy strategy, std::span<const ParameterSet> sets) {
  SweepPlan plan{.strategy = strategy, .rows = {}, .codes = {}};
  Rows rows(plan.rows);
  plan.codes.reserve(sets.size());
  for (const ParameterSet& set : sets) plan.codes.push_back(code_of(strategy, set, rows));
  return plan;
}

}  // namespace sluice::market
