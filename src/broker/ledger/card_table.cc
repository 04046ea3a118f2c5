#include "broker/ledger/card_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/units.h"

namespace sluice::broker {

namespace {

// Process lists come more rarely than samples. After this a return is reported without one.
constexpr Seconds kListPatience{60};
constexpr std::size_t kReturnsAtOnce = 16;  // the owner stores them while others wait

// Bytes of a holder's process beyond what is still promised to it.
std::uint64_t retained(const CardState& state, const Holder& holder) {
  std::uint64_t used = 0, promised = 0;
  for (const auto& process : state.card.processes)
    if (is_holder(holder, process)) used += process.bytes.value_or(0);
  if (used == 0) return 0;
  for (const auto& promise : state.promises)
    if (promise.holder.pid == holder.pid && promise.holder.start_time == holder.start_time)
      promised += promise.bytes;
  return less(used, promised);
}

Victim victim_of(Entry& entry, std::uint64_t bytes) {
  return {entry.lease.request.priority, bytes, entry.lease.id, &entry};
}

}  // namespace

const CardState* CardTable::find(const std::string& uuid) const {
  const auto at = index_.find(uuid);
  return at == index_.end() ? nullptr : &cards_[at->second];
}

CardIndex CardTable::index_of(const std::string& uuid) {
  const auto [at, is_new] = index_.try_emplace(uuid, size());
  if (is_new) {
    auto& card = cards_.emplace_back().card;  // until it is seen
    card.uuid = card.bus = uuid, card.name = "GPU";
  }
  return at->second;
}

const Load& CardTable::load(CardIndex card) {
  auto& state = cards_[card];
  if (!state.is_load_known) state.load = load_on(state.card, state.promises);
  state.is_load_known = true;
  return state.load;
}

std::uint64_t CardTable::free_on(CardIndex card, Instant now) {
  const auto& known = cards_[card].card;
  return is_open(known, now, policy_.stale) ? less(known.total, load(card).taken) : 0;
}

std::string CardTable::why_never(const LeaseRequest& request) const {
  return has_all_ ? never_fits(request, seen_) : std::string();
}

std::map<std::string, std::uint64_t> CardTable::leased() const {
  std::map<std::string, std::uint64_t> leased;
  for (const auto& state : cards_)
    if (!state.promises.empty() || !state.unlisted.empty())
      leased.emplace(state.card.uuid, state.changes);
  return leased;
}

// ---- promises

void CardTable::add_promise(Entry& entry, CardIndex card, std::uint64_t bytes) {
  auto& state = cards_[card];
  const auto& lease = entry.lease;
  const bool is_back = lease.state == State::draining;
  if (lease.request.holder.pid == 0 && !state.before && state.card.sampled_at)
    state.before = std::make_shared<const InUse>(in_use_on(state.card));
  entry.part_states.push_back({card, state.promises.size()});
  state.promises.push_back({lease.id, bytes, lease.request.holder, lease.granted_at,
                            is_back ? std::optional(lease.ended_at) : std::nullopt,
                            lease.request.holder.pid == 0 ? state.before : nullptr});
  state.owners.push_back(&entry);
  state.is_load_known = false;
  ++state.changes;
  if (is_back)
    state.draining += bytes;
  else
    state.victims.insert(victim_of(entry, bytes));
}

void CardTable::give_back(const Entry& entry) {
  const auto& lease = entry.lease;
  for (std::size_t i = 0; i < entry.part_states.size(); ++i) {
    auto& state = cards_[entry.part_states[i].card];
    const auto bytes = lease.parts[i].bytes;
    state.promises[entry.part_states[i].index].given_back_at = lease.ended_at;
    state.draining += bytes;
    ++state.changes;
    state.victims.erase({lease.request.priority, bytes, lease.id});
  }
}

// The last promise takes the place of the one that goes.
void CardTable::remove_promise(CardState& state, std::size_t index) {
  const auto last = state.promises.size() - 1;
  if (index != last) {
    state.promises[index] = state.promises[last];
    state.owners[index] = state.owners[last];
    for (auto& part_state : state.owners[index]->part_states)
      if (&cards_[part_state.card] == &state) part_state.index = index;
  }
  state.promises.pop_back();
  state.owners.pop_back();
  state.is_load_known = false;
}

// ---- returns

void CardTable::confirm_returns(CardIndex card) {
  auto& state = cards_[card];
  for (std::size_t i = 0; i < state.promises.size();) {
    if (counts(state.promises[i], state.card)) {
      ++i;
      continue;
    }
    auto& entry = *state.owners[i];
    state.draining -= state.promises[i].bytes;
    remove_promise(state, i);
    for (auto& part_state : entry.part_states)
      if (part_state.card == card) part_state.counts = false;
    state.unlisted.push_back(&entry);
  }
}

// Reports returns with the memory that the process still has there, which only a later list shows.
// A list may confirm thousands at once; they no longer count, so the rest waits for the next tick.
void CardTable::report_returns(CardIndex card, Instant now, Entries& over, Changes& changes) {
  auto& state = cards_[card];
  std::erase_if(state.unlisted, [&](Entry* entry) {
    if (returns_reported_ == kReturnsAtOnce) {
      has_more_returns_ = true;
      return false;
    }
    const auto& lease = entry->lease;
    const auto& listed_at = state.card.processes_at;
    if (lease.request.holder.pid != 0 && listed_at && *listed_at <= lease.ended_at &&
        now < later(lease.ended_at, kListPatience))
      return false;
    if (report_return(*entry, card, now, changes)) over.push_back(entry);
    ++returns_reported_;
    return true;
  });
}

// Memory of unknown state is not reported as free, and not counted as freed by a preemption. True
// when it was the last return of the lease.
bool CardTable::report_return(Entry& entry, CardIndex card, Instant now, Changes& changes) {
  const auto& state = cards_[card];
  auto& lease = entry.lease;
  const bool is_known = lease.request.holder.pid != 0;
  const bool is_listed = state.card.processes_at && *state.card.processes_at > lease.ended_at;
  const auto left = is_listed ? retained(state, lease.request.holder) : 0;
  std::string reason = "the memory is free again";
  if (left > 0)
    reason = fmt::format("its process still holds {}", human_bytes(left));
  else if (!is_known || !is_listed)
    reason = "given back; what its process still has there is not known";
  changes.push_back({Change::What::drained, lease.id, left, state.card.uuid, std::move(reason)});
  for (std::size_t i = 0; i < entry.part_states.size(); ++i) {
    if (entry.part_states[i].card != card) continue;
    entry.part_states[i].is_reported = true;
    const auto kept = is_known && !is_listed ? lease.parts[i].bytes : left;
    lease.yield_kept += std::min(kept, lease.parts[i].bytes);
  }
  entry.seen_free_at =
      std::max(entry.seen_free_at, is_known && is_listed ? *state.card.processes_at : now);
  if (!std::ranges::all_of(entry.part_states, &PartState::is_reported)) return false;
  if (lease.yield_requested_at != Instant{} && lease.yield_kept < promised(lease))
    lease.yield_freed_at = entry.seen_free_at;
  return true;
}

CardTable::Entries CardTable::report_more_returns(Instant now, Changes& changes) {
  Entries over;
  if (std::exchange(has_more_returns_, false))
    for (CardIndex i = 0; i < size(); ++i) report_returns(i, now, over, changes);
  return over;
}

// ---- samples

void CardTable::judge_use(CardState& state, Changes& changes) {
  const auto holders = use_on(state.card, state.promises).holders;
  for (std::size_t i = 0; i < state.promises.size(); ++i) {
    const auto& promise = state.promises[i];
    if (promise.holder.pid == 0 || promise.given_back_at) continue;
    const auto use = std::ranges::find_if(holders, [&](const HolderUse& u) {
      return u.holder.pid == promise.holder.pid && u.holder.start_time == promise.holder.start_time;
    });
    if (use == holders.end() || !use->is_reported) continue;
    judge_part(*state.owners[i], state, *use, changes);
  }
}

// Over-use is reported when it begins and when it ends; its size follows each process list.
void CardTable::judge_part(Entry& owner, const CardState& state, const HolderUse& use,
                           Changes& changes) {
  const auto share = static_cast<double>(use.promised) * policy_.over_use_share;
  const auto slack = std::max(policy_.over_use_bytes, static_cast<std::uint64_t>(share));
  const auto over = use.used > use.promised + slack ? use.used - use.promised : 0;
  auto& lease = owner.lease;
  for (auto& part_state : owner.part_states) {
    if (&cards_[part_state.card] != &state) continue;
    const bool was_over = part_state.over > 0;
    lease.over_use += over - part_state.over;
    part_state.over = over;
    if (was_over == (over > 0)) continue;
    changes.push_back({over > 0 ? Change::What::over_use : Change::What::within_again, lease.id,
                       use.used, state.card.uuid,
                       fmt::format("its process uses {} of the {} promised", human_bytes(use.used),
                                   human_bytes(use.promised))});
  }
}

void CardTable::report_usable(CardState& state, Instant now, Changes& changes) {
  const bool is_usable = state.card.usable && !state.card.excluded;
  if (is_usable == state.was_usable) return;
  state.was_usable = is_usable;
  for (const auto& victim : state.victims)
    changes.push_back(
        {is_usable ? Change::What::card_back : Change::What::card_lost, victim.id, 0,
         state.card.uuid,
         is_usable ? std::string("its GPU is back") : why_closed(state.card, now, policy_.stale)});
}

// Makes the sample the known one; a process list that is older than the known one is not taken.
// True when the list is new.
bool CardTable::take_in(CardState& state, const Card& card) {
  auto& known = state.card;
  const auto total = card.total > 0 ? card.total : known.total;  // a lost card has what it had
  const auto listed_at = known.processes_at;
  auto list = std::move(known.processes);
  known = card;
  known.total = total;
  if (listed_at && card.processes_at && *card.processes_at < *listed_at)
    known.processes = std::move(list), known.processes_at = listed_at;
  state.is_load_known = false;
  state.before.reset();
  return known.processes_at && known.processes_at != listed_at;
}

CardTable::Entries CardTable::observe(const Card& card, Instant now, Changes& changes) {
  Entries over;
  const auto index = index_of(card.uuid);
  auto& state = cards_[index];
  const auto& known = state.card;
  if (!std::exchange(state.is_seen, true))
    seen_.push_back(&known);
  else if (card.sampled_at && known.sampled_at && *card.sampled_at < *known.sampled_at)
    return over;  // overtaken by a later one
  const bool is_new_list = take_in(state, card);
  confirm_returns(index);
  report_returns(index, now, over, changes);
  if (is_new_list) judge_use(state, changes);
  state.has_shrunk = load(index).promised > state.card.total;
  report_usable(state, now, changes);
  return over;
}

// ---- invariants

std::string CardTable::broken_parts_of(const Entry& entry) const {
  const auto& lease = entry.lease;
  if (entry.part_states.size() != lease.parts.size()) return on_lease(lease, "has lost a part");
  for (std::size_t i = 0; i < entry.part_states.size(); ++i) {
    const auto& part_state = entry.part_states[i];
    const auto& state = cards_[part_state.card];
    if (state.card.uuid != lease.parts[i].uuid) return on_lease(lease, "sits on another card");
    if (!part_state.counts) {
      if (is_held(lease)) return on_lease(lease, "is held and does not count");
      continue;
    }
    if (part_state.index >= state.promises.size() || state.owners[part_state.index] != &entry ||
        state.promises[part_state.index].lease != lease.id ||
        state.promises[part_state.index].bytes != lease.parts[i].bytes)
      return on_lease(lease, "does not count where it sits");
  }
  return {};
}

std::string CardTable::broken_card(const CardState& state, const LeaseTable& leases) const {
  std::uint64_t promised = 0, draining = 0;
  std::size_t count = 0, held = 0;
  for (const auto& [id, entry] : leases.all())
    for (std::size_t i = 0; i < entry.part_states.size(); ++i) {
      if (&cards_[entry.part_states[i].card] != &state || !entry.part_states[i].counts) continue;
      ++count;
      promised += entry.lease.parts[i].bytes;
      if (is_held(entry.lease)) ++held;
      if (entry.lease.state == State::draining) draining += entry.lease.parts[i].bytes;
    }
  const auto on_card = [&](std::string_view problem) {
    return fmt::format("{}: {}", state.card.uuid, problem);
  };
  if (count != state.promises.size()) return on_card("counts promises of no lease");
  if (held != state.victims.size()) return on_card("lists other leases than are held");
  if (draining != state.draining) return on_card("has a wrong sum of what drains");
  if (state.is_seen && promised > state.card.total && !state.has_shrunk)
    return on_card(
        fmt::format("{} promised of {}", human_bytes(promised), human_bytes(state.card.total)));
  const auto load = load_on(state.card, state.promises);
  if (load.promised != promised) return on_card("does not count what was promised");
  if (state.is_load_known && load.taken != state.load.taken)
    return on_card("remembers another load than it has");
  return {};
}

std::string CardTable::broken_invariant(const LeaseTable& leases) const {
  for (const auto& [id, entry] : leases.all())
    if (auto problem = broken_parts_of(entry); !problem.empty()) return problem;
  for (const auto& state : cards_)
    if (auto problem = broken_card(state, leases); !problem.empty()) return problem;
  return {};
}

}  // namespace sluice::broker
