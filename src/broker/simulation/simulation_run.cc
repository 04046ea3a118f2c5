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
  static constexpr std::array<const char*, kKinds> kNames{
      "request",       "allocation",     "renewal",       "release",        "crash",
      "crash noticed", "memory let go",  "sample",        "sample arrives", "GPU lost",
      "GPU back",      "stranger comes", "stranger goes", "broker restart"};
  return kNames[static_cast<std::size_t>(kind)];
}

SimulationRun::SimulationRun(const SimulationOptions& options, const std::vector<Card>& cards)
    : options_(options),
      policy_(policy_of(cards)),
      dice_(options.seed),
      now_(std::chrono::hours(1)),
      gpus_(cards),
      books_(cards, options.longest_wait),
      ledger_(policy_),
      newest_(cards.size()),
      lists_(cards.size()),
      kinds_(kKinds),
      told_(kChanges) {
  for (const auto& card : cards) memory_ += card.total;
  for (unsigned i = 0; i < options.agents; ++i) {
    static constexpr std::array kMix{
        Priority::low,    Priority::low,    Priority::normal, Priority::normal, Priority::normal,
        Priority::normal, Priority::normal, Priority::high,   Priority::high,   Priority::critical};
    agents_.push_back(
        {fmt::format("agent-{}", i), kMix[i % kMix.size()], some_nature(), {}, 0, 0, 0, 0, 0, {}});
    reborn(agents_.back());
    plan_for(i, dice_.between(0, 30), Kind::ask);
  }
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    plan(dice_.between(0, 1), Kind::sample, i);
    plan(dice_.between(100, 2000), Kind::gpu_lost, i);
    if (!options.honest) plan(dice_.between(10, 300), Kind::stranger_comes, i);
  }
  plan(dice_.between(60, 120), Kind::restart, 0);
}

SimulationReport SimulationRun::go() {
  const auto began = now_;
  while (report_.events < options_.events && report_.broken.empty()) {
    const auto event = events_.top();
    events_.pop();
    now_ = event.at;
    if (ledger_.next_tick() <= now_) read(ledger_.tick(now_));
    happen(event);
    if (!books_.broken().empty()) breaks(books_.broken());
    if (report_.events % options_.full_check_every == 0) check_all();
  }
  check_all();
  report_.virtual_s = seconds_between(began, now_);
  for (std::size_t i = 0; i < kKinds; ++i)
    if (kinds_[i] > 0) report_.counts[name_of(static_cast<Kind>(i))] = kinds_[i];
  for (std::size_t i = 0; i < kChanges; ++i)
    report_.counts[fmt::format("told: {}", to_string(static_cast<Change::What>(i)))] = told_[i];
  report_.used_share =
      samples_ == 0 ? 0
                    : promised_sum_ / static_cast<double>(samples_) / static_cast<double>(memory_);
  return report_;
}

void SimulationRun::breaks(const std::string& what) {
  if (report_.broken.empty()) report_.broken = fmt::format("event {}: {}", report_.events, what);
}

void SimulationRun::check_all() {
  books_.compare(ledger_);
  if (!books_.broken().empty()) breaks(books_.broken());
  if (const auto broken = ledger_.broken_invariant(); !broken.empty()) breaks(broken);
}

void SimulationRun::plan(double after_s, Kind kind, std::size_t who, std::uint64_t turn) {
  events_.push({now_ + std::chrono::duration_cast<Steady::duration>(Seconds(after_s)), ++order_,
                kind, static_cast<std::uint32_t>(who), turn});
}

void SimulationRun::plan_for(std::size_t agent, double after_s, Kind kind) {
  plan(after_s, kind, agent, agents_[agent].turn);
}

