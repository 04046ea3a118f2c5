#include "engine/exec/memory_planner.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "memory/alloc/allocator.h"

namespace sluice::engine {
namespace {

std::size_t peak_live_bytes(std::span<const Block> blocks) {
  std::map<int, std::ptrdiff_t> changes;
  for (const Block& block : blocks) {
    changes[block.first] += static_cast<std::ptrdiff_t>(block.bytes);
    changes[block.last + 1] -= static_cast<std::ptrdiff_t>(block.bytes);
  }
  std::ptrdiff_t now = 0, peak = 0;
  for (const auto& [step, change] : changes) peak = std::max(peak, now += change);
  return static_cast<std::size_t>(peak);
}

// Best fit: the smallest hole below the end that holds `bytes`. `taken` is sorted by offset.
struct Span {
  std::size_t from, to;
};
std::size_t hole_for(std::span<const Span> taken, std::size_t bytes) {
  std::size_t end = 0, best = 0, best_size = 0;
  for (const Span& span : taken) {
    if (span.from > end && span.from - end >= bytes &&
        (best_size == 0 || span.from - end < best_size)) {
      best = end;
      best_size = span.from - end;
    }
    end = std::max(end, span.to);
  }
  return best_size > 0 ? best : end;
}

using Order = std::vector<std::size_t>;
constexpr std::size_t kMaxSearched = 8192;  // blocks: the search for holes is quadratic in them

class Placer {
 public:
  Placer(std::span<const Block> blocks, std::size_t alignment)
      : blocks_(blocks), peak_live_(peak_live_bytes(blocks)) {
    for (const Block& block : blocks) bytes_.push_back(memory::round_up(block.bytes, alignment));
  }

  ArenaLayout run() {
    ArenaLayout best;
    Order order;
    // Largest blocks first: small ones then fill the holes between them. If holes remain, placing
    // long-lived blocks first may pack better.
    for (const auto& weight : {&Placer::size, &Placer::area, &Placer::length}) {
      const Order tried = by(weight);
      const ArenaLayout made = in(tried);
      if (!order.empty() && made.bytes >= best.bytes) continue;
      order = tried;
      best = made;
      if (is_tight(best)) return best;
    }
    improve(order, best);
    return best;
  }

 private:
  using Weight = double (Placer::*)(std::size_t) const;
  double size(std::size_t i) const { return static_cast<double>(bytes_[i]); }
  double length(std::size_t i) const { return blocks_[i].last - blocks_[i].first + 1.0; }
  double area(std::size_t i) const { return size(i) * length(i); }

  Order by(Weight weight) const {
    Order order;
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      if (bytes_[i] > 0) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return (this->*weight)(a) > (this->*weight)(b);
    });
    return order;
  }

  bool is_tight(const ArenaLayout& made) const {
    return made.bytes <= peak_live_ + peak_live_ / 50;
  }

  // Local search: moves the block that ends last to the front of the order.
  void improve(Order order, ArenaLayout& best) const {
    constexpr std::size_t kMaxWork = 20'000'000, kMaxRounds = 100;
    const std::size_t rounds = std::min(kMaxRounds, kMaxWork / (1 + order.size() * order.size()));
    ArenaLayout now = best;
    for (std::size_t round = 0; round < rounds && !is_tight(best); ++round) {
      const auto last = std::ranges::max_element(
          order, {}, [&](std::size_t i) { return now.offsets[i] + bytes_[i]; });
      std::rotate(order.begin(), last, last + 1);
      now = in(order);
      if (now.bytes < best.bytes) best = now;
    }
  }

  ArenaLayout in(const Order& order) const {
    ArenaLayout made{std::vector<std::size_t>(blocks_.size()), 0, peak_live_};
    Order placed;  // sorted by offset
    std::vector<Span> taken;
    const std::size_t searched = std::min(order.size(), kMaxSearched);
    for (const std::size_t i : std::span(order).first(searched)) {
      taken.clear();
      for (const std::size_t other : placed)
        if (blocks_[other].first <= blocks_[i].last && blocks_[i].first <= blocks_[other].last)
          taken.push_back({made.offsets[other], made.offsets[other] + bytes_[other]});
      made.offsets[i] = hole_for(taken, bytes_[i]);
      made.bytes = std::max(made.bytes, made.offsets[i] + bytes_[i]);
      placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                     [&](std::size_t a, std::size_t b) {
                                       return made.offsets[a] < made.offsets[b];
                                     }),
                    i);
    }
    append({order.begin() + static_cast<std::ptrdiff_t>(searched), order.end()}, made);
    return made;
  }

  // Places the remaining blocks behind all others in order of their first step: each into the
  // smallest hole that an expired block left.
  void append(Order order, ArenaLayout& made) const {
    std::ranges::sort(order, {}, [&](std::size_t i) { return blocks_[i].first; });
    std::multimap<int, std::size_t> alive;          // by the last step
    std::multimap<std::size_t, std::size_t> holes;  // offset by size
    for (const std::size_t i : order) {
      while (!alive.empty() && alive.begin()->first < blocks_[i].first) {
        const std::size_t gone = alive.extract(alive.begin()).mapped();
        holes.emplace(bytes_[gone], made.offsets[gone]);
      }
      alive.emplace(blocks_[i].last, i);
      const auto hole = holes.lower_bound(bytes_[i]);
      if (hole == holes.end()) {
        made.offsets[i] = made.bytes;
        made.bytes += bytes_[i];
        continue;
      }
      const auto [size, at] = *hole;
      holes.erase(hole);
      made.offsets[i] = at;
      if (size > bytes_[i]) holes.emplace(size - bytes_[i], at + bytes_[i]);
    }
  }

  const std::span<const Block> blocks_;
  const std::size_t peak_live_;
  std::vector<std::size_t> bytes_;  // of each block, rounded up to the alignment
};

}  // namespace

ArenaLayout plan_memory(std::span<const Block> blocks, std::size_t alignment) {
  return Placer(blocks, alignment).run();
}

}  // namespace sluice::engine
