#include "broker/ledger/lease_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "broker/lease/idempotency.h"
#include "broker/ledger/placement.h"

namespace sluice::broker {

namespace {

// Removes `id` from an index of several leases for each key.
template <class Index, class Key>
void drop_from(Index& index, const Key& key, LeaseId id) {
  const auto at = index.find(key);
  if (at == index.end()) return;
  std::erase(at->second, id);
  if (at->second.empty()) index.erase(at);
}

// Keys belong to their peer.
std::string keyed_by(const LeaseRequest& request) {
  return request.peer + '\n' + std::string(client_key(request.idempotency_key));
}

std::string broken_parts(const Lease& lease) {
  if (lease.state == State::waiting || lease.state == State::on_cpu)
    return lease.parts.empty() ? "" : on_lease(lease, "holds memory before it was granted");
  if (lease.parts.size() != lease.request.gpus)
    return on_lease(lease, "is not on as many GPUs as requested");
  std::set<std::string> uuids;
  for (const auto& part : lease.parts) {
    if (part.bytes > lease.request.bytes || part.bytes < min_bytes_per_gpu(lease.request))
      return on_lease(lease, "has more or less memory than requested");
    if (part.bytes != lease.parts.front().bytes) return on_lease(lease, "has unlike parts");
    if (!uuids.insert(part.uuid).second) return on_lease(lease, "has two parts on one GPU");
  }
  return {};
}

}  // namespace

std::string on_lease(const Lease& lease, std::string_view problem) {
  return fmt::format("lease {} ({}): {}", lease.id, to_string(lease.state), problem);
}

Entry& LeaseTable::add(Lease&& lease) {
  const auto id = lease.id;
  auto& entry = entries_[id];
  entry.lease = std::move(lease);
  const auto& request = entry.lease.request;
  if (!request.idempotency_key.empty() && entry.lease.state != State::draining)
    by_key_[keyed_by(request)] = id;
  const auto& holder = request.holder;
  if (holder.connection != 0) by_connection_[holder.connection].push_back(id);
  if (holder.pid != 0) by_process_[{holder.pid, holder.start_time}].push_back(id);
  return entry;
}

void LeaseTable::end(Entry& entry) {
  const auto id = entry.lease.id;
  const auto& holder = entry.lease.request.holder;
  if (holder.connection != 0) drop_from(by_connection_, holder.connection, id);
  if (holder.pid != 0) drop_from(by_process_, Process{holder.pid, holder.start_time}, id);
  just_ended_.emplace(id, entries_.extract(id));
}

Entry* LeaseTable::find(LeaseId id) {
  const auto at = entries_.find(id);
  return at == entries_.end() ? nullptr : &at->second;
}

const Entry* LeaseTable::find(LeaseId id) const {
  const auto at = entries_.find(id);
  return at == entries_.end() ? nullptr : &at->second;
}

const Lease* LeaseTable::find_lease(LeaseId id) const {
  if (const auto* entry = find(id)) return &entry->lease;
  const auto ended = just_ended_.find(id);
  return ended == just_ended_.end() ? nullptr : &ended->second.mapped().lease;
}

std::vector<const Lease*> LeaseTable::live() const {
  std::vector<const Lease*> found;
  found.reserve(entries_.size());
  for (const auto& [id, entry] : entries_) found.push_back(&entry.lease);
  std::ranges::sort(found, {}, &Lease::id);
  return found;
}

std::vector<const Lease*> LeaseTable::page(bool on_cpu, LeaseId after, std::size_t limit) const {
  std::vector<const Lease*> found;
  for (const auto& [id, entry] : entries_) {
    const auto state = entry.lease.state;
    if (id > after && state != State::waiting && (state == State::on_cpu) == on_cpu)
      found.push_back(&entry.lease);
  }
  const auto end = found.begin() + static_cast<std::ptrdiff_t>(std::min(limit, found.size()));
  std::ranges::partial_sort(found, end, {}, &Lease::id);
  found.erase(end, found.end());
  return found;
}

std::vector<LeaseId> LeaseTable::bound_to(std::uint64_t connection) const {
  const auto at = by_connection_.find(connection);
  return at == by_connection_.end() ? std::vector<LeaseId>{} : at->second;
}

void LeaseTable::bind(Entry& entry, std::uint64_t connection) {
  auto& bound_to = entry.lease.request.holder.connection;
  if (bound_to != 0) drop_from(by_connection_, bound_to, entry.lease.id);
  bound_to = connection;
  by_connection_[connection].push_back(entry.lease.id);
}

std::vector<LeaseId> LeaseTable::held_by(std::int64_t pid, std::uint64_t start_time) const {
  const auto at = by_process_.find({pid, start_time});
  return at == by_process_.end() ? std::vector<LeaseId>{} : at->second;
}

const Lease* LeaseTable::find_retried(const LeaseRequest& request) const {
  if (request.idempotency_key.empty()) return nullptr;
  const auto at = by_key_.find(keyed_by(request));
  return at == by_key_.end() ? nullptr : &entries_.at(at->second).lease;
}

void LeaseTable::drop_key(const Entry& entry) {
  const auto& request = entry.lease.request;
  if (request.idempotency_key.empty()) return;
  const auto at = by_key_.find(keyed_by(request));
  if (at != by_key_.end() && at->second == entry.lease.id) by_key_.erase(at);
}

std::string LeaseTable::broken_invariant() const {
  for (const auto& [id, entry] : entries_) {
    if (id != entry.lease.id) return fmt::format("lease {} is listed as {}", entry.lease.id, id);
    if (auto problem = broken_parts(entry.lease); !problem.empty()) return problem;
  }
  for (const auto& [key, id] : by_key_) {
    const auto* entry = find(id);
    if (entry == nullptr || entry->lease.state == State::draining)
      return fmt::format("a key is kept for lease {}, which is over", id);
  }
  return {};
}

}  // namespace sluice::broker