void SimulationRun::happen(const Event& event) {
  if (event.kind < Kind::sample) {
    if (event.turn == agents_[event.who].turn) agent_event(event);
    return;
  }
  ++report_.events;
  ++kinds_[static_cast<std::size_t>(event.kind)];
  switch (event.kind) {
    case Kind::sample: return sample(event.who);
    case Kind::sample_arrives: return sample_arrives(event.turn);
    case Kind::gpu_lost: return gpu_lost(event.who);
    case Kind::gpu_back: return gpus_.restore(event.who);
    case Kind::stranger_comes: return stranger_comes(event.who);
    case Kind::stranger_goes: return stranger_goes(event.turn);
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
  books_.read(changes, ledger_, now_);
  for (const auto& change : changes) {
    ++told_[static_cast<std::size_t>(change.what)];
    read_one(change);
  }
}

// What an agent does about what it is told.
void SimulationRun::read_one(const Change& change) {
  const auto at = holder_of_.find(change.lease);
  if (at == holder_of_.end()) return;
  const auto who = at->second;
  auto& agent = agents_[who];
  switch (change.what) {
    case Change::What::granted: return has_lease(who);
    case Change::What::yield_asked:
      if (!agent.nature.is_stubborn) plan_for(who, dice_.between(0.2, 8), Kind::finish);
      return;
    case Change::What::room:
      if (dice_.chance(0.7)) plan_for(who, dice_.between(0, 1), Kind::finish);
      return;
    case Change::What::ended: return lost_lease(who);
    default: return;
  }
}

void SimulationRun::sample(std::size_t card) {
  const bool stalls = !options_.honest && dice_.chance(0.002);  // the driver hangs for a while
  plan(stalls ? dice_.between(5, 40) : 1, Kind::sample, card);
  const bool with_list = options_.honest || ++lists_[card] % 10 == 0;
  ++samples_;
  promised_sum_ += static_cast<double>(books_.promised());
  const auto slot = ++slots_;
  on_the_way_[slot] = {card, gpus_.sample(card, with_list, now_)};
  const double lag = dice_.chance(0.02) ? dice_.between(0.5, 3) : dice_.between(0, 0.02);
  plan(lag, Kind::sample_arrives, card, slot);
}

void SimulationRun::sample_arrives(std::uint64_t slot) {
  const auto at = on_the_way_.find(slot);
  const auto card = std::move(at->second);
  on_the_way_.erase(at);
  tell_books(card.first, card.second);
  read(ledger_.observe({&card.second, 1}, now_));
}

// What the ledger will take in: no sample that was overtaken by a later one.
void SimulationRun::tell_books(std::size_t card, const Card& sample) {
  if (!sample.sampled_at) return;
  books_.sampled(card, *sample.sampled_at);
  if (newest_[card] && *sample.sampled_at < *newest_[card]) return;
  newest_[card] = sample.sampled_at;
  std::map<std::int64_t, std::uint64_t> strangers;
  for (const auto& process : sample.processes)
    if (strangers_now_.contains(process.pid)) strangers[process.pid] = process.bytes.value_or(0);
  books_.listed(card, strangers, now_);
}

void SimulationRun::gpu_lost(std::size_t card) {
  gpus_.lose(card);
  const double away = dice_.between(2, 90);
  plan(away, Kind::gpu_back, card);
  plan(away + dice_.between(100, 2000), Kind::gpu_lost, card);
}

void SimulationRun::stranger_comes(std::size_t card) {
  plan(dice_.between(10, 300), Kind::stranger_comes, card);
  const Holder who{static_cast<std::int64_t>(++next_pid_), next_pid_, -1, 0};
  const auto bytes = gpus_.card(card).total / 100 * dice_.below(16);
  if (!gpus_.set(card, who, bytes)) return;
  strangers_.emplace_back(card, who);
  strangers_now_.insert(who.pid);
  plan(dice_.between(5, 120), Kind::stranger_goes, card, strangers_.size() - 1);
}

void SimulationRun::stranger_goes(std::uint64_t number) {
  const auto& [card, who] = strangers_[number];
  gpus_.process_ends(who);
  strangers_now_.erase(who.pid);
  books_.stranger_left(card, who.pid);
}

// The store has every lease as it was; nothing else survives. Who waited was not answered,
// and asks again (see restored()).
void SimulationRun::restart() {
  plan(dice_.between(300, 1200), Kind::restart, 0);  // waits of many minutes must be seen
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
  policy_.escalate = static_cast<Policy::Escalate>(dice_.below(3));  // the settings may be new
  ledger_ = Ledger(policy_);
  ledger_.restore(std::move(stored), last);
  books_.restarted();
  std::ranges::fill(newest_, std::nullopt);
  check_all();
}

}  // namespace sluice::broker
