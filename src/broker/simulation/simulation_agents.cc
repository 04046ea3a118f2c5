// The agents of the simulation.
#include <algorithm>

#include "broker/simulation/simulation_run.h"

namespace sluice::broker {

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

// Many small ones and a few large.
std::uint64_t some_bytes(Rng& rng) {
  const double r = rng.share();
  if (r < 0.80) return (32 + rng.below(480)) * kMiB;
  if (r < 0.98) return (512 + rng.below(2048)) * kMiB;
  if (r < 0.998) return (2048 + rng.below(16384)) * kMiB;
  return (16384 + rng.below(65536)) * kMiB;
}

// A size that can be granted on that many GPUs while unmanaged processes come and go.
std::uint64_t sensible(const SimulationGpus& gpus, const LeaseRequest& request) {
  std::vector<std::uint64_t> totals;
  for (std::size_t i = 0; i < gpus.size(); ++i)
    if (may_use(request, gpus.card(i))) totals.push_back(gpus.card(i).total);
  std::ranges::sort(totals, std::greater<>());
  return totals[std::min<std::size_t>(request.gpus, totals.size()) - 1] / 10 * 7;
}

}  // namespace

AgentBehavior SimulationRun::random_behavior() {
  AgentBehavior behavior;
  behavior.crashes = rng_.chance(0.1);
  behavior.forgets = rng_.chance(0.1);
  behavior.is_stubborn = rng_.chance(0.15);
  behavior.is_bound = rng_.chance(0.1);
  if (options_.honest) return behavior;
  behavior.over_uses = rng_.chance(0.05);
  behavior.is_anonymous = rng_.chance(0.3);
  behavior.is_idle = rng_.chance(0.2);
  return behavior;
}

void SimulationRun::restart_process(SimulatedAgent& agent) {
  agent.process = {static_cast<std::int64_t>(++next_pid_), next_pid_, 1000,
                   agent.behavior.is_bound ? next_pid_ : 0};
}

LeaseRequest SimulationRun::random_request(SimulatedAgent& agent) {
  LeaseRequest request;
  request.agent = agent.name;
  request.priority = agent.priority;
  if (rng_.chance(0.03)) request.gpus = 2 + static_cast<unsigned>(rng_.below(2));
  if (request.gpus == 1 && rng_.chance(0.05))
    request.device = gpus_.card(rng_.below(gpus_.size())).uuid;
  request.bytes = std::min(some_bytes(rng_), sensible(gpus_, request));
  if (rng_.chance(0.001)) request.bytes = 1ull << 40;  // no card is that large
  if (rng_.chance(0.1)) request.min_bytes = std::max<std::uint64_t>(1, request.bytes / 3);
  if (rng_.chance(0.2)) request.placement = PlacementPolicy::spread;
  request.ttl = Seconds(rng_.between(8, 30));
  const double r = rng_.share();
  request.on_unavailable = r < 0.7    ? OnUnavailable::wait
                           : r < 0.85 ? OnUnavailable::cpu
                                      : OnUnavailable::fail;
  request.wait = Seconds(rng_.chance(0.7) ? 86400 : rng_.between(5, 120));
  request.holder = agent.process;
  if (agent.behavior.is_anonymous) request.holder.pid = 0, request.holder.start_time = 0;
  return request;
}

