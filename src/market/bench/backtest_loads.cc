#include <fmt/format.h>

#include <cmath>

#include "market/backtest/sweep/all_in_account.h"
#include "market/backtest/sweep/sweep_call.h"
#include "market/bench/workload.h"

namespace sluice::market {
namespace {

PriceHistory history(std::size_t bars, std::size_t number) {
  PriceHistory h;
  h.ticker = fmt::format("T{}", number);
  double close = 100;
  for (std::size_t t = 0; t < bars; ++t) {
    const double open = close;
    close = std::fmax(1, open * (1 + 0.04 * (uniform(number << 32 | t) - 0.49)));
    h.days.push_back(static_cast<std::int32_t>(10000 + t));
    h.open.push_back(open);
    h.close.push_back(close);
    h.high.push_back(std::fmax(open, close));
    h.low.push_back(std::fmin(open, close));
  }
  return h;
}

struct Sweep {
  std::vector<PriceHistory> histories{};
  SweepOptions options{};
  std::vector<Tally> tallies{};
  std::optional<SweepCall> call{};
};

SweepOptions options_of(std::string_view which, Scale scale) {
  SweepOptions options{.strategy = which == "sma" ? Strategy::sma_cross : Strategy::ema_cross};
  const std::vector<Axis> axes =
      scale == Scale::gpu
          ? std::vector{axis_from("fast", "2:101:1"), axis_from("slow", "110:209:1")}
          : std::vector{axis_from("fast", "2:41:1"), axis_from("slow", "50:74:1")};
  options.sets = grid(options.strategy, axes);
  if (which == "stops") {
    options.trading.sides = Sides::both;
    options.trading.stop_loss = 0.05;
  }
  return options;
}

}  // namespace

// A comparison reads a double from shared memory, and another that a warp's sets share. What
// steps from bar to bar takes 22 instructions for each at least.
Workload backtest_load(std::string_view which, Scale scale) {
  constexpr std::size_t kBars = 5402;
  const bool steps = which == "stops";
  const std::size_t many = steps ? 64 : 505, few = steps ? 4 : 20;
  const std::size_t tickers = scale == Scale::quick ? 2 : scale == Scale::cpu ? few : many;
  const auto sweep = std::make_shared<Sweep>();
  sweep->options = options_of(which, scale);
  for (std::size_t i = 0; i < tickers; ++i) sweep->histories.push_back(history(kBars, i + 1));
  const std::size_t sets = sweep->options.sets.size();
  sweep->tallies.resize(tickers * sets);
  sweep->call.emplace(sweep->histories, sweep->options, sweep->options.sets,
                      is_all_in(sweep->options.trading), sweep->tallies.data());
  Workload load{.unit = "bar/s",
                .operation = &sweep_operation(),
                .call = sweep->call->call(),
                .work = sweep->call->bars_traded() * static_cast<double>(sets),
                .needs = steps ? ResourceNeeds{.issued = 22} : ResourceNeeds{.shared_bytes = 8},
                .tolerance = 1e-9,
                .note = fmt::format("{} tickers x {} bars x {} sets", tickers, kBars, sets)};
  load.kept.push_back(sweep);
  return load;
}

}  // namespace sluice::market
