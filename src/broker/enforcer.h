// Which enforcement tier each lease has, by what was seen, and which are to be limited by the
// kernel or the driver. Decides only: LimitSetter acts. Not thread-safe.
#pragma once

#include <set>
#include <vector>

#include "broker/enforce/limit_setter.h"
#include "broker/followed_holders.h"
#include "broker/journal.h"
#include "broker/lease/config.h"
#include "broker/ledger/ledger.h"
#include "broker/sampled_cards.h"

namespace sluice::broker {

class Enforcer {
 public:
  struct Abilities {
    bool host_pids;   // our process numbers are those of the machine
    bool has_driver;  // there is a program that sets limits in NVIDIA's driver
  };
  // All of them outlive this. A new tier is set in the ledger and added to the journal.
  Enforcer(const BrokerConfig& config, Abilities abilities, const SampledCards& cards,
           const FollowedHolders& holders, Ledger& ledger, Journal& journal)
      : config_(config),
        abilities_(abilities),
        cards_(cards),
        holders_(holders),
        ledger_(ledger),
        journal_(journal) {}

  Enforcement tier_of(const Lease& lease, Instant now) const;
  void judge(LeaseId id, Instant now);  // nothing for one that is not held
  void judge_all(Instant now);          // with each sample, as evidence comes and goes

  void granted(LeaseId id);
  void ended(LeaseId id);
  void found_group(LeaseId id) { groups_before_.insert(id); }  // of a broker before this one

  // What LimitSetter is to do, once.
  bool has_work() const noexcept { return !to_limit_.empty() || !to_lift_.empty(); }
  LimitWork take_work();
  // Takes the result of a limit that was set. If the lease ended meanwhile, or its process took
  // another, the limit is lifted again with the next work.
  void limited(LeaseId id, Instant now);
  std::vector<LimitJob> standing() const;  // to be checked
  void checked(LeaseId id, bool stands, Instant now);

 private:
  bool leaves_shared(LeaseId id);

  const BrokerConfig& config_;
  const Abilities abilities_;
  const SampledCards& cards_;
  const FollowedHolders& holders_;
  Ledger& ledger_;
  Journal& journal_;
  std::set<LeaseId> to_limit_, to_lift_;
  std::set<LeaseId> grouped_;        // have a group of their own
  std::set<LeaseId> groups_before_;  // the same, since before this broker
  std::set<LeaseId> limited_;        // by it, when it was last read back
  std::set<LeaseId> tried_;          // NVIDIA's driver was called, once
};

}  // namespace sluice::broker
