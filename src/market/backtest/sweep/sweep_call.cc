#include "market/backtest/sweep/sweep_call.h"

#include <algorithm>

namespace sluice::market {
namespace {

template <class T>
compute::Operand shared(const std::vector<T>& values) {
  return {.data = const_cast<T*>(values.data()), .shared_bytes = values.size() * sizeof(T)};
}

}  // namespace

SweepCall::SweepCall(std::span<const PriceHistory> histories, const SweepOptions& options,
                     std::span<const ParameterSet> sets, Tally* out)
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
                 0};
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
