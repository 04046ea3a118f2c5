// The signals of a strategy, bar by bar, from the same state machines as the indicators.
#pragma once

#include <vector>

#include "market/backtest/engine/strategy.h"
#include "market/indicators/stream.h"

namespace sluice::market {

// Entry and exit conditions at the close of a bar. They do not depend on the position; decide()
// applies them to one.
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

// Returns the position (1, 0, -1) to hold after `signal`, from `position`.
int decide(const Signal& signal, int position, bool may_long, bool may_short);

}  // namespace sluice::market
