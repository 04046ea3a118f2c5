// The processes that hold leases in force, each watched while it has one. Not thread-safe.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "broker/enforce/card_snapshot.h"
#include "broker/enforce/holder_watch.h"
#include "broker/lease/lease.h"

namespace sluice::broker {

class FollowedHolders {
 public:
  // `watch` outlives the last follow(); null: the owner looks at all() by itself.
  explicit FollowedHolders(HolderWatch* watch) : watch_(watch) {}

  void follow(const Lease& lease);  // as it is now: until it is over
  std::set<ProcessId> all() const;
  bool is_followed(LeaseId id) const { return processes_.contains(id); }
  std::vector<LeaseId> others_of(LeaseId id) const;  // other leases of its process

 private:
  HolderWatch* watch_;
  std::map<LeaseId, ProcessId> processes_;
};

}  // namespace sluice::broker
