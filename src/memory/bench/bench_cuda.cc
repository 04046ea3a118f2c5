// On a GPU: the pool over mapped memory beside cudaMalloc and cudaMallocAsync.
#include <fmt/core.h>

#include <optional>

#include "device/cuda/stream.h"
#include "memory/bench/bench.h"
#include "memory/bench/bench_pairs.h"
#include "memory/cuda/cuda.h"
#include "memory/pool/pool.h"

namespace sluice::memory {

namespace {

constexpr std::size_t kLive = 256;
constexpr unsigned kTopBits = 26;  // to 128 MiB: activations of a batch
constexpr std::size_t kArena = std::size_t{64} << 30;

void add_ratio(device::BenchRow& row, const std::optional<double>& peer, const char* name) {
  if (row.value && peer) row.detail += fmt::format("; {:.1f}x {}", *peer / *row.value, name);
}

}  // namespace

std::vector<device::BenchRow> bench_gpu(int device, const device::BenchOptions& options,
                                        const device::BenchProgress& progress) {
  const device::Stream stream({device});
  const auto pairs = random_pairs(options.quick ? 5'000 : 200'000, kLive, kTopBits, fresh_seed());
  std::vector<device::BenchRow> rows;
  const auto measure = [&](device::BenchName what, Allocator& from, std::size_t at_most) {
    progress(what.title, rows.size(), 6);
    (void)time_pairs(from, pairs, at_most / 10);  // warm: caches filled, memory mapped
    rows.push_back(pairs_row(what, time_pairs(from, pairs, at_most)));
    return rows.back().value;
  };
  const auto slow = options.quick ? std::size_t{500} : std::size_t{5'000};
  const auto all = pairs.requests.size();
  const auto plain =
      measure({"cuda_malloc", "cudaMalloc + cudaFree"}, *make_cuda_allocator(device), slow);
  const auto async = measure({"cuda_malloc_async", "cudaMallocAsync + cudaFreeAsync"},
                             *make_cuda_async_allocator(device, stream.get()), all);
  for (const auto kind : kStrategyKinds) {
    const auto arena = make_cuda_arena(device, kArena);
    Pool pool("bench", *arena, {.strategy = kind, .initial = std::size_t{8} << 30});
    const std::string name = "gpu_pool_" + std::string(to_string(kind));
    const std::string title = "pool over mapped memory, " + std::string(to_string(kind));
    measure({name, title}, pool, all);
    add_ratio(rows.back(), plain, "faster than cudaMalloc");
    add_ratio(rows.back(), async, "faster than cudaMallocAsync");
  }
  return rows;
}

}  // namespace sluice::memory
