// The libraries that people use today, on the same work in the same run: TA-Lib and QuantLib
// on one core, PyTorch on the GPU, through a Python that has them.
#pragma once

#include <string>

#include "cli/bench/bench_report.h"

namespace sluice::cli {

// Fills in the peers of the report's rows. What `python` does not have is a note; an empty
// `python` asks nobody.
void add_market_peers(BenchReport& report, const std::string& python, bool quick);

}  // namespace sluice::cli
