// Summarizes a trace for `sluice memory report`. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "memory/trace/trace.h"

namespace sluice::memory {

struct TraceSummary {
  struct Bucket {
    std::uint64_t up_to = 0;  // bytes or microseconds, inclusive; sorted
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;  // in these blocks, all allocations together
  };
  struct Moment {
    std::uint64_t time_us = 0;
    std::uint64_t live_bytes = 0;  // maximum within the interval that begins here
  };
  // Blocks of one size.
  struct Size {
    std::uint64_t bytes = 0;
    std::uint64_t count = 0;
  };

  std::uint64_t duration_us = 0, peak_time_us = 0, peak_blocks = 0;
  std::vector<Bucket> sizes;      // by powers of four; ends at the largest block
  std::vector<Bucket> lifetimes;  // of freed blocks, by powers of ten
  std::uint64_t median_lifetime_us = 0;
  std::vector<Size> largest;        // the largest sizes, at most 8
  std::vector<Size> most_frequent;  // at most 8
  std::vector<Moment> over_time;    // `moments` intervals of equal length
  std::vector<Size> live_at_end;    // by bytes in all, at most 8 sizes
};

TraceSummary summarize(const Trace& trace, std::size_t moments = 64);

}  // namespace sluice::memory
