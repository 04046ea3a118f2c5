#include "broker/simulation/simulation_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace sluice::broker {

namespace {

constexpr std::size_t kKinds = 14;

Policy policy_of(const std::vector<Card>& cards) {
  Policy policy;
  policy.escalate = Policy::Escalate::revoke;
  policy.quotas["agent-7"] = std::uint64_t{4096} << 20;
  if (!cards.empty()) policy.reservations["agent-8"] = std::uint64_t{2048} << 20;
  return policy;
}

}  // namespace

const char* SimulationRun::name_of(Kind kind) {
  static constexpr std::array<const char*, kKinds> kNames{"request",
                                                          "allocation",
                                                          "renewal",
                                                          "release",
                                                          "crash",
                                                          "crash noticed",
                                                          "memory let go",
                                                          "sample",
                                                          "sample arrives",
                                                          "GPU lost",
                                                          "GPU back",
                                                          "unmanaged process comes",
                                                          "unmanaged process goes",
                                                          "broker restart"};
  return kNames[static_cast<std::size_t>(kind)];
}

SimulationRun::SimulationRun(const SimulationOptions& options, const std::vector<Card>& cards)
    : options_(options),
      policy_(policy_of(cards)),
      rng_(options.seed),
      now_(std::chrono::hours(1)),
      gpus_(cards),
      accounting_(cards, options.longest_wait),
      ledger_(policy_),
      newest_(cards.size()),
      lists_(cards.size()),
      kinds_(kKinds),
      reported_(kChanges) {
  for (const auto& card : cards) memory_ += card.total;
  for (unsigned i = 0; i < options.agents; ++i) {
    static constexpr std::array kMix{
        Priority::low,    Priority::low,    Priority::normal, Priority::normal, Priority::normal,
        Priority::normal, Priority::normal, Priority::high,   Priority::high,   Priority::critical};
    agents_.push_back({fmt::format("agent-{}", i),
                       kMix[i % kMix.size()],
                       random_behavior(),
                       {},
                       0,
                       0,
                       0,
                       0,
                       0,
                       {}});
    restart_process(agents_.back());
    plan_for(i, rng_.between(0, 30), Kind::ask);
  }
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    plan(rng_.between(0, 1), Kind::sample, i);
    plan(rng_.between(100, 2000), Kind::gpu_lost, i);
    if (!options.honest) plan(rng_.between(10, 300), Kind::unmanaged_starts, i);
  }
  plan(rng_.between(60, 120), Kind::restart, 0);
}

SimulationReport SimulationRun::go() {
  const auto began = now_;
  while (report_.events < options_.events && report_.broken.empty()) {
    const auto event = events_.top();
    events_.pop();
    now_ = event.at;
    if (ledger_.next_tick() <= now_) read(ledger_.tick(now_));
    happen(event);
    if (!accounting_.broken().empty()) breaks(accounting_.broken());
    if (report_.events % options_.full_check_every == 0) check_all();
  }
  check_all();
  report_.virtual_s = seconds_between(began, now_);
  for (std::size_t i = 0; i < kKinds; ++i)
    if (kinds_[i] > 0) report_.counts[name_of(static_cast<Kind>(i))] = kinds_[i];
  for (std::size_t i = 0; i < kChanges; ++i)
    report_.counts[fmt::format("reported: {}", to_string(static_cast<Change::What>(i)))] =
        reported_[i];
  report_.used_share =
      samples_ == 0 ? 0
                    : promised_sum_ / static_cast<double>(samples_) / static_cast<double>(memory_);
  return report_;
}

void SimulationRun::breaks(const std::string& what) {
  if (report_.broken.empty()) report_.broken = fmt::format("event {}: {}", report_.events, what);
}

void SimulationRun::check_all() {
  accounting_.compare(ledger_);
  if (!accounting_.broken().empty()) breaks(accounting_.broken());
  if (const auto broken = ledger_.broken_invariant(); !broken.empty()) breaks(broken);
}

void SimulationRun::plan(double after_s, Kind kind, std::size_t who, std::uint64_t generation) {
  events_.push({now_ + std::chrono::duration_cast<Steady::duration>(Seconds(after_s)), ++order_,
                kind, static_cast<std::uint32_t>(who), generation});
}

void SimulationRun::plan_for(std::size_t agent, double after_s, Kind kind) {
  plan(after_s, kind, agent, agents_[agent].generation);
}

void SimulationRun::happen(const Event& event) {
  if (event.kind < Kind::sample) {
    if (event.generation == agents_[event.who].generation) agent_event(event);
    return;
  }
  ++report_.events;
  ++kinds_[static_cast<std::size_t>(event.kind)];
  switch (event.kind) {
    case Kind::sample: return sample(event.who);
    case Kind::sample_arrives: return sample_arrives(event.generation);
    case Kind::gpu_lost: return gpu_lost(event.who);
    case Kind::gpu_back: return gpus_.restore(event.who);
    case Kind::unmanaged_starts: return unmanaged_starts(event.who);
    case Kind::unmanaged_exits: return unmanaged_exits(event.generation);
    default: return restart();
  }
}

