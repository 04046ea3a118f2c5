// The public header is enough to link sluice_market and calculate.
#include <sluice/market.h>

#include <cstdio>

int main() {
  const std::vector<double> close{1, 2, 4, 8};
  std::vector<double> out(close.size());
  const auto compute = sluice::compute::make_compute("cpu");
  const auto plan = sluice::market::indicator("SMA").plan({{"timeperiod", 2}});
  sluice::market::run(*compute, plan, {close}, {out});
  std::printf("%g\n", out[3]);
  return out[3] == 6 ? 0 : 1;
}
