#include "broker/lease_list_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/utf8.h"
#include "broker/lease_response_json.h"
#include "broker/ledger/placement.h"

namespace sluice::broker {

namespace {

bool is_holder_there(const LeaseList::CardView& card, const CardProcess& process) {
  return std::ranges::any_of(card.promises,
                             [&](const Promise& p) { return is_holder(p.holder, process); });
}

// A process may be named by any bytes; JSON is UTF-8.
std::string shown_text(std::string text) {
  if (first_invalid_utf8(text))
    std::ranges::replace_if(
        text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }, '?');
  return text;
}

Json process_json(const CardProcess& p) {
  Json json{{"pid", p.pid}, {"name", shown_text(p.name)}, {"user", shown_text(p.user)}};
  json["memory_gb"] = p.bytes ? Json(gb(*p.bytes)) : Json();
  return json;
}

Json card_json(const LeaseList::CardView& view, const Moment& at) {
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

// The leases of one page; moves `after` to the beginning of the next page.
std::vector<LeaseList::Live> live_page(const Ledger& ledger, const SampledCards& cards, bool on_cpu,
                                       std::uint64_t& after, std::size_t limit) {
  std::vector<LeaseList::Live> found;
  if (after == LeasePage::kDone) return found;
  for (const auto* l : ledger.page(on_cpu, after, limit)) found.push_back({*l, cards.used_by(*l)});
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

}  // namespace

LeaseList list_leases(const Ledger& ledger, const SampledCards& cards,
                      const std::deque<Lease>& recent, const LeasePage& page, const Moment& at) {
  LeaseList out;
  out.at = at, out.next = page, out.counts = ledger.count();
  out.leases = live_page(ledger, cards, false, out.next.after, page.limit);
  out.on_cpu = live_page(ledger, cards, true, out.next.cpu_after, page.limit);
  out.waiting = waiting_page(ledger, out.next.skip_waiting, page.limit);
  if (!page.is_first()) return out;
  for (const auto& s : cards.all())
    out.cards.push_back({s, ledger.capacity(s.card.uuid, at.now), ledger.promises(s.card.uuid)});
  out.recent.assign(recent.rbegin(), recent.rend());
  return out;
}

Json to_json(const LeaseList& list) {
  Json json{{"leases", Json::array()},
            {"waiting", Json::array()},
            {"on_cpu", Json::array()},
            {"cards", Json::array()},
            {"recent", Json::array()}};
  for (const auto& [name, leases] : {std::pair{"leases", &list.leases}, {"on_cpu", &list.on_cpu}})
    for (const auto& [lease, used] : *leases) {
      auto one = lease_json(lease, list.at);
      if (used) one["used_gb"] = gb(static_cast<std::uint64_t>(used->value));
      json[name].push_back(std::move(one));
    }
  for (const auto& lease : list.waiting) json["waiting"].push_back(lease_json(lease, list.at));
  for (const auto& card : list.cards) json["cards"].push_back(card_json(card, list.at));
  for (const auto& lease : list.recent) json["recent"].push_back(lease_json(lease, list.at));
  json["counts"] = {{"leases", list.counts.leases},
                    {"waiting", list.counts.waiting},
                    {"on_cpu", list.counts.on_cpu}};
  json["next"] = list.next.is_last() ? Json() : Json(cursor_of(list.next));
  return json;
}

Json timeline_json(const Store::Past& past, std::int64_t from_ms, std::int64_t to_ms,
                   std::size_t limit, const Moment& at) {
  Json json{{"from_ms", from_ms},
            {"to_ms", to_ms},
            {"truncated", past.leases.size() + past.damaged >= limit},
            {"damaged", past.damaged},
            {"leases", Json::array()}};
  for (const auto& lease : past.leases) json["leases"].push_back(timeline_row(lease, at));
  if (json["truncated"] && past.first != 0) json["next"] = std::to_string(past.first);
  return json;
}

}  // namespace sluice::broker
