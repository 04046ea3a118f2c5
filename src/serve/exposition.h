// The machine in Prometheus text, under our names and under the names that the
// boards people already have ask for: DCGM's and Triton's.
#pragma once

#include <string>

#include "serve/traffic.h"
#include "serve/views.h"
#include "watch/snapshot.h"

namespace sluice::serve {

struct ExpositionOptions {
  // DCGM's exporter has a label `modelName` and a name with COUNTER in it. `promtool
  // check metrics` calls that bad style, so they are there only for who asks.
  bool all_of_dcgm = false;
};

// A value that was not measured is absent, and so is every value of a GPU that is
// lost: a scraper must not take the last one for the present one.
std::string exposition(const watch::Snapshot& snapshot, const Traffic::Totals& traffic,
                       const About& about, const ExpositionOptions& options, Instant now);

}  // namespace sluice::serve
