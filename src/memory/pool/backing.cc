#include "memory/pool/backing.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/log.h"

namespace sluice::memory {
namespace {

// Neighbouring granules as one; `granules` is in ascending order.
std::vector<Span> runs(const std::vector<Offset>& granules, std::size_t granule) {
  std::vector<Span> found;
  for (const Offset at : granules) {
    if (!found.empty() && found.back().offset + found.back().bytes == at)
      found.back().bytes += granule;
    else
      found.push_back({at, granule});
  }
  return found;
}

}  // namespace

Backing::Backing(Arena& arena, Strategy& strategy, BackingOptions options)
    : arena_(arena),
      strategy_(strategy),
      options_(options),
      granule_(arena.granule()),
      addresses_(std::min(arena.addresses(), kMaxArenaBytes)) {}

void Backing::grow(std::size_t bytes) {
  bytes = round_up(bytes, granule_);
  if (bytes == 0) return;
  const Offset capacity = granules_.size() * granule_;
  if (bytes > addresses_ - capacity) throw Error(Code::exhausted, "no addresses left in the arena");
  arena_.commit(capacity, bytes);
  ++stats_.commits;
  extend(bytes, Granule::committed);
  stats_.committed += bytes;
  stats_.peak_committed = std::max(stats_.peak_committed, stats_.committed);
}

void Backing::extend(std::size_t bytes, Granule as) {
  strategy_.extend(bytes);
  barren_.bytes = kNever;
  granules_.insert(granules_.end(), bytes / granule_, as);
  if (as == Granule::withdrawn) without_ += bytes / granule_;
}

std::optional<Offset> Backing::allocate(std::size_t bytes, std::uint64_t frees) {
  if (bytes > kMaxBlockBytes) return std::nullopt;
  if (barren_.frees != frees) barren_ = {frees, kNever};
  const std::size_t need = strategy_.need(bytes).bytes;
  // Those under the block, and as many elsewhere.
  Lie now{{}, spare_granules(), 2 * (need / granule_ + 2)};
  if (need < barren_.bytes) {
    now.open = open();
    const auto large = [&](const Span& span) { return span.bytes >= need; };
    if (std::ranges::none_of(now.open, large)) barren_.bytes = need;
  }
  const auto place = find_place(now, bytes);
  if (!place) return std::nullopt;
  if (grow_roomy(*place))
    if (const auto offset = strategy_.allocate(bytes)) return offset;
  return grow_tight(*place, bytes);
}

std::size_t Backing::spare_granules() const {
  const std::size_t below = options_.ceiling - std::min(options_.ceiling, stats_.committed);
  return std::min(below, arena_.available()) / granule_;
}

// Nothing where all holes have memory: then the strategy has searched them.
std::vector<Span> Backing::open() const {
  std::vector<Span> found;
  if (without_ == 0) return found;
  std::vector<Span> parts = withdrawn();
  strategy_.visit_holes([&](Offset offset, std::size_t n) { parts.push_back({offset, n}); });
  visit_merged(std::move(parts), [&](Offset offset, std::size_t n) {
    found.push_back({offset, n});
  });
  return found;
}

// The place that needs the least memory; addresses that are in use before new ones.
std::optional<Backing::Place> Backing::find_place(const Lie& lie, std::size_t bytes) const {
  const Need need = strategy_.need(bytes);
  const auto inside = place_inside(lie, need);
  const auto at_end = place_at_end(lie, bytes, need);
  if (inside && at_end) return at_end->lacking < inside->lacking ? at_end : inside;
  return inside ? inside : at_end;
}

std::optional<Backing::Place> Backing::place_inside(const Lie& lie, const Need& need) const {
  std::optional<Place> best;
  for (const Span& span : lie.open) {
    const Offset begin = round_up(span.offset, need.alignment), end = span.offset + span.bytes;
    if (begin >= end || end - begin < need.bytes) continue;
    const std::size_t lacking = granules_without(begin, begin + need.bytes).size();
    const Place place{begin, need.bytes, end - begin, lacking, 0};
    if (lacking == 0 || (best && best->lacking <= lacking) || !enough(lie, place)) continue;
    best = place;
  }
  return best;
}

std::optional<Backing::Place> Backing::place_at_end(const Lie& lie, std::size_t bytes,
                                                    const Need& need) const {
  const Offset capacity = granules_.size() * granule_;
  const std::size_t missing = strategy_.missing(bytes);
  if (missing > addresses_ - capacity) return std::nullopt;
  const Offset begin = capacity + missing - need.bytes;
  const std::size_t extension = round_up(missing, granule_);
  const std::size_t unneeded = begin > capacity ? (begin - capacity) / granule_ : 0;
  const Place place{begin, need.bytes, need.bytes, extension / granule_ - unneeded, extension};
  if (!enough(lie, place)) return std::nullopt;
  return place;
}

bool Backing::enough(const Lie& lie, const Place& place) const {
  if (place.lacking <= lie.spare) return true;
  const auto& holes = granules_in_holes(lie);
  const auto inside = std::lower_bound(holes.begin(), holes.end(), place.begin + place.bytes) -
                      std::lower_bound(holes.begin(), holes.end(), place.begin);
  return place.lacking - lie.spare <= holes.size() - static_cast<std::size_t>(inside);
}

// The highest granules that lie wholly in holes, ascending; found when they are first needed.
const std::vector<Offset>& Backing::granules_in_holes(const Lie& lie) const {
  if (lie.in_holes) return *lie.in_holes;
  auto& found = lie.in_holes.emplace();
  strategy_.withdraw(granule_, [&](Offset at) {
    if (found.size() == lie.max_in_holes) return Strategy::Reply::stop;
    found.push_back(at);
    return Strategy::Reply::leave;
  });
  std::reverse(found.begin(), found.end());
  return found;
}

std::vector<Offset> Backing::granules_without(Offset begin, Offset end) const {
  std::vector<Offset> found;
  const std::size_t last = std::min((end + granule_ - 1) / granule_, granules_.size());
  for (std::size_t i = begin / granule_; i < last; ++i)
    if (granules_[i] == Granule::withdrawn) found.push_back(i * granule_);
  return found;
}

// Commits more than the block needs, so that the next ones find memory. False, with
// nothing changed, when there is not that much.
bool Backing::grow_roomy(const Place& place) {
  const std::size_t spare = spare_granules();
  if (place.extension > 0) {
    const Offset capacity = granules_.size() * granule_;
    const std::size_t bytes =
        std::min({std::max(place.extension, round_up(options_.growth, granule_)), spare * granule_,
                  addresses_ - capacity});
    if (bytes < place.extension) return false;
    try {
      grow(bytes);
    } catch (const Error&) {
      return false;
    }
    return true;
  }
  const auto granules = granules_without(
      place.begin, place.begin + std::min(place.room, std::max(place.bytes, options_.growth)));
  if (granules.size() > spare || !commit(granules)) return false;
  for (const Offset at : granules) strategy_.restore(at);
  return true;
}

// Gives the block its addresses first, then memory to exactly the granules it lies on.
std::optional<Offset> Backing::grow_tight(const Place& place, std::size_t bytes) {
  const Barren before = barren_;
  const bool fills = place.begin <= granules_.size() * granule_;  // all that is added
  std::vector<Offset> bare = granules_without(place.begin, place.begin + place.bytes);
  for (const Offset at : bare) strategy_.restore(at);
  for (std::size_t n = 0; n < place.extension; n += granule_)
    bare.push_back(granules_.size() * granule_ + n);
  if (place.extension > 0) extend(place.extension, Granule::withdrawn);

  const auto offset = strategy_.allocate(bytes);
  const auto withdraw_bare = [&] {  // those that no block lies on
    std::vector<Offset> taken;
    strategy_.withdraw(granule_, [&](Offset at) {
      if (taken.size() == bare.size()) return Strategy::Reply::stop;
      if (granules_[at / granule_] != Granule::withdrawn) return Strategy::Reply::leave;
      taken.push_back(at);
      return Strategy::Reply::take;
    });
    std::erase_if(bare, [&](Offset at) {
      return std::binary_search(taken.begin(), taken.end(), at, std::greater<>());
    });
  };
  const auto under_block = [&](Offset at) {
    return at < *offset + strategy_.size_of(*offset) && at + granule_ > *offset;
  };
  if (!offset || !std::ranges::all_of(bare, under_block)) withdraw_bare();
  if (offset && commit_somehow(bare)) {
    if (fills) barren_ = before;
    return offset;
  }
  if (offset) strategy_.free(*offset);
  withdraw_bare();
  return std::nullopt;
}

bool Backing::commit_somehow(const std::vector<Offset>& granules) {
  const std::size_t spare = spare_granules();
  const std::size_t short_by = granules.size() - std::min(spare, granules.size());
  if (take_from_holes(short_by).size() < short_by) return false;
  if (commit(granules)) {
    stats_.remapped_bytes += short_by * granule_;
    return true;
  }
  // The arena has less than it let us hope; what lies in holes is certain.
  const std::size_t more = granules.size() - short_by;
  if (more == 0 || take_from_holes(more).empty() || !commit(granules)) return false;
  stats_.remapped_bytes += granules.size() * granule_;
  return true;
}

bool Backing::commit(const std::vector<Offset>& granules) {
  std::vector<Span> done;
  for (const Span& run : runs(granules, granule_)) {
    try {
      arena_.commit(run.offset, run.bytes);
    } catch (const Error& e) {
      if (e.code() != Code::exhausted) log::error("memory pool: {}", e.what());
      for (const Span& undo : done) arena_.decommit(undo.offset, undo.bytes);
      return false;
    }
    done.push_back(run);
    ++stats_.commits;
  }
  for (const Offset at : granules) granules_[at / granule_] = Granule::committed;
  without_ -= granules.size();
  stats_.committed += granules.size() * granule_;
  stats_.peak_committed = std::max(stats_.peak_committed, stats_.committed);
  return true;
}

std::vector<Offset> Backing::take_from_holes(std::size_t granules) {
  std::vector<Offset> taken;
  if (granules == 0) return taken;
  strategy_.withdraw(granule_, [&](Offset at) {
    if (taken.size() == granules) return Strategy::Reply::stop;
    taken.push_back(at);
    granules_[at / granule_] = Granule::withdrawn;
    return Strategy::Reply::take;
  });
  std::reverse(taken.begin(), taken.end());
  for (const Span& run : runs(taken, granule_)) arena_.decommit(run.offset, run.bytes);
  without_ += taken.size();
  stats_.committed -= taken.size() * granule_;
  return taken;
}

std::size_t Backing::trim() noexcept { return take_from_holes(kNever).size() * granule_; }

void Backing::release() noexcept {
  std::vector<Offset> committed;
  for (std::size_t i = 0; i < granules_.size(); ++i)
    if (granules_[i] == Granule::committed) committed.push_back(i * granule_);
  for (const Span& run : runs(committed, granule_)) arena_.decommit(run.offset, run.bytes);
}

std::size_t Backing::grantable() const {
  const Lie now{open(), spare_granules(), kNever};
  const auto fits = [&](std::size_t units) {
    const std::size_t bytes = units * kAlignment;
    return strategy_.missing(bytes) == 0 || find_place(now, bytes).has_value();
  };
  std::size_t fitting = strategy_.use().largest_free / kAlignment;
  std::size_t too_large = addresses_ / kAlignment + 1;
  while (too_large - fitting > 1) {
    const std::size_t middle = fitting + (too_large - fitting) / 2;
    (fits(middle) ? fitting : too_large) = middle;
  }
  return fitting * kAlignment;
}

std::size_t Backing::whole_granules() const {
  std::size_t count = 0;
  strategy_.withdraw(granule_, [&](Offset) {
    ++count;
    return Strategy::Reply::leave;
  });
  return count * granule_;
}

std::vector<Span> Backing::withdrawn() const {
  return runs(granules_without(0, granules_.size() * granule_), granule_);
}

}  // namespace sluice::memory
