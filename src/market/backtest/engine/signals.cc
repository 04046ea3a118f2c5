#include "market/backtest/engine/signals.h"

#include <cmath>
#include <limits>

#include "market/indicators/plan/make_plan.h"

namespace sluice::market {
namespace {

std::vector<Stream> streams(Strategy strategy, const ParameterSet& set) {
  const auto values = [&](std::size_t i) { return make::Values(&set[i], 1); };
  switch (strategy) {
    case Strategy::sma_cross: return {Stream(make::sma(values(0))), Stream(make::sma(values(1)))};
    case Strategy::ema_cross: return {Stream(make::ema(values(0))), Stream(make::ema(values(1)))};
    case Strategy::rsi: return {Stream(make::rsi(values(0)))};
    case Strategy::bollinger: return {Stream(make::zscore(values(0)))};
    case Strategy::momentum: return {Stream(make::rocp(values(0)))};
    case Strategy::swing:
      return {Stream(make::ema(values(0))), Stream(make::ema(values(1))),
              Stream(make::rsi(values(2)))};
  }
  return {};
}

}  // namespace

SignalStream::SignalStream(Strategy strategy, const ParameterSet& set)
    : strategy_(strategy),
      set_(set),
      streams_(streams(strategy, set)),
      before_(std::numeric_limits<double>::quiet_NaN()) {}

double SignalStream::next(std::size_t stream, double close) {
  double out = 0;
  streams_[stream].update({&close, 1}, {&out, 1});
  return out;
}

Signal SignalStream::cross(double fast, double slow) const {
  if (std::isnan(fast) || std::isnan(slow)) return {};
  const bool up = fast > slow * (1 + kSameAverage);
  return {.enter_long = up, .leave_long = !up, .enter_short = !up, .leave_short = up};
}

Signal SignalStream::swing(double fast, double slow, double strength) {
  const double before = before_, level = set_[3];
  before_ = strength;
  if (std::isnan(fast) || std::isnan(slow) || std::isnan(before)) return {};
  const bool up = fast > slow * (1 + kSameAverage);
  const bool dip_over = before < level && !(strength < level);
  const bool peak_over = before > 100 - level && !(strength > 100 - level);
  return {.enter_long = up && dip_over,
          .leave_long = !up,
          .enter_short = !up && peak_over,
          .leave_short = up};
}

Signal SignalStream::update(double close) {
  const double a = next(0, close);
  switch (strategy_) {
    case Strategy::sma_cross:
    case Strategy::ema_cross: return cross(a, next(1, close));
    case Strategy::rsi: {
      const bool low = a<set_[1], high = a> set_[2];
      return {.enter_long = low, .leave_long = high, .enter_short = high, .leave_short = low};
    }
    case Strategy::bollinger:
      return {.enter_long = a<-set_[1], .leave_long = a> - set_[2],
              .enter_short = a > set_[1],
              .leave_short = a < set_[2]};
    case Strategy::momentum: {
      if (std::isnan(a)) return {};
      const bool up = a > set_[1], down = a < -set_[1];
      return {.enter_long = up, .leave_long = !up, .enter_short = down, .leave_short = !down};
    }
    case Strategy::swing: {
      const double slow = next(1, close);
      return swing(a, slow, next(2, close));
    }
  }
  return {};
}

int decide(const Signal& signal, int position, bool may_long, bool may_short) {
  const bool enter_long = signal.enter_long && may_long;
  const bool enter_short = signal.enter_short && may_short;
  if (position > 0) {
    if (enter_short) return -1;
    return signal.leave_long ? 0 : 1;
  }
  if (position < 0) {
    if (enter_long) return 1;
    return signal.leave_short ? 0 : -1;
  }
  if (enter_long) return 1;
  return enter_short ? -1 : 0;
}

}  // namespace sluice::market
