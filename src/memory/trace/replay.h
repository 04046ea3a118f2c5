// A trace through a pool: what would each strategy have made of it? Over an imaginary
// arena, so that a trace of an 80 GB card is replayed on a laptop; the times are those
// of our own code, without what a driver takes to map memory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "memory/pool/pool.h"
#include "memory/trace/trace.h"

namespace sluice::memory {

struct ReplayOptions {
  std::optional<std::size_t> ceiling;         // memory there is; nothing: see ReplayResult
  std::size_t growth = PoolOptions{}.growth;  // of the pool, where there is space
  int passes = 5;                             // timed; the median of them counts
};

// Shares are 0..1. (1 - internal) * (1 - external) is the efficiency.
struct ReplayFigures {
  std::size_t ceiling = 0;         // the pool's
  std::size_t peak_used = 0;       // maximum of requested and not yet freed bytes
  std::size_t peak_taken = 0;      // the same after rounding: in blocks
  std::size_t peak_committed = 0;  // memory held, at the most
  double efficiency = 0;           // peak_used / peak_committed
  double internal = 0;             // of peak_taken, lost to rounding
  double external = 0;             // of peak_committed, in no block when most is in blocks
  double scattered = 0;            // average over time of 1 - largest hole / all that is free
  double stranded = 0;             // of the free memory, over time, too small to remap
  std::uint64_t commits = 0, remapped_bytes = 0, failures = 0;
};

struct ReplayTimes {  // nanoseconds
  double allocate_p50 = 0, allocate_p99 = 0, free_p50 = 0, free_p99 = 0;
  double quietest_pair = 0;  // both medians of the quietest pass: what strategies are compared by
};

struct ReplayResult {
  StrategyKind strategy{};
  // The replay in ReplayOptions::ceiling, or without one in the minimum memory in which every
  // request is served, found by bisection.
  ReplayFigures figures;
  ReplayTimes times;
  // Without a ceiling at all: what the pool takes without a limit. Only where
  // ReplayOptions has no ceiling.
  std::optional<ReplayFigures> roomy;
  std::optional<ReplayTimes> roomy_times;
  // With so much memory that the efficiency is 95 %, which may save much remapping. Only
  // where that is more than the least.
  std::optional<ReplayFigures> spare;
};

// Called now and then with the share that is done, 0..1.
using ReplayProgress = std::function<void(double done)>;

ReplayResult replay(const Trace& trace, StrategyKind strategy, const ReplayOptions& options,
                    const ReplayProgress& progress = {});

struct Recommendation {
  StrategyKind strategy{};
  std::string reason;  // a sentence
};

// Recommends a strategy. Keeps the results that served the most requests, then those near the
// minimum of memory, of remapping and of time, and takes the one that needs the least memory;
// "near" allows for the variation of a second run. `results` must not be empty.
Recommendation recommend(std::span<const ReplayResult> results);

}  // namespace sluice::memory
