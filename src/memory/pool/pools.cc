#include "memory/pool/pools.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace sluice::memory {
namespace {

// Addresses for a ceiling several times over: remapping uses new addresses before old ones.
std::size_t addresses_for(const PoolOptions& options) {
  return options.ceiling >= kMaxArenaBytes / 4
             ? kMaxArenaBytes
             : std::max<std::size_t>(options.ceiling * 4, 1 << 30);
}

TrackerOptions tracker_options(std::string_view pool, const PoolsOptions& options) {
  TrackerOptions made;
  made.window_s = options.growth_window_s;
  made.growth_bytes_per_s = options.growth_bytes_per_s;
  const std::string prefix = std::string(pool) + "/";
  if (options.on_leak)
    made.on_leak = [prefix, report = options.on_leak](Leak leak) {
      leak.owner = prefix + leak.owner;
      report(leak);
    };
  if (options.on_growth)
    made.on_growth = [prefix, report = options.on_growth](Growth growth) {
      growth.owner = prefix + growth.owner;
      report(growth);
    };
  return made;
}

}  // namespace

std::unique_ptr<Arena> make_host_arena(std::string_view, std::size_t addresses) {
  for (;; addresses /= 2) {  // a process may be allowed fewer (ulimit -v)
    try {
      return std::make_unique<HostArena>(addresses);
    } catch (const Error&) {
      if (addresses <= std::size_t{1} << 30) throw;
    }
  }
}

struct Pools::Named {
  Named(std::string_view name, const MemoryConfig& config, const PoolsOptions& options,
        RetryingAllocator::OnExhausted on_exhausted)
      : arena(options.make_arena(name, addresses_for(config.options(name)))),
        pool(std::string(name), *arena, config.options(name)),
        locked(pool),
        retrying(locked, std::move(on_exhausted)),
        counting(retrying),
        tracker(tracker_options(name, options)) {}

  std::unique_ptr<Arena> arena;
  Pool pool;
  LockedAllocator locked;
  RetryingAllocator retrying;
  CountingAllocator counting;
  Tracker tracker;
};

Pools::Pools(const MemoryConfig& config, PoolsOptions options) {
  if (options.budget != static_cast<std::size_t>(-1))
    options.make_arena = [make = std::move(options.make_arena),
                          budget = std::make_shared<Budget>(options.budget)](
                             std::string_view pool, std::size_t addresses) {
      return std::make_unique<BudgetArena>(make(pool, addresses), budget);
    };
  for (const std::string_view name : options.names) {
    const std::size_t index = pools_.size();
    const auto trim_others = [this, index](std::size_t, int attempt) {
      return attempt < 4 && trim_all_but(*pools_[index]) > 0;
    };
    pools_.push_back(std::make_unique<Named>(name, config, options, trim_others));
  }
}

Pools::~Pools() = default;

Pools::Named& Pools::named(std::string_view pool) {
  for (const auto& one : pools_)
    if (one->pool.name() == pool) return *one;
  std::string names;
  for (const auto& one : pools_) names += (names.empty() ? "" : ", ") + one->pool.name();
  throw Error(Code::not_found, "no memory pool " + std::string(pool) + "; there are " + names);
}

std::size_t Pools::trim_all_but(const Named& one) noexcept {
  std::size_t bytes = 0;
  for (const auto& other : pools_)
    if (other.get() != &one) bytes += other->locked.trim();
  return bytes;
}

Allocator& Pools::get(std::string_view pool) { return named(pool).counting; }

std::unique_ptr<TrackedAllocator> Pools::lend(std::string_view pool, std::string_view owner) {
  Named& one = named(pool);
  return std::make_unique<TrackedAllocator>(one.counting, one.tracker, owner);
}

std::vector<Pool::Piece> Pools::map(std::string_view pool) {
  Named& one = named(pool);
  return one.locked.alone([&] { return one.pool.map(); });
}

void Pools::set_mover(std::string_view pool, void* pointer, std::size_t bytes, Pool::Mover mover) {
  Named& one = named(pool);
  one.locked.alone([&] { one.pool.set_mover(pointer, bytes, std::move(mover)); });
}

std::size_t Pools::trim() noexcept {
  std::size_t bytes = 0;
  for (const auto& one : pools_) bytes += one->locked.trim();
  return bytes;
}

Moved Pools::defragment() {
  Moved sum;
  for (const auto& one : pools_) {
    const Moved moved = one->locked.alone([&] { return one->pool.defragment(); });
    sum.blocks += moved.blocks;
    sum.bytes += moved.bytes;
  }
  return sum;
}

void Pools::sample(Instant now) {
  for (const auto& one : pools_) one->tracker.sample(now);
}

std::vector<PoolReport> Pools::report() {
  std::vector<PoolReport> all;
  for (const auto& one : pools_)
    all.push_back({one->locked.alone([&] { return one->pool.statistics(); }),
                   one->counting.counts(), one->tracker.owners()});
  return all;
}

Json to_json(const PoolStatistics& s) {
  return {{"name", s.name},
          {"strategy", to_string(s.strategy)},
          {"used", s.used},
          {"taken", s.taken},
          {"committed", s.committed},
          {"count", s.count},
          {"peak_used", s.peak_used},
          {"peak_taken", s.peak_taken},
          {"peak_committed", s.peak_committed},
          {"allocations", s.allocations},
          {"failures", s.failures},
          {"commits", s.commits},
          {"remapped_bytes", s.remapped_bytes},
          {"largest_free", s.largest_free},
          {"grantable", s.grantable},
          {"stranded", s.stranded},
          {"internal_fragmentation", s.internal_fragmentation},
          {"external_fragmentation", s.external_fragmentation},
          {"efficiency", s.efficiency}};
}

Json to_json(const std::vector<PoolReport>& report) {
  Json pools = Json::array();
  for (const PoolReport& one : report) {
    Json pool = to_json(one.pool);
    pool["total_bytes"] = one.counts.total_bytes;
    pool["refused"] = one.counts.failures;
    Json owners = Json::array();
    for (const OwnerUse& owner : one.owners) owners.push_back(to_json(owner));
    pool["owners"] = std::move(owners);
    pools.push_back(std::move(pool));
  }
  return {{"pools", std::move(pools)}};
}

}  // namespace sluice::memory
