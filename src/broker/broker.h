// Hands out GPU memory by lease. Owns the ledger, its store on disk, and the clock
// work: expiry, holders that die, samples that arrive. Thread-safe; no call waits for
// a driver, and a grant is on disk (safe against a killed process) before it is reported.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "broker/lease/batch_size.h"
#include "broker/lease/config.h"
#include "broker/ledger/ledger.h"
#include "device/config.h"
#include "watch/snapshot.h"

namespace sluice::broker {

// The response to a request, and to a question about a lease.
struct LeaseResponse {
  Verdict verdict{};
  bool for_holder = false;        // it proved to be: the token and what to export may be shown
  Lease lease;                    // as it is now; without an id when refused
  Refusal refusal;                // when it is not granted
  std::vector<Lease> blocked_by;  // refusal.blocked_by, looked up
  BatchSize batch;
  std::vector<int>
      device_indexes;  // of lease.parts, counted by PCI bus as CUDA_DEVICE_ORDER=PCI_BUS_ID
  std::vector<std::pair<std::string, std::string>> env;  // what the holder exports
};

// Proves that a caller is the holder: "<id>.<renewals>.<secret>" as given in a response.
struct Token {
  LeaseId id = 0;
  std::uint64_t renewals = 0, secret = 0;
};
std::string to_string(const Token& token);
std::optional<Token> token_from(std::string_view text) noexcept;
Token token_of(const Lease& lease) noexcept;

// A holder's report about its work; later batch sizes follow from it.
struct UsageReport {
  std::int64_t batch_size = 0;   // may be left out after running out of memory: as advised
  std::uint64_t peak_bytes = 0;  // likewise: all of the lease; at most what the GPU has
  bool out_of_memory = false;
};

// A page of the list of leases: at most `limit` of each kind, and where each continues.
struct LeasePage {
  static constexpr std::size_t kMaxLimit = 1000;
  static constexpr std::uint64_t kDone = ~std::uint64_t{0};  // of a kind that was shown in full
  std::size_t limit = 500;
  std::uint64_t after = 0, skip_waiting = 0, cpu_after = 0;  // ids; of those that wait, the place
  bool is_first() const noexcept { return after == 0 && skip_waiting == 0 && cpu_after == 0; }
  bool is_last() const noexcept {
    return after == kDone && skip_waiting == kDone && cpu_after == kDone;
  }
};
std::string cursor_of(const LeasePage& page);
// Parses the cursor alone; nothing when it is not one of ours.
std::optional<LeasePage> page_from(std::string_view cursor) noexcept;

struct BrokerEvent {
  std::string type;  // "lease_granted", "lease_yield", "lease_ended", "lease_capacity", ...
  LeaseId lease;
  std::string json;     // one line; without secrets
  std::string peer;     // whose lease it is; see LeaseRequest::peer
  bool is_own = false;  // of lease_preempted, lease_terminate: the request is of its own user
};

class Broker {
 public:
  struct Options {
    std::string state_dir;  // leases.db lives here; empty keeps leases in memory
    BrokerConfig config;
    device::GpuConfig gpu;  // which cards may be used, the agents' memory and batch sizes
    std::string proc = "/proc";
    std::string cgroup = "/sys/fs/cgroup";
    std::string program{};  // this one, to set limits in NVIDIA's driver; empty: none are set
    // Memory needs of compiled models, by model type or agent; see broker.plans.
    std::map<std::string, FootprintFit> plans{};
    std::function<Instant()> now = [] { return Steady::now(); };
    std::function<WallTime()> wall = [] { return std::chrono::system_clock::now(); };
    bool threads = true;  // false: the owner (tests) calls tick(), which detects dead holders
  };
  // Throws unavailable when the store cannot be opened: another broker has it, or it
  // is damaged (then it says what to do).
  explicit Broker(Options options);
  ~Broker();

  void observe(const watch::Snapshot& snapshot);

  // The body of POST /v1/leases under the settings in force; see lease_request_from_json.
  LeaseRequest read(std::string_view body) const;

  // Without bytes, gpu.memory_allocation decides how much the agent gets. The device may be an
  // index. A holder's pid without its start time is looked up. Throws invalid_argument
  // (nothing has changed), exhausted, StoreUnavailable (nothing is promised). With an
  // idempotency_key that its peer used for a lease in force it returns that lease, as it is now;
  // KeyReused where the rest differs.
  LeaseResponse request(const LeaseRequest& request);
  // The lease as it is now, or as it ended; throws not_found. By id for any caller, with its
  // obstacles; by token for the holder (which waits, timed out, or lost a response), whatever
  // renewal the token is of: throws LeaseError.
  LeaseResponse status(LeaseId id) const;
  LeaseResponse status(const Token& token) const;
  // Grows with each decision on a waiting request, before its event is delivered: waiting clients
  // need not poll while it is the same. Takes no lock.
  std::uint64_t decisions() const noexcept;

