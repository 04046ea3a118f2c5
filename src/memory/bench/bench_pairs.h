// The work that every allocator is measured on, and the clock around it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/bench/bench_stats.h"
#include "memory/alloc/allocator.h"

namespace sluice::memory {

struct Pairs {
  struct Request {
    std::size_t slot, bytes;  // the block there is freed, and one of `bytes` allocated
  };
  std::vector<Request> requests;
  std::size_t live = 0;  // blocks out at any time
};

// Sizes are even over the powers of two from 256 bytes up to 2^`top_bits`, as tensors
// are; `seed` makes a sequence that no run has seen before.
Pairs random_pairs(std::size_t count, std::size_t live, unsigned top_bits, std::uint64_t seed);

// Seconds of each pair after a warm-up of one pass over the live blocks, the clock's own
// cost taken off. At most `at_most` pairs are run.
std::vector<double> time_pairs(Allocator& allocator, const Pairs& pairs, std::size_t at_most);

// p50 as the value, p99 and mean in the detail.
device::BenchRow pairs_row(device::BenchName what, std::vector<double> seconds);

std::uint64_t fresh_seed();

}  // namespace sluice::memory
