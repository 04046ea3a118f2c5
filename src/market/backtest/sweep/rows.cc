#include "market/backtest/sweep/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/cancellation.h"
#include "market/indicators/plan/make_plan.h"
#include "market/indicators/rules/bands_deviation-inl.h"
#include "market/indicators/rules/rsi_momentum-inl.h"

namespace sluice::market {
namespace {

namespace rules = SLUICE_RULES;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Runs a rule over a series; `out` is NaN in the look-back.
template <class R>
void run_rule(const Plan& plan, std::span<const double> in, double* out) {
  R rule{};
  std::vector<double> ring(static_cast<std::size_t>(plan.ring));
  for (std::size_t t = 0; t < in.size(); ++t) {
    double made = 0;
    rule.update(plan, &in[t], ring.data(), &made);
    out[t] = static_cast<std::int64_t>(t) >= plan.lookback ? made : kNan;
  }
}

// Averages run together: each depends on its own last value only.
constexpr std::size_t kTogether = 8;
struct Averaged {
  rules::ExponentialAverage<double> average{};
  int period = 0;
  double factor = 0, scale = 1;
  double* out = nullptr;
};

void run_averages(std::span<Averaged> group, std::span<const double> closes) {
  for (std::size_t t = 0; t < closes.size(); ++t)
    for (Averaged& a : group) {
      const double value = a.average.update(a.period, a.factor, closes[t]);
      a.out[t] = static_cast<int>(t) + 1 >= a.period ? value * a.scale : kNan;
    }
}

void run_any(const RowSpec& spec, std::span<const double> closes, double* out) {
  const double period[] = {static_cast<double>(spec.period)};
  switch (spec.kind) {
    case RowKind::rsi: return run_rule<rules::RsiRule<double>>(make::rsi(period), closes, out);
    case RowKind::score:
      return run_rule<rules::SpreadRule<double, SpreadForm::score>>(make::zscore(period), closes,
                                                                    out);
    case RowKind::change:
      return run_rule<rules::ChangeRule<double, ChangeForm::rocp>>(make::rocp(period), closes, out);
    case RowKind::sma:
    case RowKind::ema: break;
  }
}

}  // namespace

void IndicatorRows::sum_up(std::span<const double> closes) {
  high_.assign(closes.size() + 1, 0);
  low_.assign(closes.size() + 1, 0);
  double sum = 0, lost = 0;
  for (std::size_t t = 0; t < closes.size(); ++t) {
    const double next = sum + closes[t], part = next - sum;
    lost += (sum - (next - part)) + (closes[t] - part);
    sum = next;
    high_[t + 1] = sum;
    low_[t + 1] = lost;
  }
}

void IndicatorRows::compute(std::span<const RowSpec> specs, std::span<const double> closes) {
  pitch_ = (closes.size() + 63) / 64 * 64 + 2 * kBefore;
  values_.resize(specs.size() * pitch_);
  if (std::ranges::find(specs, RowKind::sma, &RowSpec::kind) != specs.end()) sum_up(closes);
  std::vector<Averaged> group;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    throw_if_cancelled();
    const RowSpec& spec = specs[i];
    double* out = begin(i);
    std::fill(out - kBefore, out, kNan);
    std::fill(out + closes.size(), out + (pitch_ - kBefore), kNan);
    if (spec.kind == RowKind::sma) {
      const auto n = static_cast<std::size_t>(spec.period);
      const double inverse = 1.0 / spec.period;
      std::fill_n(out, std::min(n - 1, closes.size()), kNan);
      for (std::size_t t = n; t <= closes.size(); ++t)
        out[t - 1] = ((high_[t] - high_[t - n]) + (low_[t] - low_[t - n])) * inverse * spec.scale;
    } else if (spec.kind == RowKind::ema) {
      group.push_back({{}, spec.period, 2.0 / (spec.period + 1), spec.scale, out});
      if (group.size() < kTogether) continue;
      run_averages(group, closes);
      group.clear();
    } else {
      run_any(spec, closes, out);
    }
  }
  run_averages(group, closes);
}

void yearly_volatility(const Trading& trading, std::span<const double> closes, double* out) {
  std::vector<double> changes(closes.size());
  for (std::size_t t = 1; t < closes.size(); ++t) changes[t] = closes[t] / closes[t - 1] - 1;
  const double values[] = {static_cast<double>(trading.volatility_period), 1, 0};
  out[0] = kNan;
  run_rule<rules::SpreadRule<double, SpreadForm::deviation>>(
      make::stddev(values), std::span(changes).subspan(1), out + 1);
  for (std::size_t t = 1; t < closes.size(); ++t) out[t] *= std::sqrt(trading.periods_per_year);
}

}  // namespace sluice::market
