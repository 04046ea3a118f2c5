#include "broker/sampled_cards.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "broker/ledger/placement.h"

namespace sluice::broker {

namespace {

std::uint64_t used_on(const CardSnapshot& card_snapshot, const Holder& holder) {
  std::uint64_t bytes = 0;
  for (const auto& p : card_snapshot.card.processes)
    if (is_holder(holder, p)) bytes += p.bytes.value_or(0);
  return bytes;
}

CardEvidence evidence_on(const CardSnapshot& card_snapshot, const Holder& holder, Instant now,
                         Seconds stale) {
  const auto& card = card_snapshot.card;
  CardEvidence out;
  out.lists_memory = card.processes_at &&
                     seconds_between(*card.processes_at, now) <= 3 * stale.count() * card.slowness;
  for (const auto& p : card.processes) {
    if (!p.bytes) out.lists_memory = false;
    if (is_holder(holder, p)) out.holder_seen = true;
  }
  out.holder_uses_mps = card_snapshot.mps_limits.contains({holder.pid, holder.start_time});
  return out;
}

}  // namespace

bool SampledCards::take_in(std::vector<CardSnapshot> cards, std::uint64_t sequence, bool has_all,
                           bool mps_daemon) {
  if (sequence != 0 && sequence < sequence_) return false;
  cards_ = std::move(cards);
  sequence_ = sequence;
  has_all_ = has_all;
  mps_daemon_ = mps_daemon;
  return true;
}

const CardSnapshot* SampledCards::find(const std::string& uuid) const {
  const auto found =
      std::ranges::find_if(cards_, [&](const CardSnapshot& s) { return s.card.uuid == uuid; });
  return found == cards_.end() ? nullptr : &*found;
}

std::uint64_t SampledCards::memory_for(const Lease& lease) const {
  const auto* card = lease.parts.empty() ? nullptr : find(lease.parts.front().uuid);
  return card == nullptr ? 0 : card->memory_total;
}

std::string SampledCards::uuid_of(const std::string& device) const {
  if (cards_.empty()) return device;
  const auto found = find_card_snapshots(cards_, device);
  if (found.empty() && !has_all_) return device;
  if (found.size() == 1) return found.front()->card.uuid;
  std::string names;
  for (const auto& s : cards_)
    names +=
        fmt::format("{}{} {} ({})", names.empty() ? "" : ", ",
                    s.card.index.empty() ? s.card.bus : s.card.index, s.card.uuid, s.card.name);
  throw Error(Code::invalid_argument,
              fmt::format("device '{}' names {}; there are {}", device,
                          found.empty() ? "no GPU here" : "several GPUs", names));
}

std::optional<device::Timed> SampledCards::used_by(const Lease& lease) const {
  if (lease.request.holder.pid == 0 || lease.parts.empty()) return std::nullopt;
  std::uint64_t bytes = 0;
  Instant oldest = Instant::max();
  for (const auto& part : lease.parts) {
    const auto* card_snapshot = find(part.uuid);
    if (card_snapshot == nullptr || !card_snapshot->card.processes_at) return std::nullopt;
    oldest = std::min(oldest, *card_snapshot->card.processes_at);
    for (const auto& p : card_snapshot->card.processes) {
      if (!is_holder(lease.request.holder, p)) continue;
      if (!p.bytes) return std::nullopt;
      bytes += *p.bytes;
    }
  }
  return device::Timed{static_cast<double>(bytes), oldest};
}

std::optional<Evidence> SampledCards::evidence_for(const Lease& lease, Instant now,
                                                   Seconds stale) const {
  const auto& holder = lease.request.holder;
  const ProcessId id{holder.pid, holder.start_time};
  std::optional<Evidence> seen(std::in_place);
  seen->mps_limit_seen = mps_daemon_ && holder.pid != 0 && !lease.parts.empty();
  for (const auto& part : lease.parts) {
    const auto* card_snapshot = find(part.uuid);
    if (card_snapshot == nullptr) return std::nullopt;
    seen->cards.push_back(evidence_on(*card_snapshot, holder, now, stale));
    const auto limit = card_snapshot->mps_limits.find(id);
    if (limit == card_snapshot->mps_limits.end() || limit->second != mps_limit(lease))
      seen->mps_limit_seen = false;
  }
  return seen;
}

std::vector<DmemLimit> SampledCards::limits_for(const Lease& lease) const {
  std::vector<DmemLimit> limits;
  for (const auto& part : lease.parts) {
    const auto* card_snapshot = find(part.uuid);
    if (card_snapshot == nullptr || card_snapshot->vendor == device::Vendor::nvidia) return {};
    limits.push_back(
        {card_snapshot->card.bus, part.bytes, used_on(*card_snapshot, lease.request.holder)});
  }
  return limits;
}

bool SampledCards::is_on_nvidia(const Lease& lease) const {
  return std::ranges::all_of(lease.parts, [this](const Part& part) {
    const auto* card_snapshot = find(part.uuid);
    return card_snapshot != nullptr && card_snapshot->vendor == device::Vendor::nvidia;
  });
}

}  // namespace sluice::broker