  // Throws LeaseError for an unknown, wrong, replayed or expired token, and then nothing
  // has changed; StoreUnavailable, and then the lease stays and may be renewed later: while nothing
  // can be stored none expires, and afterwards there is kGrace to renew it. `client_limit`: bytes
  // on each GPU past which the holder's allocator refuses, as read back from it; without it the
  // value of an earlier renewal holds.
  LeaseResponse renew(const Token& token, std::optional<std::uint64_t> client_limit = {});
  // Works while nothing can be stored, too: the lease is over, and written later. If the process
  // ends before that, the next one finds the lease, which expires without a renewal.
  void release(const Token& token);
  // The client of a waiting request is gone: the request is released, unless it was made again
  // under its idempotency_key by a client that still waits.
  void leave(const Token& token);
  // Called by an operator: needs no token. Otherwise as release().
  void revoke(LeaseId id, std::string_view reason);
  void report(const Token& token, const UsageReport& usage);
  void connection_closed(std::uint64_t connection) noexcept;
  // Whether a lease is bound to it.
  bool is_bound(std::uint64_t connection) const;

  // Called with every event in the order they happened, one at a time and without a lock held,
  // on a thread of the broker's own (without Options::threads, on that of some caller); must return
  // quickly, and may call the broker but not on_event(). Null stops the calls; none is under way
  // afterwards.
  void on_event(std::function<void(const BrokerEvent&)> listener);

  // {"leases": [...], "waiting": [...], "on_cpu": [...], "cards": [{"gpu_uuid", "total_gb",
  // "free_gb", "promised_gb", "unmanaged": [...]}], "recent": [...], "counts", "next"}; see
  // docs/leases.md. `cards` and `recent` are on the first page only.
  Json leases_json(const LeasePage& page = {}) const;
  // Memory use of the processes of each holder, where the driver reports it.
  std::vector<watch::OwnerMemory> memory_in_use() const;
  // The GPUs whose processes matter to leases; see Ledger::leased().
  std::map<std::string, std::uint64_t> leased() const;
  // For the timeline: leases that overlap the time range, ended ones included, the newest
  // first; at most `limit`, of those requested before lease `before` was (0: of all). "next" is
  // the value of `before` for the following page.
  static constexpr std::size_t kTimelineRows = 2000;
  Json timeline_json(std::int64_t from_ms, std::int64_t to_ms, std::size_t limit = kTimelineRows,
                     LeaseId before = 0) const;

  struct Stats {  // for /metrics
    std::size_t held = 0, waiting = 0, on_cpu = 0;
    std::array<std::size_t, 5> held_by_tier{};  // by Enforcement
    std::uint64_t granted = 0, refused = 0, sent_to_cpu = 0, expired = 0, holders_died = 0;
    std::uint64_t yields_requested = 0;
    std::uint64_t yields_done = 0, yield_bytes = 0;  // given back on request, and seen free
    double yield_s = 0;                              // from asking to that, in all
    std::uint64_t over_uses = 0, stores_failed = 0;
    double grant_p50_s = 0, grant_p99_s = 0;  // of the last grants, store included
  };
  Stats stats() const;

  struct StoreState {
    std::string damage;   // what was found damaged on disk; see docs/leases.md. Empty: nothing
    std::string trouble;  // why nothing can be stored now. Empty: it can
  };
  StoreState store_state() const;

  void reload(const BrokerConfig& config, const device::GpuConfig& gpu);
  void tick();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A renewal, release or report that was turned down: unknown (not_found), over, wrong_secret or
// stale (invalid_argument). serve/ maps it to 404, 410, 403 or 409.
class LeaseError : public Error {
 public:
  LeaseError(Ledger::Outcome outcome, const std::string& message, std::optional<Token> current);
  Ledger::Outcome outcome() const noexcept { return outcome_; }
  // The present token, for a caller who proved to be the holder: a response may have
  // been lost on the way.
  const std::optional<Token>& current() const noexcept { return current_; }

 private:
  Ledger::Outcome outcome_;
  std::optional<Token> current_;
};

// The store cannot be written, for example on a full disk. The message is for clients.
class StoreUnavailable : public Error {
 public:
  explicit StoreUnavailable(const std::string& message) : Error(Code::unavailable, message) {}
};

// Without secrets unless response.for_holder.
Json to_json(const LeaseResponse& response, Instant now, WallTime wall);

// Reads the body of POST /v1/leases. Throws invalid_argument naming the field, the
// nearest known name and the limits. Fuzzed.
LeaseRequest lease_request_from_json(std::string_view body, const BrokerConfig& config);

}  // namespace sluice::broker
