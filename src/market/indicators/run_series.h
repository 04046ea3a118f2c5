// Indicators over series of different lengths.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compute/compute.h"
#include "market/indicators/plan/plan.h"

namespace sluice::market {

// A series with a column for each input of an indicator, and for each output once it has run.
struct IndicatorSeries {
  std::string name;
  std::vector<std::vector<double>> in, out;

  std::size_t bars() const { return in[0].size(); }
};

// Fills `out` of every series. Series of the same length run as one batch. Returns the outcomes of
// the batches, from the shortest series to the longest.
std::vector<compute::Outcome> run_series(
    compute::Compute& compute, const Plan& plan, std::span<IndicatorSeries> series,
    compute::DevicePreference device = compute::DevicePreference::automatic);

}  // namespace sluice::market
