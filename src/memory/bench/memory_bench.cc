// Pool latency as its caller sees it: one block freed and one allocated, thousands of mixed
// sizes being out. The goal is under 100 ns at the median and 500 ns at the 99th
// percentile for the pair, on one thread. Each pair is timed by itself; p50 and p99 have
// the cost of reading the clock taken off, ns_per_pair is the plain mean.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <bit>
#include <random>
#include <vector>

#include "memory/alloc/adaptors.h"
#include "memory/alloc/ticks.h"
#include "memory/pool/pool.h"

namespace sluice::memory {
namespace {

constexpr std::size_t kPairs = 1 << 16;

struct Request {
  std::size_t slot, bytes;
};

// Sizes are even over the powers of two from 256 bytes to 4 MiB, as tensors are.
std::vector<Request> requests(std::size_t live) {
  std::mt19937_64 random(1);
  std::vector<Request> made(kPairs);
  for (auto& request : made) {
    const auto bits = 8 + random() % 14;
    request = {random() % live, (std::size_t{1} << bits) + random() % (std::size_t{1} << bits)};
  }
  return made;
}

struct Block {
  void* pointer;
  std::size_t bytes;
};

void report(benchmark::State& state, std::vector<std::uint64_t>& times) {
  const std::uint64_t cost = ticks_cost();
  const auto at = [&](double share) {
    const auto nth =
        times.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(times.size() - 1));
    std::nth_element(times.begin(), nth, times.end());
    return static_cast<double>(*nth - std::min(*nth, cost)) * seconds_per_tick() * 1e9;
  };
  state.counters["p50_ns"] = at(0.5);
  state.counters["p99_ns"] = at(0.99);
  state.counters["p999_ns"] = at(0.999);
}

void run_pairs(benchmark::State& state, Allocator& allocator, std::size_t live) {
  const auto pairs = requests(live);
  std::vector<Block> blocks(live);
  for (std::size_t i = 0; i < live; ++i)
    blocks[i] = {allocator.allocate(pairs[i].bytes), pairs[i].bytes};
  std::vector<std::uint64_t> times;
  times.reserve(1 << 22);
  std::size_t next = 0;
  for (auto _ : state) {
    const Request request = pairs[next++ % kPairs];
    const Block old = blocks[request.slot];
    const std::uint64_t begin = ticks();
    allocator.deallocate(old.pointer, old.bytes);
    void* const fresh = allocator.allocate(request.bytes);
    const std::uint64_t took = ticks() - begin;
    blocks[request.slot] = {fresh, request.bytes};
    if (times.size() < times.capacity()) times.push_back(took);
  }
  for (const Block& block : blocks) allocator.deallocate(block.pointer, block.bytes);
  report(state, times);
}

void BM_FreeAndAllocate(benchmark::State& state) {
  const auto kind = kStrategyKinds[state.range(0)];
  ImaginaryArena arena(std::size_t{1} << 40);
  Pool pool("bench", arena, {.strategy = kind, .initial = std::size_t{16} << 30});
  run_pairs(state, pool, static_cast<std::size_t>(state.range(1)));
  state.SetLabel(std::string(to_string(kind)));
}
BENCHMARK(BM_FreeAndAllocate)
    ->ArgNames({"strategy", "live"})
    ->ArgsProduct({{0, 1, 2, 3}, {1000, 4000, 16000}});

// The stack that a named pool is: locked and counted.
void BM_FreeAndAllocateShared(benchmark::State& state) {
  ImaginaryArena arena(std::size_t{1} << 40);
  Pool pool("bench", arena, {.initial = std::size_t{16} << 30});
  LockedAllocator locked(pool);
  CountingAllocator counting(locked);
  run_pairs(state, counting, static_cast<std::size_t>(state.range(0)));
}
BENCHMARK(BM_FreeAndAllocateShared)->ArgName("live")->Arg(4000);

// malloc on the same requests, as a yardstick; it also keeps its books in the blocks.
class Malloc final : public Allocator {
 public:
  void* allocate(std::size_t bytes) override { return std::malloc(bytes); }
  void deallocate(void* pointer, std::size_t) noexcept override { std::free(pointer); }
};
void BM_Malloc(benchmark::State& state) {
  Malloc allocator;
  run_pairs(state, allocator, static_cast<std::size_t>(state.range(0)));
}
BENCHMARK(BM_Malloc)->ArgName("live")->Arg(4000);

}  // namespace
}  // namespace sluice::memory
