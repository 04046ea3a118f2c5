// Indicators over arrays: one series or many of the same length (series-major: a series'
// bars lie one behind the other), on the CPU's lanes or a GPU.
//
//   Compute compute({});
//   run(compute, indicator("RSI").plan({{"timeperiod", 14}}), {close}, {out}, bars);
//
// Output is as long as the input. It is NaN until the look-back behind the first bar that
// is complete (no input a NaN); a NaN further on does what it does in TA-Lib: it stays for
// good in averages and deviations, and is passed over by extremes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "compute/compute.h"
#include "market/indicators/lines.h"

namespace sluice::market {

// Its name carries the rule, since each has its own cost.
const compute::Operation& operation_of(Rule rule);

template <class T>
using Arrays = std::vector<std::span<T>>;

// `bars` per series; 0: the arrays are one series. Throws invalid_argument when the number
// or the lengths of arrays do not fit. Arrays may be empty; out must not overlap in.
compute::Outcome run(compute::Compute& compute, const Plan& plan, const Arrays<const double>& in,
                     const Arrays<double>& out, std::size_t bars = 0,
                     compute::Where where = compute::Where::automatic);
compute::Outcome run(compute::Compute& compute, const Plan& plan, const Arrays<const float>& in,
                     const Arrays<float>& out, std::size_t bars = 0,
                     compute::Where where = compute::Where::automatic);

// The call itself, for those who run it another way; `batch` must outlive it.
template <class T>
compute::Call make_call(const Batch& batch, const Arrays<const T>& in, const Arrays<T>& out);

// The operation's functions; the second is null in a build without CUDA.
void batch_on_cpu(const compute::Call& call, compute::Workers& workers);
using GpuFunction = void (*)(const compute::Call&, compute::Lane&);
GpuFunction batch_gpu_function();

}  // namespace sluice::market
