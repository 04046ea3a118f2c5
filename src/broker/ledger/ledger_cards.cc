// The ledger's view of the cards: samples, returns that they confirm, over-use.
#include <fmt/core.h>

#include <algorithm>

#include "base/units.h"
#include "broker/ledger/ledger_state.h"

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
  return used > promised ? used - promised : 0;
}

}  // namespace

CardIndex Ledger::Impl::card_named(const std::string& uuid) {
  const auto [at, is_new] = card_index.try_emplace(uuid, static_cast<CardIndex>(cards.size()));
  if (is_new) {
    auto& card = cards.emplace_back().card;  // until it is seen
    card.uuid = card.bus = uuid, card.name = "GPU";
  }
  return at->second;
}

const CardState* Ledger::Impl::find_card(const std::string& uuid) const {
  const auto at = card_index.find(uuid);
  return at == card_index.end() ? nullptr : &cards[at->second];
}

const Load& Ledger::Impl::load(CardState& state) {
  if (!state.is_load_known) state.load = load_on(state.card, state.promises);
  state.is_load_known = true;
  return state.load;
}

std::uint64_t Ledger::Impl::free_on(CardState& state) {
  if (!is_open(state.card, now, policy.stale)) return 0;
  const auto taken = load(state).taken;
  return state.card.total > taken ? state.card.total - taken : 0;
}

void Ledger::Impl::add_promise(Entry& entry, CardIndex card, std::uint64_t bytes) {
  auto& state = cards[card];
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
    state.victims.insert({lease.request.priority, bytes, lease.id});
}

// The last promise takes the place of the one that goes.
void Ledger::Impl::remove_promise(CardState& state, std::size_t index) {
  const auto last = state.promises.size() - 1;
  if (index != last) {
    state.promises[index] = state.promises[last];
    state.owners[index] = state.owners[last];
    for (auto& part_state : state.owners[index]->part_states)
      if (&cards[part_state.card] == &state) part_state.index = index;
  }
  state.promises.pop_back();
  state.owners.pop_back();
  state.is_load_known = false;
}

void Ledger::Impl::confirm_returns(CardIndex index, Changes& changes) {
  auto& state = cards[index];
  for (std::size_t i = 0; i < state.promises.size();) {
    if (counts(state.promises[i], state.card)) {
      ++i;
      continue;
    }
    auto& entry = *state.owners[i];
    state.draining -= state.promises[i].bytes;
    remove_promise(state, i);
    for (auto& part_state : entry.part_states)
      if (part_state.card == index) part_state.counts = false;
    state.unlisted.push_back(entry.lease.id);
  }
  report_returns(index, changes);
}

// Reports returns with the memory that the process still has there, which only a later list shows.
// A list may confirm thousands at once; they no longer count, so the rest waits for the next tick.
void Ledger::Impl::report_returns(CardIndex index, Changes& changes) {
  auto& state = cards[index];
  std::erase_if(state.unlisted, [&](LeaseId id) {
    if (returns_reported == kReturnsAtOnce) {
      has_returns = true;
      return false;
    }
    auto& entry = entries.at(id);
    const auto& lease = entry.lease;
    const auto& listed_at = state.card.processes_at;
    if (lease.request.holder.pid != 0 && listed_at && *listed_at <= lease.ended_at &&
        now < later(lease.ended_at, kListPatience))
      return false;
    report_return(entry, index, changes);
    ++returns_reported;
    return true;
  });
}

// Memory of unknown state is not reported as free, and not counted as freed by a preemption.
void Ledger::Impl::report_return(Entry& entry, CardIndex index, Changes& changes) {
  const auto& state = cards[index];
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
    if (entry.part_states[i].card != index) continue;
    entry.part_states[i].is_reported = true;
    const auto kept = is_known && !is_listed ? lease.parts[i].bytes : left;
    lease.yield_kept += std::min(kept, lease.parts[i].bytes);
  }
  entry.seen_free_at =
      std::max(entry.seen_free_at, is_known && is_listed ? *state.card.processes_at : now);
  if (!std::ranges::all_of(entry.part_states, &PartState::is_reported)) return;
  if (lease.yield_requested_at != Instant{} && lease.yield_kept < promised(lease))
    lease.yield_freed_at = entry.seen_free_at;
  finish(entry);
}

