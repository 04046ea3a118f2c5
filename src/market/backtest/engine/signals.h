// The signals of a strategy, bar by bar, from the same state machines as the indicators.
#pragma once

#include <vector>

#include "market/backtest/engine/strategy.h"
#include "market/indicators/stream.h"

namespace sluice::market {

// At the close of a bar. Enter and leave conditions stand for themselves; what is done
// depends on the position: decide().
struct Signal {
  bool enter_long = false, leave_long = false, enter_short = false, leave_short = false;
};

class SignalStream {
 public:
  SignalStream(Strategy strategy, const ParameterSet& set);
  Signal update(double close);

 private:
  double next(std::size_t stream, double close);
  Signal cross(double fast, double slow) const;
  Signal swing(double fast, double slow, double strength);

  Strategy strategy_;
  ParameterSet set_;
  std::vector<Stream> streams_;
  double before_;  // the RSI of the bar before
};

// The position (1, 0, -1) to hold after `signal`, from `position`.
int decide(const Signal& signal, int position, bool may_long, bool may_short);

}  // namespace sluice::market
