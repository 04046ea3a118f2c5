// The leases of the ledger by number, and by what else they are found by: the connection, the
// process and the idempotency key. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "broker/ledger/entry.h"

namespace sluice::broker {

class LeaseTable {
 public:
  // Owns the entry, which stays where it is until forget_ended().
  Entry& add(Lease&& lease);
  // Removes it; it is still found by find_lease().
  void end(Entry& entry);
  void forget_ended() { just_ended_.clear(); }

  std::size_t size() const noexcept { return entries_.size(); }
  const auto& all() const noexcept { return entries_; }
  auto& all() noexcept { return entries_; }
  Entry* find(LeaseId id);  // null: unknown or ended
  const Entry* find(LeaseId id) const;
  const Lease* find_lease(LeaseId id) const;
  std::vector<const Lease*> live() const;  // by id
  // See Ledger::page().
  std::vector<const Lease*> page(bool on_cpu, LeaseId after, std::size_t limit) const;

  std::vector<LeaseId> bound_to(std::uint64_t connection) const;
  bool is_bound(std::uint64_t connection) const noexcept {
    return by_connection_.contains(connection);
  }
  void bind(Entry& entry, std::uint64_t connection);
  std::vector<LeaseId> held_by(std::int64_t pid, std::uint64_t start_time) const;

  // The lease whose peer used the same key; null without one.
  const Lease* find_retried(const LeaseRequest& request) const;
  void drop_key(const Entry& entry);  // its lease is not in force any more

  std::string broken_invariant() const;  // the first one; empty when all hold

 private:
  using Process = std::pair<std::int64_t, std::uint64_t>;  // pid and start time
  struct ProcessHash {
    std::size_t operator()(const Process& p) const noexcept {
      return std::hash<std::uint64_t>()(static_cast<std::uint64_t>(p.first) * 0x9E3779B97F4A7C15u ^
                                        p.second);
    }
  };
  using Entries = std::unordered_map<LeaseId, Entry>;
  Entries entries_;
  std::map<LeaseId, Entries::node_type> just_ended_;
  std::unordered_map<std::string, LeaseId> by_key_;  // of leases in force
  std::unordered_map<std::uint64_t, std::vector<LeaseId>> by_connection_;
  std::unordered_map<Process, std::vector<LeaseId>, ProcessHash> by_process_;
};

// A broken invariant of one lease, as a sentence.
std::string on_lease(const Lease& lease, std::string_view problem);

}  // namespace sluice::broker
