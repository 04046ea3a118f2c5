// A strategy beside the simplest thing that can say whether it is right: an ordered map
// of what is out. Every operation goes to both; a difference ends up in `wrong`.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "memory/alloc/allocator.h"
#include "memory/strategy/strategy.h"

namespace sluice::memory {

class Oracle {
 public:
  explicit Oracle(StrategyKind kind, std::size_t granule = 64 << 10)
      : strategy_(make_strategy(kind)), kind_(kind), granule_(granule) {}

  Strategy& strategy() { return *strategy_; }
  const std::string& wrong() const { return wrong_; }  // the first difference, or ""
  const std::map<Offset, std::size_t>& taken() const { return taken_; }
  const std::map<Offset, std::size_t>& withdrawn() const { return withdrawn_; }

  std::optional<Offset> allocate(std::size_t bytes, bool low = false) {
    const std::size_t missing = strategy_->missing(bytes);
    const auto offset = low ? strategy_->allocate_low(bytes) : strategy_->allocate(bytes);
    demand(offset.has_value() == (missing == 0), "missing() does not agree with allocate()");
    if (!offset) return offset;
    const std::size_t size = strategy_->size_of(*offset);
    demand(*offset % kAlignment == 0, "a block is not aligned");
    demand(size >= bytes && size > 0, "a block is too small");
    demand(*offset + size <= capacity_, "a block ends behind the arena");
    demand(clear(taken_, *offset, size), "a block overlaps another");
    demand(clear(withdrawn_, *offset, size), "a block lies where nothing may");
    if (kind_ == StrategyKind::first_fit)
      for (const auto& [at, n] : holes_before(*offset))
        demand(n < size, "first fit passed over a lower hole");
    taken_[*offset] = size;
    bytes_ += size;
    return offset;
  }

  void free(Offset offset) {
    const auto block = taken_.find(offset);
    demand(strategy_->free(offset) == block->second, "a block was freed at another size");
    bytes_ -= block->second;
    taken_.erase(block);
    demand(strategy_->size_of(offset) == 0, "a freed block is still out");
  }

  void extend(std::size_t bytes) {
    strategy_->extend(bytes);
    capacity_ += bytes;
  }

  // Adding what is missing is enough, and adding less is not.
  void extend_for(std::size_t bytes) {
    const std::size_t missing = strategy_->missing(bytes);
    if (missing == 0) return;
    if (missing > kAlignment) {
      extend(missing - kAlignment);
      demand(strategy_->missing(bytes) == kAlignment, "missing() was too much");
      extend(kAlignment);
    } else {
      extend(missing);
    }
    demand(strategy_->missing(bytes) == 0, "missing() was too little");
  }

  void withdraw(std::size_t max_granules) {
    Offset last = kNever;
    strategy_->withdraw(granule_, [&](Offset at) {
      demand(at < last, "granules are not offered from the highest down");
      demand(at % granule_ == 0 && at + granule_ <= capacity_, "an odd granule is offered");
      demand(clear(taken_, at, granule_) && clear(withdrawn_, at, granule_),
             "a granule is offered that is in use");
      last = at;
      if (max_granules == 0) return Strategy::Reply::leave;
      --max_granules;
      withdrawn_[at] = granule_;
      return Strategy::Reply::take;
    });
  }
  void restore(Offset granule) {
    strategy_->restore(granule);
    withdrawn_.erase(granule);
  }

  // Everything, slowly.
  void check() {
    const StrategyUse use = strategy_->use();
    demand(use.capacity == capacity_, "capacity");
    demand(use.taken == bytes_ && use.count == taken_.size(), "sums of what is taken");
    demand(use.withdrawn == withdrawn_.size() * granule_, "sum of what is withdrawn");
    demand(use.free == capacity_ - bytes_ - use.withdrawn, "sum of what is free");
    check_taken();
    check_free();
    check_largest(use.largest_free);
  }

 private:
  void demand(bool ok, const char* what) {
    if (!ok && wrong_.empty()) wrong_ = std::string(to_string(kind_)) + ": " + what;
  }

  static bool clear(const std::map<Offset, std::size_t>& spans, Offset at, std::size_t bytes) {
    const auto after = spans.lower_bound(at + bytes);
    if (after == spans.begin()) return true;
    const auto last = std::prev(after);
    return last->first + last->second <= at;
  }

  // The holes below `end`: what is neither taken nor withdrawn. Slow, so only in small
  // arenas.
  std::map<Offset, std::size_t> holes_before(Offset end) const {
    return taken_.size() + withdrawn_.size() > 64 ? std::map<Offset, std::size_t>{} : gaps(end);
  }

  std::map<Offset, std::size_t> gaps(Offset end) const {
    std::map<Offset, std::size_t> used = taken_, found;
    used.insert(withdrawn_.begin(), withdrawn_.end());
    used[end] = 0;
    Offset at = 0;
    for (const auto& [offset, bytes] : used) {
      if (offset > end) break;
      if (offset > at) found[at] = offset - at;
      at = offset + bytes;
    }
    return found;
  }

  void check_taken() {
    std::map<Offset, std::size_t> seen;
    strategy_->visit_taken([&](Offset offset, std::size_t bytes) { seen[offset] = bytes; });
    demand(seen == taken_, "visit_taken");
  }

  // Merged neighbours and nothing left out: exactly the gaps between what is taken.
  void check_free() {
    std::map<Offset, std::size_t> seen;
    Offset last = 0;
    strategy_->visit_free([&](Offset offset, std::size_t bytes) {
      demand(offset >= last, "visit_free is not in order");
      last = offset;
      seen[offset] = bytes;
    });
    demand(seen == gaps(capacity_), "visit_free is not what is left");
  }

  void check_largest(std::size_t largest) {
    demand(!strategy_->allocate(largest + kAlignment), "a block above largest_free was given");
    if (largest == 0) return;
    const auto offset = strategy_->allocate(largest);
    demand(offset.has_value(), "largest_free was refused");
    if (offset) strategy_->free(*offset);
  }

  std::unique_ptr<Strategy> strategy_;
  const StrategyKind kind_;
  const std::size_t granule_;
  std::size_t capacity_ = 0, bytes_ = 0;
  std::map<Offset, std::size_t> taken_, withdrawn_;
  std::string wrong_;
};

}  // namespace sluice::memory
