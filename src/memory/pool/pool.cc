#include "memory/pool/pool.h"

#include <algorithm>
#include <cassert>
#include <unordered_map>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "memory/pool/backing.h"

namespace sluice::memory {

struct Pool::Impl {
  struct Movable {
    std::size_t bytes;
    Mover mover;
  };

  Impl(std::string pool_name, Arena& from, const PoolOptions& with)
      : name(std::move(pool_name)),
        arena(from),
        options(with),
        base(from.base()),
        strategy(make_strategy(with.strategy)),
        backing(from, *strategy, {with.growth, with.ceiling}) {}

  Offset offset_of(const void* pointer) const {
    return static_cast<Offset>(static_cast<const std::byte*>(pointer) - base);
  }
  std::uint64_t frees() const { return allocations - strategy->count() + moves; }
  [[noreturn]] void refuse(std::size_t bytes);
  bool move(void* from);

  const std::string name;
  Arena& arena;
  const PoolOptions options;
  std::byte* const base;
  const std::unique_ptr<Strategy> strategy;
  Backing backing;
  std::size_t used = 0, peak_used = 0;
  std::uint64_t allocations = 0, failures = 0, moves = 0;
  std::unordered_map<void*, Movable> movable;
};

Pool::Pool(std::string name, Arena& arena, PoolOptions options)
    : impl_(std::make_unique<Impl>(std::move(name), arena, options)) {
  require(options.initial <= options.ceiling,
          "pool " + impl_->name + ": initial is above the ceiling");
  impl_->backing.grow(std::min(round_up(options.initial, arena.granule()),
                               options.ceiling / arena.granule() * arena.granule()));
}

Pool::~Pool() {
  const StrategyUse use = impl_->strategy->use();
  if (use.count > 0)
    log::error("pool {} ends with {} in {} blocks still out", impl_->name, human_bytes(impl_->used),
               use.count);
  impl_->backing.release();
}

void* Pool::allocate(std::size_t bytes) {
  Impl& pool = *impl_;
  auto offset = pool.strategy->allocate(bytes);
  if (!offset) {
    offset = pool.backing.allocate(bytes, pool.frees());
    if (!offset) pool.refuse(bytes);
  }
  pool.used += bytes;
  if (pool.used > pool.peak_used) pool.peak_used = pool.used;
  ++pool.allocations;
  return pool.base + *offset;
}

void Pool::Impl::refuse(std::size_t bytes) {
  ++failures;
  throw Error(Code::exhausted, "pool " + name + " has no space for " + human_bytes(bytes) + ": " +
                                   human_bytes(used) + " in use, " +
                                   human_bytes(backing.stats().committed) + " committed");
}

void Pool::deallocate(void* pointer, std::size_t bytes) noexcept {
  Impl& pool = *impl_;
  const std::size_t took = pool.strategy->free(pool.offset_of(pointer));
  assert(took >= bytes);
  if (took == 0) {
    log::error("pool {}: a block was freed that is not out", pool.name);
    return;
  }
  pool.used -= bytes;
  if (!pool.movable.empty()) pool.movable.erase(pointer);
}

std::size_t Pool::trim() noexcept { return impl_->backing.trim(); }

const std::string& Pool::name() const noexcept { return impl_->name; }

void Pool::set_mover(void* pointer, std::size_t bytes, Mover mover) {
  require(impl_->strategy->size_of(impl_->offset_of(pointer)) > 0,
          "pool " + impl_->name + ": a mover for a block that is not out");
  impl_->movable[pointer] = {bytes, std::move(mover)};
}

bool Pool::Impl::move(void* from) {
  Movable& block = movable.at(from);
  const auto offset = strategy->allocate_low(block.bytes);
  if (!offset) return false;
  void* const to = base + *offset;
  if (to > from) {
    strategy->free(*offset);
    return false;
  }
  try {
    block.mover(from, to, block.bytes);
  } catch (...) {
    strategy->free(*offset);
    throw;
  }
  strategy->free(offset_of(from));
  ++moves;
  auto entry = movable.extract(from);
  entry.key() = to;
  movable.insert(std::move(entry));
  return true;
}

Moved Pool::defragment() {
  std::vector<void*> highest_first;
  for (const auto& [pointer, _] : impl_->movable) highest_first.push_back(pointer);
  std::sort(highest_first.begin(), highest_first.end(), std::greater<>());
  Moved moved;
  for (void* const pointer : highest_first) {
    const std::size_t bytes = impl_->movable.at(pointer).bytes;
    if (!impl_->move(pointer)) continue;
    ++moved.blocks;
    moved.bytes += bytes;
  }
  return moved;
}

PoolStatistics Pool::statistics() const {
  const Impl& pool = *impl_;
  const StrategyUse use = pool.strategy->use();
  const auto& backing = pool.backing.stats();
  PoolStatistics s;
  s.name = pool.name;
  s.strategy = pool.options.strategy;
  s.used = pool.used;
  s.taken = use.taken;
  s.committed = backing.committed;
  s.ceiling = pool.options.ceiling;
  s.count = use.count;
  s.peak_used = pool.peak_used;
  s.peak_taken = use.peak_taken;
  s.peak_committed = backing.peak_committed;
  s.allocations = pool.allocations;
  s.failures = pool.failures;
  s.commits = backing.commits;
  s.remapped_bytes = backing.remapped_bytes;
  s.largest_free = use.largest_free;
  s.grantable = pool.backing.grantable();
  s.stranded = use.free - pool.backing.whole_granules();
  const auto share = [](std::size_t part, std::size_t of) {
    return of == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(of);
  };
  s.internal_fragmentation = share(use.taken - pool.used, use.taken);
  s.external_fragmentation = share(use.free - use.largest_free, use.free);
  s.efficiency = s.peak_committed == 0 ? 1 : share(s.peak_used, s.peak_committed);
  return s;
}

std::vector<Pool::Piece> Pool::map() const {
  std::vector<Piece> all;
  const auto add = [&](RangeState what) {
    return [&all, what](Offset offset, std::size_t n) { all.push_back({offset, n, what}); };
  };
  impl_->strategy->visit_free(add(RangeState::free));
  impl_->strategy->visit_taken(add(RangeState::taken));
  for (const Span& span : impl_->backing.withdrawn())
    all.push_back({span.offset, span.bytes, RangeState::uncommitted});
  std::sort(all.begin(), all.end(),
            [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
  std::vector<Piece> pieces;
  for (const Piece& piece : all) {
    if (!pieces.empty() && pieces.back().what == piece.what)
      pieces.back().bytes += piece.bytes;
    else
      pieces.push_back(piece);
  }
  return pieces;
}

}  // namespace sluice::memory
