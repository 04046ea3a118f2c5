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
  failed_search_.bytes = kNever;
  granules_.insert(granules_.end(), bytes / granule_, as);
  if (as == Granule::withdrawn) without_ += bytes / granule_;
}

std::optional<Offset> Backing::allocate(std::size_t bytes, std::uint64_t frees) {
  if (bytes > kMaxBlockBytes) return std::nullopt;
  if (failed_search_.frees != frees) failed_search_ = {frees, kNever};
  const std::size_t need = strategy_.need(bytes).bytes;
  // At most the granules under the block and as many elsewhere are needed.
  FreeMap now{{}, spare_granules(), 2 * (need / granule_ + 2)};
  if (need < failed_search_.bytes) {
    now.open = open();
    const auto large = [&](const Span& span) { return span.bytes >= need; };
    if (std::ranges::none_of(now.open, large)) failed_search_.bytes = need;
  }
  const auto candidate = find_candidate(now, bytes);
  if (!candidate) return std::nullopt;
  if (grow_with_slack(*candidate))
    if (const auto offset = strategy_.allocate(bytes)) return offset;
  return grow_exact(*candidate, bytes);
}

std::size_t Backing::spare_granules() const {
  const std::size_t below = options_.ceiling - std::min(options_.ceiling, stats_.committed);
  return std::min(below, arena_.available()) / granule_;
}

// Returns nothing where all holes have memory: then the strategy has searched them.
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
std::optional<Backing::Candidate> Backing::find_candidate(const FreeMap& map,
                                                          std::size_t bytes) const {
  const Need need = strategy_.need(bytes);
  const auto inside = candidate_inside(map, need);
  const auto at_end = candidate_at_end(map, bytes, need);
  if (inside && at_end) return at_end->lacking < inside->lacking ? at_end : inside;
  return inside ? inside : at_end;
}

std::optional<Backing::Candidate> Backing::candidate_inside(const FreeMap& map,
                                                            const Need& need) const {
  std::optional<Candidate> best;
  for (const Span& span : map.open) {
    const Offset begin = round_up(span.offset, need.alignment), end = span.offset + span.bytes;
    if (begin >= end || end - begin < need.bytes) continue;
    const std::size_t lacking = granules_without(begin, begin + need.bytes).size();
    const Candidate candidate{begin, need.bytes, end - begin, lacking, 0};
    if (lacking == 0 || (best && best->lacking <= lacking) || !enough(map, candidate)) continue;
    best = candidate;
  }
  return best;
}

std::optional<Backing::Candidate> Backing::candidate_at_end(const FreeMap& map, std::size_t bytes,
                                                            const Need& need) const {
  const Offset capacity = granules_.size() * granule_;
  const std::size_t missing = strategy_.missing(bytes);
  if (missing > addresses_ - capacity) return std::nullopt;
  const Offset begin = capacity + missing - need.bytes;
  const std::size_t extension = round_up(missing, granule_);
  const std::size_t unneeded = begin > capacity ? (begin - capacity) / granule_ : 0;
  const Candidate candidate{begin, need.bytes, need.bytes, extension / granule_ - unneeded,
                            extension};
  if (!enough(map, candidate)) return std::nullopt;
  return candidate;
}

bool Backing::enough(const FreeMap& map, const Candidate& candidate) const {
  if (candidate.lacking <= map.spare) return true;
  const auto& holes = granules_in_holes(map);
  const auto inside =
      std::lower_bound(holes.begin(), holes.end(), candidate.begin + candidate.bytes) -
      std::lower_bound(holes.begin(), holes.end(), candidate.begin);
  return candidate.lacking - map.spare <= holes.size() - static_cast<std::size_t>(inside);
}

// The highest granules that lie wholly in holes, ascending; found when they are first needed.
const std::vector<Offset>& Backing::granules_in_holes(const FreeMap& map) const {
  if (map.in_holes) return *map.in_holes;
  auto& found = map.in_holes.emplace();
  strategy_.withdraw(granule_, [&](Offset at) {
    if (found.size() == map.max_in_holes) return Strategy::Reply::stop;
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

// Commits more than the block needs, so that the next ones find memory. Returns false, with
// nothing changed, when there is not that much.
bool Backing::grow_with_slack(const Candidate& candidate) {
  const std::size_t spare = spare_granules();
  if (candidate.extension > 0) {
    const Offset capacity = granules_.size() * granule_;
    const std::size_t bytes =
        std::min({std::max(candidate.extension, round_up(options_.growth, granule_)),
                  spare * granule_, addresses_ - capacity});
    if (bytes < candidate.extension) return false;
    try {
      grow(bytes);
    } catch (const Error&) {
      return false;
    }
    return true;
  }
  const auto granules = granules_without(
      candidate.begin,
      candidate.begin + std::min(candidate.room, std::max(candidate.bytes, options_.growth)));
  if (granules.size() > spare || !commit(granules)) return false;
  for (const Offset at : granules) strategy_.restore(at);
  return true;
}

// Gives the block its addresses first, then memory to exactly the granules it lies on.
std::optional<Offset> Backing::grow_exact(const Candidate& candidate, std::size_t bytes) {
  const FailedSearch before = failed_search_;
  const bool fills = candidate.begin <= granules_.size() * granule_;  // all that is added
  std::vector<Offset> bare = granules_without(candidate.begin, candidate.begin + candidate.bytes);
  for (const Offset at : bare) strategy_.restore(at);
  for (std::size_t n = 0; n < candidate.extension; n += granule_)
    bare.push_back(granules_.size() * granule_ + n);
  if (candidate.extension > 0) extend(candidate.extension, Granule::withdrawn);

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
  if (offset && commit_or_remap(bare)) {
    if (fills) failed_search_ = before;
    return offset;
  }
  if (offset) strategy_.free(*offset);
  withdraw_bare();
  return std::nullopt;
}

bool Backing::commit_or_remap(const std::vector<Offset>& granules) {
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
  const FreeMap now{open(), spare_granules(), kNever};
  const auto fits = [&](std::size_t units) {
    const std::size_t bytes = units * kAlignment;
    return strategy_.missing(bytes) == 0 || find_candidate(now, bytes).has_value();
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
