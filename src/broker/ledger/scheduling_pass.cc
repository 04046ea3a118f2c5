#include "broker/ledger/scheduling_pass.h"

#include <algorithm>
#include <utility>

namespace sluice::broker {

namespace {

constexpr std::size_t kMaxPlansPerPass = 16;

}  // namespace

SchedulingPass::SchedulingPass(CardTable& cards, const Reservations& reservations,
                               const WaitQueue& queue, const Policy& policy, Instant now)
    : cards_(cards),
      reservations_(reservations),
      queue_(queue),
      policy_(policy),
      now_(now),
      free_(cards.size()),
      reserved_(reservations.reserved_for(nullptr)),
      kept_(cards.size()),
      claimed_(cards.size()),
      of_users_(cards.size()) {
  for (CardIndex i = 0; i < cards.size(); ++i) free_[i] = cards.free_on(i, now);
  update_most_free();
  for (const auto* keeper : queue.keepers()) claim(*keeper);
}

void SchedulingPass::update_most_free() {
  most_free_ = free_.empty() ? 0 : *std::ranges::max_element(free_);
}

// `more` may be less: it wraps around.
void SchedulingPass::keep(Amounts& as, const Entry& keeper, CardIndex card, std::uint64_t more) {
  as[card] += more;
  if (!keeper.lease.request.by_admin) of_users_[card] += more;
}

void SchedulingPass::claim(const Entry& keeper) {
  for (std::size_t i = 0; i < keeper.claimed.size(); ++i)
    keep(claimed_, keeper, keeper.targets[i], keeper.claimed[i]);
}

void SchedulingPass::release_claims(const Entry& keeper) {
  for (std::size_t i = 0; i < keeper.claimed.size(); ++i)
    keep(claimed_, keeper, keeper.targets[i], 0 - keeper.claimed[i]);
}

void SchedulingPass::keep_for(const Entry& keeper) {
  if (!keeper.is_holding) return;
  release_claims(keeper);
  const auto min_bytes = min_bytes_per_gpu(keeper.lease.request);
  if (keeper.is_kept_from_all) {
    for (const auto card : keeper.targets) keep(kept_, keeper, card, min_bytes);
    return;
  }
  auto& within = kept_within_[keeper.peer];
  within.resize(cards_.size());
  for (const auto card : keeper.targets) within[card] += min_bytes;
}

void SchedulingPass::keep_for_those_ahead(const Entry& newcomer) {
  for (const auto* keeper : queue_.keepers())
    if (keeper != &newcomer && keeper->is_holding && WaitQueue::is_ahead(*keeper, newcomer, now_))
      keep_for(*keeper);
}

// Bytes kept for requests other than `entry`. What it claimed is its own, whoever is ahead.
std::uint64_t SchedulingPass::kept_from(const Entry& entry, CardIndex card) const {
  auto all = kept_[card] + claimed_[card];
  if (entry.lease.request.by_admin) all -= of_users_[card];
  if (const auto own = kept_within_.find(entry.peer); own != kept_within_.end())
    all += own->second[card];
  for (std::size_t i = 0; i < entry.claimed.size(); ++i)
    if (entry.targets[i] == card)
      return std::min(all - entry.claimed[i] + reserved_[card],
                      less(free_[card] + cards_[card].draining, entry.claimed[i]));
  return all + reserved_[card];
}

bool SchedulingPass::may_fit(const Entry& entry) const {
  const auto min_bytes = min_bytes_per_gpu(entry.lease.request);
  if (min_bytes > most_free_) return false;
  if (entry.agent->is_reserved_for) return true;
  for (CardIndex i = 0; i < free_.size(); ++i)
    if (free_[i] >= min_bytes && free_[i] >= min_bytes + kept_from(entry, i)) return true;
  return false;
}

std::vector<CandidateCard> SchedulingPass::candidates_for(const Entry& entry,
                                                          bool with_reasons) const {
  std::vector<CandidateCard> candidates(cards_.size());
  const bool has_own = entry.agent->is_reserved_for;
  const auto for_others = has_own ? reservations_.reserved_for(entry.agent) : Amounts{};
  for (CardIndex i = 0; i < cards_.size(); ++i) {
    auto& candidate = candidates[i];
    candidate.card = &cards_[i].card;
    candidate.capacity.free = free_[i];
    const auto own = has_own ? reserved_[i] - for_others[i] : 0;
    candidate.held_back = less(kept_from(entry, i), own);
    if (with_reasons) candidate.capacity.why = why_closed(*candidate.card, now_, policy_.stale);
  }
  return candidates;
}

std::uint64_t SchedulingPass::coming_for(const Entry& entry, CardIndex card) const {
  return less(free_[card] + cards_[card].draining, kept_from(entry, card));
}

std::vector<CardIndex> SchedulingPass::targets_for(const Entry& entry) const {
  const auto& request = entry.lease.request;
  std::vector<std::pair<std::int64_t, CardIndex>> found;
  for (CardIndex i = 0; i < cards_.size(); ++i) {
    const auto& state = cards_[i];
    if (!state.may_carry()) continue;
    const auto max_bytes = less(less(state.card.total, cards_.load(i).unmanaged), reserved_[i]);
    if (!may_use(request, state.card) || max_bytes < min_bytes_per_gpu(request)) continue;
    found.emplace_back(static_cast<std::int64_t>(kept_[i] + claimed_[i] + reserved_[i]) -
                           static_cast<std::int64_t>(free_[i] + state.draining),
                       i);
  }
  std::vector<CardIndex> targets;
  if (found.size() < request.gpus) return targets;
  std::ranges::sort(found);
  for (unsigned i = 0; i < request.gpus; ++i) targets.push_back(found[i].second);
  return targets;
}

void SchedulingPass::granted(const Entry& entry, const Choice& choice) {
  for (const auto i : choice.candidates) {
    const auto card = static_cast<CardIndex>(i);
    free_[card] = cards_.free_on(card, now_);
  }
  if (entry.agent->is_reserved_for) reserved_ = reservations_.reserved_for(nullptr);
  update_most_free();
}

void SchedulingPass::offered(const Choice& choice) {
  for (const auto i : choice.candidates) free_[i] -= choice.bytes;
  update_most_free();
}

bool SchedulingPass::may_plan(const Entry& entry) {
  const bool had_one =
      entry.peer != nullptr && std::ranges::find(planned_for_, entry.peer) != planned_for_.end();
  if (had_one || planned_for_.size() >= kMaxPlansPerPass) return false;
  planned_for_.push_back(entry.peer);
  return true;
}

}  // namespace sluice::broker
