// Indicators over arrays: one series or many of the same length (series-major: the bars of a
// series are contiguous), in SIMD lanes of the CPU or on a GPU.
//
//   Compute compute({});
//   run(compute, indicator("RSI").plan({{"timeperiod", 14}}), {close}, {out}, bars);
//
// Output is as long as the input. It is NaN until the end of the look-back after the first bar that
// is complete (no input a NaN); a NaN further on does what it does in TA-Lib: it stays for
// good in averages and deviations, and is passed over by extremes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "compute/compute.h"
#include "market/indicators/plan/segments.h"

namespace sluice::market {

// Each rule has an operation of its own, since costs are measured per operation.
const compute::Operation& operation_of(IndicatorRule rule);

template <class T>
using Arrays = std::vector<std::span<T>>;

// `bars` per series; 0: the arrays are one series. Throws invalid_argument when the number
// or the lengths of arrays do not fit. Arrays may be empty; out must not overlap in.
compute::Outcome run(compute::Compute& compute, const Plan& plan, const Arrays<const double>& in,
                     const Arrays<double>& out, std::size_t bars = 0,
                     compute::DevicePreference device = compute::DevicePreference::automatic);
compute::Outcome run(compute::Compute& compute, const Plan& plan, const Arrays<const float>& in,
                     const Arrays<float>& out, std::size_t bars = 0,
                     compute::DevicePreference device = compute::DevicePreference::automatic);

// The call itself, for callers that run it in another way; `parameters` must outlive it.
template <class T>
compute::Call make_call(const IndicatorParameters& parameters, const Arrays<const T>& in,
                        const Arrays<T>& out);

}  // namespace sluice::market
