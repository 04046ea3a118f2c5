#include "market/backtest/sweep/sweep.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "market/backtest/sweep/all_in_account.h"
#include "market/backtest/sweep/sweep_call.h"
#include "market/gpu/gpu_operations.h"

namespace sluice::market {
namespace {

constexpr std::size_t kMaxTallies = std::size_t{64 << 20} / sizeof(Tally);  // kept at once

// With progress reports a call has at most so many sets, and so many tickers that it takes between
// these times.
constexpr std::size_t kMaxReportedSets = 1 << 16;
constexpr double kMinCallSeconds = 0.2, kMaxCallSeconds = 1;

// Sums over tickers, for the means.
struct Sums {
  Metrics of{};
  double wins = 0, profits = 0, losses = 0;

  void add(const Metrics& m, const Tally& tally) {
    of.final_equity += m.final_equity;
    of.cagr += m.cagr;
    of.sharpe += m.sharpe;
    of.sortino += m.sortino;
    of.max_drawdown += m.max_drawdown;
    of.exposure += m.exposure;
    of.turnover += m.turnover;
    of.trades += m.trades;
    wins += tally.wins;
    profits += tally.profits;
    losses += tally.losses;
  }

  Metrics mean(double n) const {
    Metrics m = of;
    for (double* v : {&m.final_equity, &m.cagr, &m.sharpe, &m.sortino, &m.max_drawdown, &m.exposure,
                      &m.turnover})
      *v /= n;
    m.win_rate = m.trades > 0 ? wins / static_cast<double>(m.trades) : 0;
    if (losses > 0)
      m.profit_factor = profits / losses;
    else
      m.profit_factor = profits > 0 ? std::numeric_limits<double>::infinity() : 0;
    return m;
  }
};

class Sweeper {
 public:
  Sweeper(compute::Compute& compute, std::span<const PriceHistory> histories,
          const SweepOptions& options)
      : compute_(compute), histories_(histories), options_(options), begun_(Clock::now()) {
    result_.strategy = options.strategy;
    result_.trading = options.trading;
    result_.metric = options.metric;
  }

  SweepResult run() {
    check();
    const std::size_t sets = options_.sets.size();
    sums_.resize(sets);
    for (const auto& h : histories_) {
      result_.tickers.push_back({.ticker = h.ticker});
      all_in_.push_back(trades_all_in(h));
    }
    const std::size_t max_sets = std::min(sets, options_.progress ? kMaxReportedSets : kMaxTallies);
    for (std::size_t s = 0; s < sets; s += max_sets) run_tickers(s, std::min(max_sets, sets - s));
    for (std::size_t s = 0; s < sets; ++s)
      result_.sets.push_back(
          {options_.sets[s], sums_[s].mean(static_cast<double>(histories_.size()))});
    result_.seconds = elapsed();
    return std::move(result_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - begun_).count(); }

  void check() const {
    require(!histories_.empty(), "there are no prices to trade on");
    require(!options_.sets.empty(), "there are no parameter sets to try");
    validate(options_.trading);
    for (const auto& set : options_.sets) validate(options_.strategy, set);
    for (const auto& h : histories_) {
      validate(h);
      checked_span(h, options_.trading, options_.span);
    }
  }

  // Runs all tickers at once where memory allows it. With progress reports a call has as many
  // tickers as take about half a second.
  void run_tickers(std::size_t set, std::size_t sets) {
    const std::size_t max_tickers = std::max<std::size_t>(1, kMaxTallies / sets);
    std::size_t next = options_.progress ? 1 : max_tickers;
    for (std::size_t t = 0; t < histories_.size();) {
      const std::size_t count =
          same_account(t, std::min({next, max_tickers, histories_.size() - t}));
      const double before = elapsed();
      run_part(t, count, set, sets);
      t += count;
      if (!options_.progress) continue;
      const double took = elapsed() - before;
      if (took < kMinCallSeconds) next = 2 * count;
      if (took > kMaxCallSeconds) next = std::max<std::size_t>(1, count / 2);
    }
  }

  bool trades_all_in(const PriceHistory& h) const {
    return is_all_in(options_.trading) &&
           fits_running_sums(h, checked_span(h, options_.trading, options_.span).end);
  }

  // Returns the number of tickers from this one on that are traded by the same kind of account.
  std::size_t same_account(std::size_t ticker, std::size_t limit) const {
    std::size_t n = 1;
    while (n < limit && all_in_[ticker + n] == all_in_[ticker]) ++n;
    return n;
  }

  void run_part(std::size_t ticker, std::size_t tickers, std::size_t set, std::size_t sets) {
    tallies_.resize(tickers * sets);
    const SweepCall part(histories_.subspan(ticker, tickers), options_,
                         std::span(options_.sets).subspan(set, sets), all_in_[ticker],
                         tallies_.data());
    const auto outcome = compute_.run(sweep_operation(), part.call(), options_.device);
    if (result_.ran_on.empty()) result_.ran_on = outcome.choice.reason;
    collect(part, ticker, set, sets);
  }

  void collect(const SweepCall& part, std::size_t ticker, std::size_t set, std::size_t sets) {
    for (std::size_t i = 0; i < part.spans().size(); ++i) {
      TickerResult& best = result_.tickers[ticker + i];
      const std::int64_t bars = part.spans()[i].end - part.spans()[i].first;
      for (std::size_t s = 0; s < sets; ++s) {
        const Tally& tally = tallies_[i * sets + s];
        const Metrics m = metrics_of(tally, bars, options_.trading);
        sums_[set + s].add(m, tally);
        const bool first = set + s == 0;
        if (first || better(options_.metric, value(m, options_.metric),
                            value(best.metrics, options_.metric))) {
          best.best = set + s;
          best.metrics = m;
        }
      }
    }
    done_ += part.spans().size() * sets;
    result_.bar_sets += part.bars_traded() * static_cast<double>(sets);
    if (options_.progress)
      options_.progress(
          {done_, histories_.size() * options_.sets.size(), result_.bar_sets, elapsed()});
  }

  compute::Compute& compute_;
  std::span<const PriceHistory> histories_;
  const SweepOptions& options_;
  Clock::time_point begun_;
  SweepResult result_;
  std::vector<bool> all_in_;  // of each ticker: traded by AllInAccount
  std::vector<Sums> sums_;
  std::vector<Tally> tallies_;
  std::size_t done_ = 0;
};

}  // namespace

std::vector<std::size_t> SweepResult::ranking() const {
  std::vector<std::size_t> order(sets.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return better(metric, value(sets[a].metrics, metric), value(sets[b].metrics, metric));
  });
  return order;
}

std::size_t SweepResult::best() const {
  std::size_t best = 0;
  for (std::size_t i = 1; i < sets.size(); ++i)
    if (better(metric, value(sets[i].metrics, metric), value(sets[best].metrics, metric))) best = i;
  return best;
}

SweepResult sweep(compute::Compute& compute, std::span<const PriceHistory> histories,
                  const SweepOptions& options) {
  return Sweeper(compute, histories, options).run();
}

const compute::Operation& sweep_operation() {
  static const compute::Operation operation{"backtest_sweep", sweep_cpu, gpu_operations().sweep};
  return operation;
}

}  // namespace sluice::market
