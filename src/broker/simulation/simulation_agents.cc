// What the agents of the simulation do.
#include <algorithm>

#include "broker/simulation/simulation_run.h"

namespace sluice::broker {

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

// Many small ones and a few large.
std::uint64_t some_bytes(Dice& dice) {
  const double r = dice.share();
  if (r < 0.80) return (32 + dice.below(480)) * kMiB;
  if (r < 0.98) return (512 + dice.below(2048)) * kMiB;
  if (r < 0.998) return (2048 + dice.below(16384)) * kMiB;
  return (16384 + dice.below(65536)) * kMiB;
}

// As much as can be had while strangers come and go, on as many GPUs as that.
std::uint64_t sensible(const SimulationGpus& gpus, const Wanted& wanted) {
  std::vector<std::uint64_t> totals;
  for (std::size_t i = 0; i < gpus.size(); ++i)
    if (may_use(wanted, gpus.card(i))) totals.push_back(gpus.card(i).total);
  std::ranges::sort(totals, std::greater<>());
  return totals[std::min<std::size_t>(wanted.gpus, totals.size()) - 1] / 10 * 7;
}

}  // namespace

Nature SimulationRun::some_nature() {
  Nature nature;
  nature.crashes = dice_.chance(0.1);
  nature.forgets = dice_.chance(0.1);
  nature.is_stubborn = dice_.chance(0.15);
  nature.is_bound = dice_.chance(0.1);
  if (options_.honest) return nature;
  nature.over_uses = dice_.chance(0.05);
  nature.is_anonymous = dice_.chance(0.3);
  nature.is_idle = dice_.chance(0.2);
  return nature;
}

void SimulationRun::reborn(SimulatedAgent& agent) {
  agent.process = {static_cast<std::int64_t>(++next_pid_), next_pid_, 1000,
                   agent.nature.is_bound ? next_pid_ : 0};
}

Wanted SimulationRun::some_wish(SimulatedAgent& agent) {
  Wanted wanted;
  wanted.agent = agent.name;
  wanted.priority = agent.priority;
  if (dice_.chance(0.03)) wanted.gpus = 2 + static_cast<unsigned>(dice_.below(2));
  if (wanted.gpus == 1 && dice_.chance(0.05))
    wanted.device = gpus_.card(dice_.below(gpus_.size())).uuid;
  wanted.bytes = std::min(some_bytes(dice_), sensible(gpus_, wanted));
  if (dice_.chance(0.001)) wanted.bytes = 1ull << 40;  // no card is that large
  if (dice_.chance(0.1)) wanted.min_bytes = std::max<std::uint64_t>(1, wanted.bytes / 3);
  if (dice_.chance(0.2)) wanted.spread = Spread::spread;
  wanted.ttl = Seconds(dice_.between(8, 30));
  const double r = dice_.share();
  wanted.on_unavailable = r < 0.7    ? OnUnavailable::wait
                          : r < 0.85 ? OnUnavailable::cpu
                                     : OnUnavailable::fail;
  wanted.wait = Seconds(dice_.chance(0.7) ? 86400 : dice_.between(5, 120));
  wanted.holder = agent.process;
  if (agent.nature.is_anonymous) wanted.holder.pid = 0, wanted.holder.start_time = 0;
  return wanted;
}

void SimulationRun::ask(std::size_t who) {
  auto& agent = agents_[who];
  ++agent.turn;
  agent.secret = dice_.roll();
  agent.renewals = 0;
  agent.lease = 0;
  Changes changes;
  const auto answer = ledger_.request(some_wish(agent), agent.secret, now_, changes);
  if (answer.id == 0) {
    plan_for(who, dice_.between(5, 40), Kind::ask);
    return read(changes);
  }
  agent.lease = answer.id;
  holder_of_[answer.id] = who;
  agent.works_s = dice_.between(2, 40);
  if (answer.verdict == Verdict::on_cpu) {
    plan_for(who, ledger_.find(answer.id)->wanted.ttl.count() / 3, Kind::renew);
    plan_for(who, agent.works_s, Kind::finish);
  }
  read(changes);
}

