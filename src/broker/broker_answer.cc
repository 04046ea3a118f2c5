// A lease as an answer: where it is, what to export, how large a batch fits.
#include "broker/broker_impl.h"

namespace sluice::broker {

namespace {

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

Answer Broker::Impl::describe(const Lease& lease, Instant now) const {
  Answer answer;
  answer.lease = lease;
  answer.verdict = verdict_of(lease.state);
  answer.batch = batch_for(lease);
  if (lease.id != 0 && answer.verdict == Verdict::granted)
    answer.lease.enforcement = tier_of(lease, now);
  add_env(answer);
  return answer;
}

void Broker::Impl::add_refusal(Answer& answer, const Refusal& refusal) const {
  answer.refusal = refusal;
  for (const auto id : refusal.in_the_way)
    if (const auto* other = ledger.find(id)) answer.in_the_way.push_back(*other);
}

void Broker::Impl::add_env(Answer& answer) const {
  std::vector<EnvCard> cards;
  for (const auto& part : answer.lease.parts)
    for (const auto& s : sights)
      if (s.card.uuid == part.uuid) {
        cards.push_back(
            {s.card.uuid, s.card.bus, s.vendor == device::Vendor::nvidia, s.memory_total});
        answer.device_indexes.push_back(s.index);
      }
  const bool has_answer = answer.verdict == Verdict::granted || answer.verdict == Verdict::on_cpu;
  if (has_answer) answer.env = env_for(answer.lease, cards, mps_daemon);
}

BatchSize Broker::Impl::batch_for(const Lease& lease) const {
  BatchQuestion question;
  question.agent = lease.wanted.agent, question.model_type = lease.wanted.model_type;
  if (!lease.parts.empty()) {
    question.lease_bytes = lease.parts.front().bytes;
    for (const auto& s : sights)
      if (s.card.uuid == lease.parts.front().uuid) question.card_bytes = s.memory_total;
  }
  const auto runs = footprints.find({lease.wanted.agent, lease.wanted.model_type});
  if (runs != footprints.end()) question.history = runs->second;
  return batch_size_for(question, gpu);
}

}  // namespace sluice::broker
