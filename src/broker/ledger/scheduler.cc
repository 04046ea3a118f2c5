#include "broker/ledger/scheduler.h"

#include <algorithm>

#include "broker/ledger/limits.h"

namespace sluice::broker {

Scheduler::Scheduler(const Policy& policy, LeaseTable& leases, Deadlines& deadlines,
                     CardTable& cards, Accounts& accounts)
    : policy_(policy),
      leases_(leases),
      deadlines_(deadlines),
      cards_(cards),
      accounts_(accounts),
      queue_(policy),
      budgets_(policy),
      reservations_(policy, cards, accounts),
      planner_(policy, cards),
      yields_(policy, leases, deadlines, queue_, budgets_, planner_) {}

Entry Scheduler::newcomer(const LeaseRequest& request, Instant now) {
  Entry entry;
  entry.lease.request = request;
  entry.lease.requested_at = now;
  entry.agent = &accounts_.agent_named(request.agent, now);
  entry.peer = accounts_.find_peer(request.peer);
  queue_.set_step(entry);
  return entry;
}

SchedulingPass Scheduler::pass_for(const Entry& entry, Instant now) {
  SchedulingPass pass(cards_, reservations_, queue_, policy_, now);
  pass.keep_for_those_ahead(entry);
  return pass;
}

Choice Scheduler::choose_for(const Entry& entry, std::span<const CandidateCard> candidates) const {
  const auto left = quota_left(policy_, entry);
  if (!left || *left >= entry.lease.request.bytes) return choose(entry.lease.request, candidates);
  if (*left < min_bytes_per_gpu(entry.lease.request)) return {};
  auto within = entry.lease.request;
  within.bytes = *left;
  return choose(within, candidates);
}

void Scheduler::grant(Entry& entry, const Choice& choice, std::span<const CandidateCard> candidates,
                      Instant now, Changes& changes) {
  auto& lease = entry.lease;
  if (lease.state == State::waiting) remove(entry, changes);
  lease.reason = explain(lease.request, candidates, choice);
  accounts_.set_state(entry, State::held);
  lease.granted_at = now;
  lease.expires_at = later(now, lease.request.ttl);
  for (const auto candidate : choice.candidates) {
    lease.parts.push_back({candidates[candidate].card->uuid, choice.bytes});
    cards_.add_promise(entry, static_cast<CardIndex>(candidate), choice.bytes);
  }
  accounts_.hold(entry);
  deadlines_.watch(entry);
  changes.push_back(
      {Change::What::granted, lease.id, choice.bytes * choice.candidates.size(), {}, lease.reason});
}

std::string Scheduler::why_never(const LeaseRequest& request) const {
  auto over = why_over_quota(policy_, request);
  return over.empty() ? cards_.why_never(request) : over;
}

std::string Scheduler::reason_for(const Entry& entry, Instant now) {
  const auto pass = pass_for(entry, now);
  if (is_over_quota(policy_, entry)) return quota_text(policy_, entry);
  return explain(entry.lease.request, pass.candidates_for(entry, true), {});
}

Refusal Scheduler::refusal_for(const Entry& entry, const SchedulingPass& pass) {
  const auto& request = entry.lease.request;
  if (is_over_quota(policy_, entry)) return quota_refusal(policy_, entry, leases_, pass.now());
  const auto candidates = pass.candidates_for(entry, true);
  Refusal refusal{explain(request, candidates, {}), obstacles(request, candidates), {}, {}};
  const auto plan = planner_.plan(entry, pass, VictimPlanner::Of::all);
  if (!plan.is_feasible) return refusal;
  Seconds longest{0};
  for (const auto* victim : plan.victims) {
    refusal.blocked_by.push_back(victim->lease.id);
    longest = std::max(longest, Seconds(victim->lease.expires_at - pass.now()));
  }
  refusal.may_fit_in = longest;
  return refusal;
}

void Scheduler::remove(Entry& entry, Changes& changes) {
  if (queue_.remove(entry)) is_due_ = true;  // what was kept for it is for others now
  yields_.withdraw(entry, changes);
}

void Scheduler::apply_policy(Instant now) {
  reservations_.plan(now);
  queue_.apply_policy();
  is_due_ = true;
}

void Scheduler::cards_changed(Instant now) {
  if (!policy_.reservations.empty()) reservations_.plan(now);
}

std::string Scheduler::broken_invariant() const {
  auto problem = queue_.broken_invariant(leases_);
  return problem.empty() ? yields_.broken_invariant() : problem;
}

// ---- the pass over the queue

bool Scheduler::try_grant(Entry& entry, SchedulingPass& pass, Changes& changes) {
  if (!pass.may_fit(entry)) return false;
  const auto candidates = pass.candidates_for(entry, false);
  const auto choice = choose_for(entry, candidates);
  if (choice.candidates.empty()) return false;
  pass.release_claims(entry);
  grant(entry, choice, candidates, pass.now(), changes);
  pass.granted(entry, choice);
  return true;
}

bool Scheduler::are_good_targets(const Entry& entry) const {
  return !is_over_quota(policy_, entry) && entry.targets.size() == entry.lease.request.gpus &&
         std::ranges::all_of(entry.targets, [&](CardIndex i) { return cards_[i].may_carry(); });
}

// Bytes of its own peer on the card, without the leases that were asked to yield to it.
std::uint64_t Scheduler::own_blocking(const Entry& entry, CardIndex card) const {
  if (entry.peer == nullptr || entry.peer->on.size() <= card) return 0;
  auto own = entry.peer->on[card];
  for (const auto id : entry.pending_yields)
    if (const auto* yielder = leases_.find(id); yielder->peer == entry.peer)
      own -= bytes_on(*yielder, card);
  return own;
}

// True while leases of its own peer occupy the target cards, so that keeping capacity there cannot
// be enough.
bool Scheduler::is_behind_its_own(const Entry& entry) const {
  const auto min_bytes = min_bytes_per_gpu(entry.lease.request);
  return std::ranges::any_of(entry.targets, [&](CardIndex card) {
    return less(cards_[card].card.total, own_blocking(entry, card)) < min_bytes;
  });
}

// New ones: the yields to the present ones are withdrawn.
void Scheduler::choose_targets(Entry& entry, SchedulingPass& pass, Changes& changes) {
  pass.release_claims(entry);
  yields_.withdraw(entry, changes);
  if (!is_over_quota(policy_, entry)) entry.targets = pass.targets_for(entry);
  entry.is_kept_from_all = entry.is_kept_from_all && !is_behind_its_own(entry);
}

void Scheduler::hold_capacity(Entry& entry, SchedulingPass& pass, Changes& changes) {
  const auto now = pass.now();
  if (now >= later(entry.lease.requested_at, policy_.hold_after)) entry.is_holding = true;
  entry.is_kept_from_all = budgets_.may_hold(entry, now) && !is_behind_its_own(entry);
  const bool is_asking = !entry.claimed.empty();
  if ((is_asking && !entry.is_kept_from_all) ||
      ((entry.is_holding || is_asking) && !are_good_targets(entry)))
    choose_targets(entry, pass, changes);
  yields_.ask(entry, pass, changes);
  if (entry.is_holding) queue_.make_keeper(entry);
  const bool is_kept = entry.is_holding ? !entry.targets.empty() : !entry.claimed.empty();
  if (is_kept && entry.is_kept_from_all) budgets_.note_kept(entry, now);
  pass.keep_for(entry);
}

void Scheduler::serve(Instant now, Changes& changes) {
  is_due_ = is_paused_;
  if (is_paused_) return;
  budgets_.forget_full(now);
  SchedulingPass pass(cards_, reservations_, queue_, policy_, now);
  for (auto* entry : queue_.in_order(now))
    if (!try_grant(*entry, pass, changes)) hold_capacity(*entry, pass, changes);
  report_capacity(pass, changes);
  is_due_ = false;
}

void Scheduler::serve_if_due(Instant now, Changes& changes) {
  if (is_due_) serve(now, changes);
}

// Each lease is notified once until the capacity was gone again; the same bytes are not offered
// to two leases at once.
void Scheduler::report_capacity(SchedulingPass& pass, Changes& changes) {
  for (const auto& [key, entry] : queue_.on_cpu()) {
    Choice choice;
    if (pass.may_fit(*entry)) choice = choose_for(*entry, pass.candidates_for(*entry, false));
    const bool is_news = !choice.candidates.empty() && !entry->capacity_reported;
    entry->capacity_reported = !choice.candidates.empty();
    if (!is_news) continue;
    pass.offered(choice);
    changes.push_back({Change::What::capacity, entry->lease.id,
                       choice.bytes * choice.candidates.size(),
                       cards_[static_cast<CardIndex>(choice.candidates.front())].card.uuid,
                       "there is capacity for it on a GPU now; ask again"});
  }
}

}  // namespace sluice::broker
