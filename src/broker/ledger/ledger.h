// The authority on which lease holds what: a state machine without clock, lock, disk or
// socket. Every change goes through here, under one lock of its owner (Broker), and
// comes out as a list of changes to store and to report.
//
// The caller passes the time, which never goes back.
//
// Order of service: the score is the rank of the priority plus one for each `ageing`
// waited, in whole steps; at the same score the agent with the lower recent use (byte-
// seconds with a half-life of ten minutes), then the first to come. A request that fits
// may go before one that does not, except that capacity is kept for a request that waited
// longer than `hold_after`, and for one that others were asked to yield to. Where leases of its own
// peer block it, the capacity is kept from requests of the same peer only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "broker/lease/card.h"
#include "broker/lease/lease.h"
#include "broker/ledger/change.h"
#include "broker/ledger/placement.h"
#include "broker/ledger/policy.h"

namespace sluice::broker {

enum class Verdict { granted, waiting, on_cpu, refused };

class Ledger {
 public:
  explicit Ledger(Policy policy);
  ~Ledger();
  Ledger(Ledger&&) noexcept;
  Ledger& operator=(Ledger&&) noexcept;

  // From the store, after a restart; before anything else. Ended ones are dropped. What
  // is not in a Lease starts anew: recent use by agent, and what was reported.
  void restore(std::vector<Lease> leases, LeaseId last_id);
  void set_policy(Policy policy);

  // New samples, by uuid; a card that is not named stays as it was. Of one card, a
  // sample taken before the known one is ignored. Grants to those who wait, in order. While
  // other cards are still to come (`has_all` is false) nothing is refused as never fitting.
  Changes observe(std::span<const Card> cards, Instant now, bool has_all = true);

  struct Decision {
    Verdict verdict;
    LeaseId id = 0;   // 0 when refused
    Refusal refusal;  // unless granted
  };
  // `secret` is a random number of the caller's. Throws invalid_argument (check()),
  // exhausted (too many leases, of all or of the peer; nothing has changed then). What can never
  // fit is refused, or sent to the CPU when that was requested, with a ttl of at most cpu_ttl.
  Decision request(const LeaseRequest& request, std::uint64_t secret, Instant now,
                   Changes& changes);

  // The lease in force that the same peer requested with the same key; null without one.
  const Lease* find_retried(const LeaseRequest& request) const;
  // It was requested once more: `connection`, unless 0, is the one that it is bound to now.
  void add_retry(LeaseId id, std::uint64_t connection);

  enum class Outcome { done, unknown, over, wrong_secret, stale };
  // `renewals` is the number the holder believes in; anything but the present one is
  // stale, and then nothing changes. A lease past its time when this came is over, ticked or not.
  Outcome renew(LeaseId id, std::uint64_t secret, std::uint64_t renewals, Instant now, Changes&,
                Instant came = Instant::max());
  Outcome release(LeaseId id, std::uint64_t secret, Instant now, Changes&);
  // One of its requesters is gone; the last of them releases the lease.
  Outcome leave(LeaseId id, std::uint64_t secret, Instant now, Changes&);
  // Checks the token as renew() does and renews nothing.
  Outcome verify(LeaseId id, std::uint64_t secret, std::uint64_t renewals, Instant now, Changes&,
                 Instant came = Instant::max());
  // Called by an operator; the holder receives the reason.
  Outcome revoke(LeaseId id, std::string_view reason, Instant now, Changes&);
  // Sets the verified enforcement tier; false when the lease is over.
  bool set_enforcement(LeaseId id, Enforcement enforcement);
  bool set_client_limit(LeaseId id, std::uint64_t bytes);

  // Why a lease that waits, or is on the CPU, was not granted as of the last call; nothing for
  // others.
  std::optional<Refusal> refusal(LeaseId id) const;
  // The same for a request that has ended, as if it were made anew.
  Refusal refusal(const LeaseRequest& request) const;

  Changes connection_closed(std::uint64_t connection, Instant now);
  bool is_bound(std::uint64_t connection) const noexcept;  // some lease is, to this one
  Changes holder_died(std::int64_t pid, std::uint64_t start_time, Instant now);
  Changes tick(Instant now);  // expiry, deadlines, waits that are over

  // Pauses while nothing can be stored, so that no holder can renew: nothing expires or is late,
  // and waiting requests are granted nothing. Afterwards leases have kGrace to be renewed.
  void pause();
  void resume(Instant now);
  Instant next_tick() const;  // not before this; Instant::max() when nothing is due

  // Null when unknown or over; but what ended in the last call that changed anything is
  // still found, so that its changes can be stored.
  const Lease* find(LeaseId id) const;
  std::size_t size() const noexcept;          // all but the ended
  std::vector<const Lease*> live() const;     // by id; all but the ended
  std::vector<const Lease*> waiting() const;  // in the order they would be served now
  // At most `limit` leases with a number above `after`, by id: on the CPU, or neither there nor
  // waiting.
  std::vector<const Lease*> page(bool on_cpu, LeaseId after, std::size_t limit) const;
  struct Counts {
    std::size_t leases, waiting, on_cpu;  // held, yielding or draining; the others
  };
  Counts count() const noexcept;
  CardCapacity capacity(const std::string& uuid, Instant now) const;
  // The promises that count, with those given back and not yet confirmed by a sample.
  std::vector<Promise> promises(const std::string& uuid) const;
  // Cards with promises, or with returns whose rest no list of processes has shown yet; by
  // uuid, with a number that changes when a promise comes or is given back.
  std::map<std::string, std::uint64_t> leased() const;
  LeaseId last_id() const noexcept;

  // Checks every invariant of this class from scratch. Returns the first broken one as a
  // sentence; empty when all hold. For tests and the simulation.
  std::string broken_invariant() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::broker