void Ledger::Impl::judge_use(CardState& state, Changes& changes) {
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
void Ledger::Impl::judge_part(Entry& owner, const CardState& state, const HolderUse& use,
                              Changes& changes) {
  const auto share = static_cast<double>(use.promised) * policy.over_use_share;
  const auto slack = std::max(policy.over_use_bytes, static_cast<std::uint64_t>(share));
  const auto over = use.used > use.promised + slack ? use.used - use.promised : 0;
  auto& lease = owner.lease;
  for (auto& part_state : owner.part_states) {
    if (&cards[part_state.card] != &state) continue;
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

void Ledger::Impl::report_usable(CardState& state, Changes& changes) {
  const bool is_usable = state.card.usable && !state.card.excluded;
  if (is_usable == state.was_usable) return;
  state.was_usable = is_usable;
  for (const auto& victim : state.victims)
    changes.push_back(
        {is_usable ? Change::What::card_back : Change::What::card_lost, victim.id, 0,
         state.card.uuid,
         is_usable ? std::string("its GPU is back") : why_closed(state.card, now, policy.stale)});
}

void Ledger::Impl::observe_one(const Card& card, Changes& changes) {
  const auto index = card_named(card.uuid);
  auto& state = cards[index];
  auto& known = state.card;
  if (!std::exchange(state.is_seen, true))
    seen.push_back(&known), plan_again = true;
  else if (card.sampled_at && known.sampled_at && *card.sampled_at < *known.sampled_at)
    return;                                                      // overtaken by a later one
  const auto total = card.total > 0 ? card.total : known.total;  // a lost card has what it had
  if (known.total != total || known.usable != card.usable || known.excluded != card.excluded)
    plan_again = true;
  const auto listed_at = known.processes_at;
  auto list = std::move(known.processes);
  known = card;
  known.total = total;
  if (listed_at && card.processes_at && *card.processes_at < *listed_at)
    known.processes = std::move(list), known.processes_at = listed_at;
  const bool is_new_list = known.processes_at && known.processes_at != listed_at;
  state.is_load_known = false;
  state.before.reset();
  sampled(index, is_new_list, changes);
  report_usable(state, changes);
}

void Ledger::Impl::sampled(CardIndex index, bool is_new_list, Changes& changes) {
  auto& state = cards[index];
  confirm_returns(index, changes);
  if (is_new_list) judge_use(state, changes);
  state.has_shrunk = load(state).promised > state.card.total;
}

Changes Ledger::observe(std::span<const Card> cards, Instant now, bool has_all) {
  impl_->begin(now);
  impl_->has_all = has_all;
  Changes changes;
  for (const auto& card : cards) impl_->observe_one(card, changes);
  if (impl_->plan_again || !impl_->policy.reservations.empty()) impl_->plan_reservations();
  impl_->serve(changes);
  return changes;
}

CardCapacity Ledger::capacity(const std::string& uuid, Instant now) const {
  const auto* state = impl_->find_card(uuid);
  if (state == nullptr || !state->is_seen) return {0, 0, 0, "this GPU has not been seen"};
  return capacity_on(state->card, state->promises, now, impl_->policy.stale);
}

std::map<std::string, std::uint64_t> Ledger::leased() const {
  std::map<std::string, std::uint64_t> leased;
  for (const auto& state : impl_->cards)
    if (!state.promises.empty() || !state.unlisted.empty())
      leased.emplace(state.card.uuid, state.changes);
  return leased;
}

std::vector<Promise> Ledger::promises(const std::string& uuid) const {
  const auto* state = impl_->find_card(uuid);
  return state == nullptr ? std::vector<Promise>{} : state->promises;
}

}  // namespace sluice::broker
