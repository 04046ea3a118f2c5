#include "memory/bench/bench.h"

#include <string>

#include "memory/bench/bench_pairs.h"
#include "memory/pool/pool.h"

namespace sluice::memory {

namespace {

constexpr std::size_t kLive = 4096;

struct Figure {
  device::BenchName what;
  StrategyKind strategy;
};

constexpr Figure kFigures[] = {
    {{"pool_first_fit", "pool, first fit"}, StrategyKind::first_fit},
    {{"pool_best_fit", "pool, best fit"}, StrategyKind::best_fit},
    {{"pool_buddy", "pool, buddy"}, StrategyKind::buddy},
    {{"pool_slab", "pool, slab"}, StrategyKind::slab},
};

}  // namespace

std::vector<device::BenchRow> bench_host(const device::BenchOptions& options,
                                         const device::BenchProgress& progress) {
  const auto pairs = random_pairs(options.quick ? 50'000 : 1'000'000, kLive, 22, fresh_seed());
  std::vector<device::BenchRow> rows;
  for (const auto& figure : kFigures) {
    if (!options.wants(figure.what.name)) continue;
    progress(figure.what.title, rows.size(), std::size(kFigures));
    ImaginaryArena arena(std::size_t{1} << 40);
    Pool pool("bench", arena, {.strategy = figure.strategy, .initial = std::size_t{16} << 30});
    (void)time_pairs(pool, pairs, pairs.requests.size() / 10);  // warm
    rows.push_back(pairs_row(figure.what, time_pairs(pool, pairs, pairs.requests.size())));
  }
  return rows;
}

}  // namespace sluice::memory
