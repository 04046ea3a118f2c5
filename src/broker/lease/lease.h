// Lease requests and leases, as plain values.
//
// Times are Instants of the broker's own clock, so that a simulation can run years in
// seconds; the transport turns them into wall time. Memory is in bytes, never in
// shares of a card.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/printable.h"

namespace sluice::broker {

enum class Priority { low, normal, high, critical };
enum class OnUnavailable { cpu, wait, fail };

// Enforcement tiers of a lease; each tier includes the ones before it. A tier that could not
// be verified is reported as the lower one.
enum class Enforcement {
  none,      // we do not promise the same byte twice, no more
  observed,  // over-use is noticed within one sampling period and reported
  client,    // the holder's own allocator refuses past the lease: its limit was read back
  mps,       // the MPS server refuses, per process
  cgroup,    // the kernel or the driver refuses, whatever the program does
};

// The uid of users that the server's user namespace does not map: the kernel shows all of them
// with it, so two processes with this uid may belong to different users.
inline constexpr std::int64_t kUnmappedUid = -2;

// A process, distinguished from a later one with the same pid.
struct Holder {
  std::int64_t pid = 0;          // 0: unknown; such a lease lives by its heartbeat alone
  std::uint64_t start_time = 0;  // field 22 of /proc/<pid>/stat
  std::int64_t uid = -1;         // -1: unknown; or kUnmappedUid
  std::uint64_t connection = 0;  // closing it releases the lease; 0: bound to none
  friend bool operator==(const Holder&, const Holder&) = default;
};

enum class PlacementPolicy {
  best_fit,  // the card where the least is left: keeps capacity for large requests
  spread,    // the card where the most is left: least interference
};

struct LeaseRequest {
  std::string agent;
  std::uint64_t bytes = 0;      // on each GPU
  std::uint64_t min_bytes = 0;  // take less down to this rather than nothing; 0: exactly `bytes`
  unsigned gpus = 1;            // different ones, in one lease
  Priority priority = Priority::normal;
  std::string model_type;        // for the batch size; may be empty
  std::string device;            // uuid, bus or index; empty: any
  std::optional<int> numa_node;  // prefer GPUs of this node
  bool linked = false;           // several GPUs: prefer those with NVLink between them
  PlacementPolicy placement = PlacementPolicy::best_fit;
  Seconds ttl{60};  // it ends this long after the last renewal
  Seconds wait{0};  // with OnUnavailable::wait, at most this long
  OnUnavailable on_unavailable = OnUnavailable::cpu;
  bool bound = false;          // to the connection of the request: closing that releases it
  bool client_limits = false;  // the holder's allocator is to enforce the lease; see client_limit
  // The process that holds it instead of the requesting one: one of its ancestors, or 0 for none,
  // and then the lease lives by its heartbeat alone. The transport checks it and sets `holder`.
  std::optional<std::int64_t> named_pid;
  Holder holder;
  std::string peer;             // the client: "key:NAME", "uid:N" or "addr:A"; empty: unknown
  bool by_admin = false;        // the client may preempt any holder; not stored
  std::string idempotency_key;  // a retry with the same one gets the same lease; empty: none
};

struct Part {
  std::string uuid;
  std::uint64_t bytes;
  friend bool operator==(const Part&, const Part&) = default;
};

using LeaseId = std::uint64_t;  // grows; also the fencing token: a later lease has a higher one

enum class State {
  waiting,   // in the queue
  on_cpu,    // no capacity: sent to the CPU, and notified when there is some; holds nothing
  held,      // granted
  yielding,  // granted, and asked to give it back by `yield_by`
  draining,  // given back; its bytes count until a sample taken later shows the card
  ended,     // over, for good; never comes back
};

enum class EndReason { none, released, expired, holder_died, revoked, timed_out };

struct Lease {
  LeaseId id = 0;
  std::uint64_t secret = 0;    // the holder's proof; not shown to others
  std::uint64_t renewals = 0;  // each renewal names the number it continues from
  LeaseRequest request;
  State state = State::waiting;
  EndReason ending = EndReason::none;
  std::vector<Part> parts;  // empty while waiting
  Enforcement enforcement = Enforcement::none;
  std::string reason;  // one sentence: why here, why not, why over
  Instant requested_at{}, granted_at{}, expires_at{}, yield_by{}, ended_at{};
  LeaseId yields_to = 0;         // the waiting request it was asked to make capacity for
  Instant yield_requested_at{};  // of one that yields, or ended so: what that cost
  Instant yield_freed_at{};      // when the memory was seen free; not set where none of it was
  std::uint64_t yield_kept = 0;  // of its bytes, those that its process was seen to have still
  // Not stored; known again soon after a restart.
  std::string yield_reason;        // while yielding: which agent requests how much
  std::uint64_t over_use = 0;      // bytes that its process has past its promises, by the last list
  std::uint64_t client_limit = 0;  // on each GPU, as the holder reads it back from its allocator
};

// Whether a holder may lose its lease, or its process, to `requester` when it does not yield: the
// requester is an administrator, the same user, or, where no user is known of either, the same
// peer. With Policy::preempt_other_users any requester may ask a holder to yield, but not more.
bool may_preempt(const LeaseRequest& requester, const LeaseRequest& holder) noexcept;

// Whether both are requests of one user or, where no user is known, of one peer.
bool is_same_user(const LeaseRequest& one, const LeaseRequest& other) noexcept;

// Time to renew in, after one in which no holder could; at most the lease's ttl.
inline constexpr Seconds kGrace{15};

std::uint64_t promised(const Lease& lease) noexcept;  // bytes, on all of its GPUs
inline bool is_held(const Lease& lease) noexcept {
  return lease.state == State::held || lease.state == State::yielding;
}
inline bool is_over(const Lease& lease) noexcept {
  return lease.state == State::draining || lease.state == State::ended;
}

inline Instant later(Instant from, Seconds by) {
  return from + std::chrono::duration_cast<Steady::duration>(by);
}

std::string_view to_string(Priority p) noexcept;
std::string_view to_string(OnUnavailable o) noexcept;
std::string_view to_string(Enforcement e) noexcept;
std::string_view to_string(State s) noexcept;
std::string_view to_string(EndReason e) noexcept;
std::optional<Priority> priority_from(std::string_view name) noexcept;
std::optional<OnUnavailable> on_unavailable_from(std::string_view name) noexcept;

// The longest prefix of UTF-8 text that has at most `max_bytes` bytes and ends between characters.
std::string_view utf8_prefix(std::string_view text, std::size_t max_bytes) noexcept;
inline constexpr std::size_t kMaxReasonBytes = 512;  // bytes; a longer one is cut

// Throws invalid_argument, naming the field and its limits: an agent's name of 1 to 128
// printable characters, memory above 0 and at most 64 TiB, min_bytes not above bytes,
// 1 to 64 GPUs, ttl 1 s to 1 day, wait 0 to 1 day.
void check(const LeaseRequest& request);

}  // namespace sluice::broker