void SimulationRun::has_lease(std::size_t who) {
  auto& agent = agents_[who];
  const auto& lease = *ledger_.find(agent.lease);
  agent.promised.clear();
  for (const auto& part : lease.parts)
    agent.promised.emplace_back(gpus_.index(part.uuid), part.bytes);
  plan_for(who, dice_.between(0, 1.5), Kind::allocate);
  if (agent.nature.crashes && dice_.chance(0.3))
    plan_for(who, dice_.between(0, agent.works_s), Kind::crash);
  if (agent.nature.forgets && dice_.chance(0.3)) return;
  plan_for(who, lease.wanted.ttl.count() / 3, Kind::renew);
  plan_for(who, agent.works_s, Kind::finish);
}

void SimulationRun::allocate(std::size_t who) {
  auto& agent = agents_[who];
  if (agent.nature.is_idle) return;
  for (const auto& [card, bytes] : agent.promised) {
    const auto wanted = agent.nature.over_uses ? bytes + bytes / 3 : bytes;
    if (gpus_.set(card, agent.process, wanted)) continue;
    ++report_.counts["out of memory"];
    if (options_.honest) breaks("a lease was granted and there was no memory for it");
  }
}

void SimulationRun::renew(std::size_t who) {
  auto& agent = agents_[who];
  if (dice_.chance(0.01)) {  // the answer was lost, and it is sent again
    Changes none;
    if (ledger_.renew(agent.lease, agent.secret, agent.renewals + 1, now_, none) !=
            Ledger::Outcome::stale ||
        !none.empty())
      breaks("a renewal with a wrong number was accepted");
  }
  Changes changes;
  const auto outcome = ledger_.renew(agent.lease, agent.secret, agent.renewals, now_, changes);
  read(changes);
  books_.renewed(agent.lease, outcome, now_);
  if (outcome != Ledger::Outcome::done) return;
  ++agent.renewals;
  plan_for(who, ledger_.find(agent.lease)->wanted.ttl.count() * dice_.between(0.25, 0.5),
           Kind::renew);
}

void SimulationRun::finish(std::size_t who) {
  auto& agent = agents_[who];
  Changes changes;
  if (agent.nature.is_bound) {
    changes = ledger_.connection_closed(agent.process.connection, now_);
  } else if (ledger_.release(agent.lease, agent.secret, now_, changes) != Ledger::Outcome::done) {
    breaks("a lease was lost: its holder could not release it");
  }
  read(changes);
}

// By whatever cause; the memory follows a little later.
void SimulationRun::lost_lease(std::size_t who) {
  auto& agent = agents_[who];
  holder_of_.erase(agent.lease);
  ++agent.turn;
  if (agent.nature.is_bound) agent.process.connection = ++next_pid_;
  plan_for(who, agent.nature.forgets ? dice_.between(0, 20) : dice_.between(0, 1.5), Kind::let_go);
}

void SimulationRun::let_go(std::size_t who) {
  auto& agent = agents_[who];
  for (const auto& [card, bytes] : agent.promised) gpus_.set(card, agent.process, 0);
  agent.promised.clear();
  agent.lease = 0;
  plan_for(who, dice_.between(1, 40), Kind::ask);
}

void SimulationRun::crash(std::size_t who) {
  auto& agent = agents_[who];
  ++agent.turn;
  gpus_.process_ends(agent.process);
  agent.promised.clear();
  plan_for(who, dice_.between(0.05, 2), Kind::death_noticed);
}

void SimulationRun::death_noticed(std::size_t who) {
  auto& agent = agents_[who];
  const auto process = agent.process;
  const auto lease = agent.lease;
  holder_of_.erase(lease);  // nobody is left to hear of it
  ++agent.turn;
  reborn(agent);
  plan_for(who, dice_.between(1, 40), Kind::ask);
  Changes changes;
  if (process.connection != 0) changes = ledger_.connection_closed(process.connection, now_);
  if (!agent.nature.is_anonymous) {
    auto more = ledger_.holder_died(process.pid, process.start_time, now_);
    changes.insert(changes.end(), std::make_move_iterator(more.begin()),
                   std::make_move_iterator(more.end()));
  }
  read(changes);
  if (!agent.nature.is_anonymous && books_.is_live(lease)) breaks("a lease outlived its holder");
}

}  // namespace sluice::broker
