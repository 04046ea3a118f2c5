// Some lines that run together in the lanes of vectors: the part of a batch that is
// compiled for each instruction set.
#pragma once

#include <cstddef>

#include "market/indicators/lines.h"

namespace sluice::market {

struct GroupCall {
  const Batch& batch;
  void* const* in;
  void* const* out;
  const Line* lines;
  std::size_t count;  // 1 to lines_per_group()
  bool large;         // the outputs do not fit the caches
  double* ring;       // aligned; plan.ring x lines_per_group() values
};

// As many as the lanes of this machine hold, for this plan's rule.
std::size_t lines_per_group(const Plan& plan);

void run_lines(const GroupCall& call);

// Those of some rules each, compiled apart: run the call, unless there is none. They return
// the lines of a group, or 0 where the plan is of another's rules.
std::size_t lanes_of_averages(const Plan& plan, const GroupCall* call);
std::size_t lanes_of_spreads(const Plan& plan, const GroupCall* call);
std::size_t lanes_of_changes(const Plan& plan, const GroupCall* call);
std::size_t lanes_of_ranges(const Plan& plan, const GroupCall* call);
std::size_t lanes_of_extremes(const Plan& plan, const GroupCall* call);

// Roots as the lanes take them, 0 for what is under `least`, each in both ways that there are:
// out[2 i] and out[2 i + 1]. For tests: they are std::sqrt's to the bit.
void roots_in_lanes(double least, const double* in, double* out, std::size_t count);

}  // namespace sluice::market
