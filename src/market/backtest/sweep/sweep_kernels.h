// The operation of sweep(). Items are tickers. Inputs: open, high, low, close (`bars`
// doubles an item), the item's Span, and for all items the RowSpecs and SetCodes. Output:
// for each item one Tally a set.
#pragma once

#include "compute/operation.h"

namespace sluice::market {

enum SweepInput : std::size_t { kOpen, kHigh, kLow, kClose, kSpan, kRows, kSets };

void sweep_cpu(const compute::Call& call, compute::Workers& workers);

}  // namespace sluice::market
