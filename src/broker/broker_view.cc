// JSON views of the broker: tables of leases and cards, the timeline, events and statistics.
#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "broker/broker_impl.h"
#include "broker/lease_response_json.h"
#include "broker/ledger/place.h"
#include "watch/alert.h"

namespace sluice::broker {

namespace {

using What = Change::What;

struct CardView {
  CardSnapshot card_snapshot;
  CardCapacity capacity;
  std::vector<Promise> promises;
};

bool is_holder_there(const CardView& card, const CardProcess& process) {
  return std::ranges::any_of(card.promises,
                             [&](const Promise& p) { return is_holder(p.holder, process); });
}

// A process may be named by any bytes; JSON is UTF-8.
std::string shown(std::string text) {
  if (first_invalid_utf8(text))
    std::ranges::replace_if(
        text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }, '?');
  return text;
}

Json process_json(const CardProcess& p) {
  Json json{{"pid", p.pid}, {"name", shown(p.name)}, {"user", shown(p.user)}};
  json["memory_gb"] = p.bytes ? Json(gb(*p.bytes)) : Json();
  return json;
}

Json card_json(const CardView& view, const Moment& at) {
  const auto& card = view.card_snapshot.card;
  Json json{{"gpu_uuid", card.uuid},
            {"gpu_device", view.card_snapshot.index ? Json(*view.card_snapshot.index) : Json()},
            {"bus", card.bus},
            {"name", card.name},
            {"memory_gb", gb(view.card_snapshot.memory_total)},
            {"total_gb", gb(card.total)},
            {"free_gb", gb(view.capacity.free)},
            {"promised_gb", gb(view.capacity.promised)},
            {"used_gb", card.sampled_at ? Json(gb(card.used)) : Json()},
            {"unmanaged_gb", gb(view.capacity.unmanaged)},
            {"usable", card.usable},
            {"why", view.capacity.why.empty() ? card.why_unusable : view.capacity.why}};
  if (card.sampled_at)
    json["sample_age_s"] = thousandths(seconds_between(*card.sampled_at, at.now));
  if (card.processes_at)
    json["processes_age_s"] = thousandths(seconds_between(*card.processes_at, at.now));
  json["unmanaged"] = Json::array();
  for (const auto& p : card.processes)
    if (!is_holder_there(view, p)) json["unmanaged"].push_back(process_json(p));
  return json;
}

Json timeline_row(const Lease& l, const Moment& at) {
  const auto ms = [&](Instant t) {
    return t == Instant{} ? Json() : Json(unix_ms(wall_of(t, at)));
  };
  auto json = lease_json(l, at);
  json["requested_ms"] = ms(l.requested_at);
  json["granted_ms"] = ms(l.granted_at);
  json["ended_ms"] = ms(l.ended_at);
  return json;
}

// A page of leases_json(), copied under the lock.
struct Live {
  Lease lease;
  std::optional<device::Timed> used;
};
struct Listed {
  std::vector<Live> leases, on_cpu;
  std::vector<Lease> waiting, recent;
  std::vector<CardView> cards;
  Ledger::Counts counts{};
  LeasePage next;
  Moment at{};
};

// The leases of one page; moves `after` to the beginning of the next page.
std::vector<Live> live_page(const Ledger& ledger, std::span<const CardSnapshot> card_snapshots,
                            bool on_cpu, std::uint64_t& after, std::size_t limit) {
  std::vector<Live> found;
  if (after == LeasePage::kDone) return found;
  for (const auto* l : ledger.page(on_cpu, after, limit))
    found.push_back({*l, used_by(*l, card_snapshots)});
  after = found.size() < limit ? LeasePage::kDone : found.back().lease.id;
  return found;
}

std::vector<Lease> waiting_page(const Ledger& ledger, std::uint64_t& skip, std::size_t limit) {
  std::vector<Lease> found;
  if (skip == LeasePage::kDone) return found;
  const auto all = ledger.waiting();
  for (auto i = skip; i < all.size() && found.size() < limit; ++i) found.push_back(*all[i]);
  skip = found.size() < limit ? LeasePage::kDone : skip + found.size();
  return found;
}

Listed list_page(const Ledger& ledger, std::span<const CardSnapshot> card_snapshots,
                 const LeasePage& page, const Moment& at) {
  Listed out;
  out.at = at, out.next = page, out.counts = ledger.count();
  out.leases = live_page(ledger, card_snapshots, false, out.next.after, page.limit);
  out.on_cpu = live_page(ledger, card_snapshots, true, out.next.cpu_after, page.limit);
  out.waiting = waiting_page(ledger, out.next.skip_waiting, page.limit);
  if (page.is_first())
    for (const auto& s : card_snapshots)
      out.cards.push_back({s, ledger.capacity(s.card.uuid, at.now), ledger.promises(s.card.uuid)});
  return out;
}

struct EventName {
  std::string_view type;
  std::string_view bytes = "";  // what `bytes` of the change are
};
EventName name_of(What what) {
  switch (what) {
    case What::queued: return {"lease_queued"};
    case What::granted: return {"lease_granted"};
    case What::renewed: return {"lease_renewed"};
    case What::yield_requested: return {"lease_yield"};
    case What::yield_withdrawn: return {"lease_yield_withdrawn"};
    case What::yield_overdue: return {"lease_yield_overdue"};
    case What::ended: return {"lease_ended"};
    case What::drained: return {"lease_drained", "retained_gb"};
    case What::over_use: return {"lease_over_use", "used_gb"};
    case What::within_again: return {"lease_within_again", "used_gb"};
    case What::preempted: return {"lease_preempted"};
    case What::terminate: return {"lease_terminate"};
    case What::card_lost: return {"lease_gpu_lost"};
    case What::card_back: return {"lease_gpu_back"};
    case What::sent_to_cpu: return {"lease_on_cpu"};
    case What::capacity: return {"lease_capacity"};
  }
  return {"lease_changed"};
}

}  // namespace

