#include "market/backtest/sweep/sweep_call.h"

#include <algorithm>
#include <cmath>

namespace sluice::market {
namespace {

template <class T>
compute::Operand shared(const std::vector<T>& values) {
  return {.data = const_cast<T*>(values.data()), .shared_bytes = values.size() * sizeof(T)};
}

// Returns the median of some of the changes that are not 0, at most one that is usual for volatile
// prices.
double usual_change(std::span<const double> closes) {
  constexpr std::size_t kSamples = 255;
  constexpr double kMaxUsual = 0.01;
  std::vector<double> changes;
  const std::size_t step = closes.size() / kSamples + 1;
  for (std::size_t t = 1; t < closes.size(); t += step)
    if (closes[t] != closes[t - 1]) changes.push_back(std::abs(closes[t] / closes[t - 1] - 1));
  if (changes.empty()) return kMaxUsual;
  const auto middle = changes.begin() + static_cast<std::ptrdiff_t>(changes.size() / 2);
  std::nth_element(changes.begin(), middle, changes.end());
  return std::min(*middle, kMaxUsual);
}

}  // namespace

// A square that is 1e7 times a usual one leaves the usual one 9 of its 16 digits.
bool fits_running_sums(const PriceHistory& history, std::int64_t end) {
  constexpr double kOutlier = 3000;  // usual changes
  const std::span closes(history.close.data(), static_cast<std::size_t>(end));
  const double outlier = kOutlier * usual_change(closes);
  const double high = 1 + outlier, low = 1 - outlier;
  bool found = false;
  for (std::size_t t = 1; t < closes.size(); ++t)
    found |= (closes[t] > high * closes[t - 1]) | (closes[t] < low * closes[t - 1]);
  return !found;
}

SweepCall::SweepCall(std::span<const PriceHistory> histories, const SweepOptions& options,
                     std::span<const ParameterSet> sets, bool all_in, Tally* out)
    : plan_(plan_sweep(options.strategy, sets)) {
  for (const auto& h : histories) {
    spans_.push_back(checked_span(h, options.trading, options.span));
    bars_ = std::max(bars_, static_cast<std::size_t>(spans_.back().end));
  }
  copy_prices(histories);
  parameters_ = {options.strategy,
                 options.trading,
                 static_cast<std::int64_t>(bars_),
                 static_cast<std::int32_t>(sets.size()),
                 static_cast<std::int32_t>(plan_.rows.size()),
                 0,
                 all_in};
  for (const auto& row : plan_.rows)
    parameters_.longest = std::max(parameters_.longest, row.period);
  for (auto& array : prices_)
    call_.in.push_back({.data = array.data(), .item_bytes = bars_ * sizeof(double)});
  call_.in.push_back({.data = spans_.data(), .item_bytes = sizeof(Span)});
  call_.in.push_back(shared(plan_.rows));
  call_.in.push_back(shared(plan_.codes));
  call_.out.push_back({.data = out, .item_bytes = sets.size() * sizeof(Tally)});
  call_.parameters = &parameters_;
  call_.parameters_bytes = sizeof parameters_;
  call_.items = histories.size();
  call_.work = static_cast<double>(bars_) * static_cast<double>(sets.size());
}

void SweepCall::copy_prices(std::span<const PriceHistory> histories) {
  for (auto& array : prices_) array.resize(histories.size() * bars_);
  for (std::size_t i = 0; i < histories.size(); ++i) {
    const PriceHistory h = completed(histories[i]);
    const std::vector<double>* from[] = {&h.open, &h.high, &h.low, &h.close};
    for (std::size_t k = 0; k < 4; ++k)
      std::copy_n(from[k]->begin(), spans_[i].end,
                  prices_[k].begin() + static_cast<std::ptrdiff_t>(i * bars_));
  }
}

double SweepCall::bars_traded() const noexcept {
  double sum = 0;
  for (const Span& span : spans_) sum += static_cast<double>(span.end - span.first);
  return sum;
}

}  // namespace sluice::market
