#include "memory/bench/bench_pairs.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "memory/alloc/ticks.h"

namespace sluice::memory {

Pairs random_pairs(std::size_t count, std::size_t live, unsigned top_bits, std::uint64_t seed) {
  constexpr unsigned kMinBits = 8;
  std::mt19937_64 random(seed);
  Pairs made{std::vector<Pairs::Request>(count), live};
  for (auto& request : made.requests) {
    const auto bits = kMinBits + random() % (top_bits - kMinBits);
    const auto min_bytes = std::size_t{1} << bits;
    request = {random() % live, min_bytes + random() % min_bytes};
  }
  return made;
}

std::vector<double> time_pairs(Allocator& allocator, const Pairs& pairs, std::size_t at_most) {
  std::vector<Buffer> blocks(pairs.live);
  for (std::size_t i = 0; i < pairs.live; ++i)
    blocks[i] = Buffer(allocator, pairs.requests[i].bytes);
  const auto count = std::min(at_most, pairs.requests.size());
  std::vector<std::uint64_t> times(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& request = pairs.requests[i];
    auto& block = blocks[request.slot];
    const auto begin = ticks();
    block.reset();
    block = Buffer(allocator, request.bytes);
    times[i] = ticks() - begin;
  }
  const auto cost = ticks_cost();
  std::vector<double> seconds(count);
  for (std::size_t i = 0; i < count; ++i)
    seconds[i] = static_cast<double>(times[i] - std::min(times[i], cost)) * seconds_per_tick();
  return seconds;
}

device::BenchRow pairs_row(device::BenchName what, std::vector<double> seconds) {
  const double p99 = device::quantile(seconds, 0.99);
  const double mean =
      std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
  auto row = device::timed_row(what, "s", std::nullopt, std::move(seconds));
  row.detail = fmt::format("p99 {:.0f} ns, mean {:.0f} ns", p99 * 1e9, mean * 1e9);
  return row;
}

std::uint64_t fresh_seed() { return std::random_device{}(); }

}  // namespace sluice::memory