void SimulationRun::ask(std::size_t who) {
  auto& agent = agents_[who];
  ++agent.generation;
  agent.secret = rng_.roll();
  agent.renewals = 0;
  agent.lease = 0;
  Changes changes;
  const auto response = ledger_.request(random_request(agent), agent.secret, now_, changes);
  if (response.id == 0) {
    plan_for(who, rng_.between(5, 40), Kind::ask);
    return read(changes);
  }
  agent.lease = response.id;
  holder_of_[response.id] = who;
  agent.works_s = rng_.between(2, 40);
  if (response.verdict == Verdict::on_cpu) {
    plan_for(who, ledger_.find(response.id)->request.ttl.count() / 3, Kind::renew);
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
  plan_for(who, rng_.between(0, 1.5), Kind::allocate);
  if (agent.behavior.crashes && rng_.chance(0.3))
    plan_for(who, rng_.between(0, agent.works_s), Kind::crash);
  if (agent.behavior.forgets && rng_.chance(0.3)) return;
  plan_for(who, lease.request.ttl.count() / 3, Kind::renew);
  plan_for(who, agent.works_s, Kind::finish);
}

void SimulationRun::allocate(std::size_t who) {
  auto& agent = agents_[who];
  if (agent.behavior.is_idle) return;
  for (const auto& [card, bytes] : agent.promised) {
    const auto used = agent.behavior.over_uses ? bytes + bytes / 3 : bytes;
    if (gpus_.set(card, agent.process, used)) continue;
    ++report_.counts["out of memory"];
    if (options_.honest) breaks("a lease was granted and there was no memory for it");
  }
}

void SimulationRun::renew(std::size_t who) {
  auto& agent = agents_[who];
  if (rng_.chance(0.01)) {  // the response was lost, and it is sent again
    Changes none;
    if (ledger_.renew(agent.lease, agent.secret, agent.renewals + 1, now_, none) !=
            Ledger::Outcome::stale ||
        !none.empty())
      breaks("a renewal with a wrong number was accepted");
  }
  Changes changes;
  const auto outcome = ledger_.renew(agent.lease, agent.secret, agent.renewals, now_, changes);
  read(changes);
  accounting_.renewed(agent.lease, outcome, now_);
  if (outcome != Ledger::Outcome::done) return;
  ++agent.renewals;
  plan_for(who, ledger_.find(agent.lease)->request.ttl.count() * rng_.between(0.25, 0.5),
           Kind::renew);
}

void SimulationRun::finish(std::size_t who) {
  auto& agent = agents_[who];
  Changes changes;
  if (agent.behavior.is_bound) {
    changes = ledger_.connection_closed(agent.process.connection, now_);
  } else if (ledger_.release(agent.lease, agent.secret, now_, changes) != Ledger::Outcome::done) {
    breaks("a lease was lost: its holder could not release it");
  }
  read(changes);
}

// Handles the end of a lease for any reason; the memory is freed a little later.
void SimulationRun::lost_lease(std::size_t who) {
  auto& agent = agents_[who];
  holder_of_.erase(agent.lease);
  ++agent.generation;
  if (agent.behavior.is_bound) agent.process.connection = ++next_pid_;
  plan_for(who, agent.behavior.forgets ? rng_.between(0, 20) : rng_.between(0, 1.5), Kind::let_go);
}

void SimulationRun::let_go(std::size_t who) {
  auto& agent = agents_[who];
  for (const auto& [card, bytes] : agent.promised) gpus_.set(card, agent.process, 0);
  agent.promised.clear();
  agent.lease = 0;
  plan_for(who, rng_.between(1, 40), Kind::ask);
}

void SimulationRun::crash(std::size_t who) {
  auto& agent = agents_[who];
  ++agent.generation;
  gpus_.process_ends(agent.process);
  agent.promised.clear();
  plan_for(who, rng_.between(0.05, 2), Kind::death_noticed);
}

void SimulationRun::death_noticed(std::size_t who) {
  auto& agent = agents_[who];
  const auto process = agent.process;
  const auto lease = agent.lease;
  holder_of_.erase(lease);  // its process is gone
  ++agent.generation;
  restart_process(agent);
  plan_for(who, rng_.between(1, 40), Kind::ask);
  Changes changes;
  if (process.connection != 0) changes = ledger_.connection_closed(process.connection, now_);
  if (!agent.behavior.is_anonymous) {
    auto more = ledger_.holder_died(process.pid, process.start_time, now_);
    changes.insert(changes.end(), std::make_move_iterator(more.begin()),
                   std::make_move_iterator(more.end()));
  }
  read(changes);
  if (!agent.behavior.is_anonymous && accounting_.is_live(lease))
    breaks("a lease outlived its holder");
}

}  // namespace sluice::broker