void SimulationRun::agent_event(const Event& event) {
  ++report_.events;
  ++kinds_[static_cast<std::size_t>(event.kind)];
  switch (event.kind) {
    case Kind::ask: return ask(event.who);
    case Kind::allocate: return allocate(event.who);
    case Kind::renew: return renew(event.who);
    case Kind::finish: return finish(event.who);
    case Kind::crash: return crash(event.who);
    case Kind::death_noticed: return death_noticed(event.who);
    default: return let_go(event.who);
  }
}

void SimulationRun::read(const Changes& changes) {
  accounting_.read(changes, ledger_, now_);
  for (const auto& change : changes) {
    ++reported_[static_cast<std::size_t>(change.what)];
    read_one(change);
  }
}

// The reaction of an agent to a change.
void SimulationRun::read_one(const Change& change) {
  const auto at = holder_of_.find(change.lease);
  if (at == holder_of_.end()) return;
  const auto who = at->second;
  auto& agent = agents_[who];
  switch (change.what) {
    case Change::What::granted: return has_lease(who);
    case Change::What::yield_requested:
      if (!agent.behavior.is_stubborn) plan_for(who, rng_.between(0.2, 8), Kind::finish);
      return;
    case Change::What::capacity:
      if (rng_.chance(0.7)) plan_for(who, rng_.between(0, 1), Kind::finish);
      return;
    case Change::What::ended: return lost_lease(who);
    default: return;
  }
}

void SimulationRun::sample(std::size_t card) {
  const bool stalls = !options_.honest && rng_.chance(0.002);  // the driver hangs for a while
  plan(stalls ? rng_.between(5, 40) : 1, Kind::sample, card);
  const bool with_list = options_.honest || ++lists_[card] % 10 == 0;
  ++samples_;
  promised_sum_ += static_cast<double>(accounting_.promised());
  const auto slot = ++slots_;
  on_the_way_[slot] = {card, gpus_.sample(card, with_list, now_)};
  const double lag = rng_.chance(0.02) ? rng_.between(0.5, 3) : rng_.between(0, 0.02);
  plan(lag, Kind::sample_arrives, card, slot);
}

void SimulationRun::sample_arrives(std::uint64_t slot) {
  const auto at = on_the_way_.find(slot);
  const auto card = std::move(at->second);
  on_the_way_.erase(at);
  update_accounting(card.first, card.second);
  read(ledger_.observe({&card.second, 1}, now_));
}

// Records what the ledger accepts: no sample that was overtaken by a later one.
void SimulationRun::update_accounting(std::size_t card, const Card& sample) {
  if (!sample.sampled_at) return;
  accounting_.sampled(card, *sample.sampled_at);
  if (newest_[card] && *sample.sampled_at < *newest_[card]) return;
  newest_[card] = sample.sampled_at;
  std::map<std::int64_t, std::uint64_t> unmanaged;
  for (const auto& process : sample.processes)
    if (unmanaged_now_.contains(process.pid)) unmanaged[process.pid] = process.bytes.value_or(0);
  accounting_.listed(card, unmanaged, now_);
}

void SimulationRun::gpu_lost(std::size_t card) {
  gpus_.lose(card);
  const double away = rng_.between(2, 90);
  plan(away, Kind::gpu_back, card);
  plan(away + rng_.between(100, 2000), Kind::gpu_lost, card);
}

void SimulationRun::unmanaged_starts(std::size_t card) {
  plan(rng_.between(10, 300), Kind::unmanaged_starts, card);
  const Holder who{static_cast<std::int64_t>(++next_pid_), next_pid_, -1, 0};
  const auto bytes = gpus_.card(card).total / 100 * rng_.below(16);
  if (!gpus_.set(card, who, bytes)) return;
  unmanaged_.emplace_back(card, who);
  unmanaged_now_.insert(who.pid);
  plan(rng_.between(5, 120), Kind::unmanaged_exits, card, unmanaged_.size() - 1);
}

void SimulationRun::unmanaged_exits(std::uint64_t number) {
  const auto& [card, who] = unmanaged_[number];
  gpus_.process_ends(who);
  unmanaged_now_.erase(who.pid);
  accounting_.unmanaged_left(card, who.pid);
}

// The store has every lease as it was; nothing else survives. Who waited was not answered,
// and asks again (see restored()).
void SimulationRun::restart() {
  plan(rng_.between(300, 1200), Kind::restart, 0);  // waits of many minutes must be seen
  check_all();
  std::vector<Lease> stored;
  Changes unanswered;
  for (const auto* lease : ledger_.live())
    if (lease->state == State::waiting)
      unanswered.push_back({Change::What::ended, lease->id, 0, {}, {}});
    else
      stored.push_back(*lease);
  read(unanswered);
  const auto last = ledger_.last_id();
  policy_.escalate = static_cast<Policy::Escalate>(rng_.below(3));  // the settings may be new
  ledger_ = Ledger(policy_);
  ledger_.restore(std::move(stored), last);
  accounting_.restarted();
  std::ranges::fill(newest_, std::nullopt);
  check_all();
}

}  // namespace sluice::broker
