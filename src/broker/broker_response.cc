// A lease as a response: where it is, what to export, how large a batch fits; and what its
// holder reports of batches.
#include <fmt/core.h>

#include "base/error.h"
#include "base/units.h"
#include "broker/broker_impl.h"

namespace sluice::broker {

namespace {

constexpr std::size_t kRunsKept = 32;               // of an agent and model type
constexpr std::size_t kMaxFootprintsPerPeer = 256;  // agents and model types that runs are kept of
constexpr std::uint64_t kMaxPeakBytes = 64ull << 40;
constexpr std::int64_t kMaxBatchSize = 1'000'000'000;

// The footprint to evict for a new one of this peer: its own oldest or, when there are too many of
// all peers, the oldest of the peer with the most.
Footprints::iterator one_too_many(Footprints& all, const std::string& peer) {
  std::map<std::string, std::size_t> counts;
  for (const auto& [key, runs] : all) ++counts[key.peer];
  const auto own = counts.find(peer);
  const bool is_full = own != counts.end() && own->second >= kMaxFootprintsPerPeer;
  if (!is_full && all.size() < kMaxFootprints) return all.end();
  const auto largest =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
        return a.second < b.second;
      })->first;
  auto oldest = all.end();
  for (auto at = all.begin(); at != all.end(); ++at)
    if (at->first.peer == (is_full ? peer : largest) &&
        (oldest == all.end() || at->second.at_ms < oldest->second.at_ms))
      oldest = at;
  return oldest;
}

Verdict verdict_of(State state) {
  switch (state) {
    case State::held:
    case State::yielding: return Verdict::granted;
    case State::waiting: return Verdict::waiting;
    case State::on_cpu: return Verdict::on_cpu;
    default: return Verdict::refused;  // over; lease.state says so
  }
}

}  // namespace

LeaseResponse Broker::Impl::describe(const Lease& lease, Instant now) const {
  LeaseResponse response;
  response.lease = lease;
  response.verdict = verdict_of(lease.state);
  response.batch = batch_for(lease);
  if (lease.id != 0 && response.verdict == Verdict::granted)
    response.lease.enforcement = tier_of(lease, now);
  add_env(response);
  return response;
}

void Broker::Impl::add_refusal(LeaseResponse& response, const Refusal& refusal) const {
  response.refusal = refusal;
  for (const auto id : refusal.blocked_by)
    if (const auto* other = ledger.find(id)) response.blocked_by.push_back(*other);
}

void Broker::Impl::add_env(LeaseResponse& response) const {
  std::vector<EnvCard> cards;
  for (const auto& part : response.lease.parts)
    for (const auto& s : card_snapshots)
      if (s.card.uuid == part.uuid) {
        cards.push_back(
            {s.card.uuid, s.card.bus, s.vendor == device::Vendor::nvidia, s.memory_total});
        if (s.index) response.device_indexes.push_back(*s.index);
      }
  const bool has_answer =
      response.verdict == Verdict::granted || response.verdict == Verdict::on_cpu;
  if (has_answer) response.env = env_for(response.lease, cards, mps_daemon);
}

BatchSize Broker::Impl::batch_for(const Lease& lease) const {
  BatchSizeQuery question;
  question.agent = lease.request.agent, question.model_type = lease.request.model_type;
  if (!lease.parts.empty()) {
    question.lease_bytes = lease.parts.front().bytes;
    for (const auto& s : card_snapshots)
      if (s.card.uuid == lease.parts.front().uuid) question.card_bytes = s.memory_total;
  }
  const auto& w = lease.request;
  if (!footprints.empty())
    if (const auto known = footprints.find({w.peer, w.agent, w.model_type});
        known != footprints.end())
      question.history = known->second.runs;
  for (const auto* name : {&question.model_type, &question.agent})
    if (const auto plan = options.plans.find(*name); plan != options.plans.end() && !question.plan)
      question.plan = plan->second;
  return batch_size_for(question, gpu);
}

// Throws unless the token is the present one of a lease in force.
Lease Broker::Impl::lease_of(const Token& token) {
  const auto at = moment();
  Changes changes;
  const auto outcome = ledger.verify(token.id, token.secret, token.renewals, at.now, changes);
  const auto lease = outcome == Ledger::Outcome::done ? *ledger.find(token.id) : Lease{};
  take(changes, at);
  if (outcome != Ledger::Outcome::done) throw lease_error(outcome, token, at);
  return lease;
}

// With what it leaves out: a run that ran out of memory had the advised batch, and the lease.
UsageReport Broker::Impl::completed(UsageReport usage, const Lease& lease) const {
  require(!lease.parts.empty(), "this lease holds no GPU memory: only runs on a GPU are reported");
  auto limit = kMaxPeakBytes;
  for (const auto& s : card_snapshots)
    if (s.card.uuid == lease.parts.front().uuid && s.memory_total > 0) limit = s.memory_total;
  require(usage.peak_bytes <= limit,
          fmt::format("peak memory is {}, and its GPU has {}", human_bytes(usage.peak_bytes),
                      human_bytes(limit)));
  require(usage.peak_bytes > 0 || usage.out_of_memory,
          "peak memory is missing: a run that did not run out of memory took some");
  if (usage.batch_size == 0 && usage.out_of_memory) usage.batch_size = batch_for(lease).size;
  require(usage.batch_size >= 1 && usage.batch_size <= kMaxBatchSize,
          fmt::format("batch_size may be 1 to {}", kMaxBatchSize));
  if (usage.peak_bytes == 0) usage.peak_bytes = lease.parts.front().bytes;
  return usage;
}

void Broker::report(const Token& token, const UsageReport& usage) {
  const Lock lock(impl_->mutex);
  impl_->require_store();
  const auto lease = impl_->lease_of(token);
  const auto run = impl_->completed(usage, lease);
  const FootprintKey key{lease.request.peer, lease.request.agent, lease.request.model_type};
  auto& all = impl_->footprints;
  const auto known = all.find(key);
  const bool is_new = known == all.end();
  auto runs = is_new ? std::vector<Footprint>{} : known->second.runs;
  runs.push_back({run.batch_size, run.peak_bytes, run.out_of_memory});
  if (runs.size() > kRunsKept) runs.erase(runs.begin());
  const auto at = impl_->moment();
  const auto oldest = is_new ? one_too_many(all, key.peer) : all.end();
  try {
    impl_->store.write(key, runs, at, oldest == all.end() ? nullptr : &oldest->first);
  } catch (const Error& e) {
    throw StoreUnavailable(fmt::format("reports cannot be stored now: {}", e.reason()));
  }
  if (oldest != all.end()) all.erase(oldest);
  all[key] = {std::move(runs), unix_ms(at.wall)};
}

}  // namespace sluice::broker