Json lease_json(const Lease& lease, const Moment& at) {
  const auto& w = lease.request;
  Json json{{"lease_id", std::to_string(lease.id)},
            {"agent", w.agent},
            {"state", to_string(lease.state)},
            {"priority", to_string(w.priority)},
            {"model_type", w.model_type},
            {"requested_gb", gb(w.bytes)},
            {"memory_gb", gb(promised(lease))},
            {"enforcement", to_string(lease.enforcement)},
            {"reason", lease.reason}};
  if (lease.ending != EndReason::none) json["end_reason"] = to_string(lease.ending);
  json["gpus"] = Json::array();
  for (const auto& part : lease.parts)
    json["gpus"].push_back({{"gpu_uuid", part.uuid}, {"memory_gb", gb(part.bytes)}});
  if (w.holder.pid != 0) json["pid"] = w.holder.pid;
  if (w.holder.uid >= 0) json["uid"] = w.holder.uid;
  put_past(json, "requested", lease.requested_at, at);
  put_past(json, "granted", lease.granted_at, at);
  if (lease.ended_at == Instant{}) put_future(json, "expires", lease.expires_at, at);
  put_trouble(json, lease, at);
  put_past(json, "ended", lease.ended_at, at);
  put_yield_cost(json, lease);
  return json;
}

BrokerEvent event_of(const PendingEvent& reported) {
  const auto name = name_of(reported.change.what);
  Json json{{"type", name.type}, {"time", watch::iso_time(reported.at.wall)}};
  json.update(lease_json(reported.lease, reported.at));
  if (!reported.change.reason.empty()) json["reason"] = reported.change.reason;
  if (!reported.change.uuid.empty()) json["gpu_uuid"] = reported.change.uuid;
  if (!name.bytes.empty()) json[std::string(name.bytes)] = gb(reported.change.bytes);
  return {std::string(name.type), reported.lease.id,
          json.dump(-1, ' ', false, Json::error_handler_t::replace), reported.lease.request.peer,
          reported.change.is_own};
}

Json Broker::leases_json(const LeasePage& page) const {
  Listed shown;
  {
    const Lock lock(impl_->mutex);
    shown = list_page(impl_->ledger, impl_->card_snapshots, page, impl_->moment());
    if (page.is_first()) shown.recent.assign(impl_->recent.rbegin(), impl_->recent.rend());
  }
  Json json{{"leases", Json::array()},
            {"waiting", Json::array()},
            {"on_cpu", Json::array()},
            {"cards", Json::array()},
            {"recent", Json::array()}};
  for (const auto& [name, list] : {std::pair{"leases", &shown.leases}, {"on_cpu", &shown.on_cpu}})
    for (const auto& [lease, used] : *list) {
      auto one = lease_json(lease, shown.at);
      if (used) one["used_gb"] = gb(static_cast<std::uint64_t>(used->value));
      json[name].push_back(std::move(one));
    }
  for (const auto& lease : shown.waiting) json["waiting"].push_back(lease_json(lease, shown.at));
  for (const auto& card : shown.cards) json["cards"].push_back(card_json(card, shown.at));
  for (const auto& lease : shown.recent) json["recent"].push_back(lease_json(lease, shown.at));
  json["counts"] = {{"leases", shown.counts.leases},
                    {"waiting", shown.counts.waiting},
                    {"on_cpu", shown.counts.on_cpu}};
  json["next"] = shown.next.is_last() ? Json() : Json(cursor_of(shown.next));
  return json;
}

Json Broker::timeline_json(std::int64_t from_ms, std::int64_t to_ms, std::size_t limit,
                           LeaseId before) const {
  require(from_ms <= to_ms, "the timeline ends before it begins: from is after to");
  const auto at = impl_->moment();
  const auto past = impl_->store.between(from_ms, to_ms, limit, at, before);
  Json json{{"from_ms", from_ms},
            {"to_ms", to_ms},
            {"truncated", past.leases.size() + past.damaged >= limit},
            {"damaged", past.damaged},
            {"leases", Json::array()}};
  for (const auto& lease : past.leases) json["leases"].push_back(timeline_row(lease, at));
  if (json["truncated"] && past.first != 0) json["next"] = std::to_string(past.first);
  return json;
}

Broker::StoreState Broker::store_state() const {
  auto damage = impl_->store.damage();
  const Lock lock(impl_->mutex);
  return {std::move(damage), impl_->store_trouble};
}

Broker::Stats Broker::stats() const {
  const Lock lock(impl_->mutex);
  auto stats = impl_->stats;
  for (const auto* lease : impl_->ledger.live()) {
    if (lease->state == State::waiting) ++stats.waiting;
    if (lease->state == State::on_cpu) ++stats.on_cpu;
    if (lease->state != State::held && lease->state != State::yielding) continue;
    ++stats.held;
    ++stats.held_by_tier[static_cast<std::size_t>(lease->enforcement)];
  }
  stats.grant_p50_s = impl_->latencies.percentile(0.5);
  stats.grant_p99_s = impl_->latencies.percentile(0.99);
  return stats;
}

}  // namespace sluice::broker
