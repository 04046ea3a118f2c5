// The implementation of Broker, shared by its files: one lock around the ledger, its store and
// the last samples; everything with outside effects happens after the lock is released.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <thread>

#include "base/mutex.h"
#include "broker/broker.h"
#include "broker/enforce/card_snapshot.h"
#include "broker/enforce/driver_limits.h"
#include "broker/enforce/enforce.h"
#include "broker/enforce/enforce_cgroup.h"
#include "broker/enforce/holder_watch.h"
#include "broker/store/store.h"

namespace sluice::broker {

// Times of the last grants.
class Latencies {
 public:
  void add(double s);
  double percentile(double p) const;  // 0..1; 0 without any

 private:
  static constexpr std::size_t kKept = 4096;
  std::vector<double> last_;
  std::size_t next_ = 0;
};

// A change and the lease as it was right after it.
struct PendingEvent {
  Change change;
  Lease lease;
  Moment at;
};
BrokerEvent event_of(const PendingEvent& pending);

// Memory that the holder's processes use on the lease's cards, with the time of the oldest process
// list it is from; absent where it is not known.
std::optional<device::Timed> used_by(const Lease& lease,
                                     std::span<const CardSnapshot> card_snapshots);

struct Broker::Impl {
  explicit Impl(Options o);
  ~Impl();

  Moment moment() const { return {options.now(), options.wall()}; }

  // ---- under the lock
  void restore() REQUIRES(mutex);
  LeaseRequest completed(LeaseRequest request) const REQUIRES(mutex);
  UsageReport completed(UsageReport usage, const Lease& lease) const REQUIRES(mutex);
  Lease lease_of(const Token& token) REQUIRES(mutex);
  std::string uuid_of(const std::string& device) const REQUIRES(mutex);
  // Takes in what the ledger changed: stores it, keeps events for later. False when it
  // could not be stored; then it is tried again with the next change.
  bool take(const Changes& changes, const Moment& at) REQUIRES(mutex);
  void note(const Change& change, const Moment& at) REQUIRES(mutex);
  void count(const Change& change, const Lease& lease) REQUIRES(mutex);
  void count_yield(const Lease& lease) REQUIRES(mutex);
  void show_ended(const Lease& lease) REQUIRES(mutex);
  void follow_holder(const Lease& lease) REQUIRES(mutex);
  bool save(const Moment& at) REQUIRES(mutex);
  void queue_event(PendingEvent event) REQUIRES(mutex);
  [[noreturn]] void store_failed() const REQUIRES(mutex);
  // Throws while nothing can be written. The ledger and the disk are not used then: only the
  // timer tries again, so a full disk costs neither memory nor time.
  void require_store() const REQUIRES(mutex);
  void judge_enforcement(const Moment& at) REQUIRES(mutex);
  void judge_enforcement(LeaseId id, Instant now) REQUIRES(mutex);
  Enforcement tier_of(const Lease& lease, Instant now) const REQUIRES(mutex);
  bool shares_process(LeaseId id) REQUIRES(mutex);
  std::vector<DmemLimit> limits_for(const Lease& lease) const REQUIRES(mutex);
  void group_made(LeaseId id) REQUIRES(mutex);
  void leave_group(LeaseId id) REQUIRES(mutex);
  bool is_for_driver(const Lease& lease) const REQUIRES(mutex);
  template <class Enter>
  std::string in_time(LeaseId id, const Holder& holder, Enter enter) REQUIRES(groups_mutex);
  void ask_driver(const Lease& lease, bool has_memory) REQUIRES(groups_mutex);
  LeaseResponse ask(LeaseRequest request, std::uint64_t secret, const Moment& at) REQUIRES(mutex);
  std::optional<LeaseResponse> find_retried(const LeaseRequest& request, const Moment& at)
      REQUIRES(mutex);
  LeaseResponse describe(const Lease& lease, Instant now) const REQUIRES(mutex);
  void add_env(LeaseResponse& response) const REQUIRES(mutex);
  BatchSize batch_for(const Lease& lease) const REQUIRES(mutex);
  // Throws when the state that would be reported is not on disk. The end of a lease may be
  // reported: see release().
  void check_stored(const Lease& lease) const REQUIRES(mutex);
  std::optional<Lease> find_ended(LeaseId id, const Moment& at) const REQUIRES(mutex);
  std::set<ProcessId> holders() const REQUIRES(mutex);
  std::vector<LeaseId> live_ids() const REQUIRES(mutex);
  LeaseError lease_error(Ledger::Outcome outcome, const Token& token, const Moment& at) const
      REQUIRES(mutex);
  void wake_timer() REQUIRES(mutex);

  // ---- without it
  LeaseResponse look_up(LeaseId id) const;
  void add_refusal(LeaseResponse& response, const Refusal& refusal) const REQUIRES(mutex);
  template <class How>  // a release or revocation
  void end(const Token& token, How how);
  void after();  // outside effects of the changes: groups, signals, events
  void run_groups();
  void check_groups();
  void collect_limits();
  void deliver_events();
  void deliver_loop(std::stop_token stop);
  void holder_died(std::int64_t pid, std::uint64_t start_time);
  void check_holders();
  void tick();
  void timer(std::stop_token stop);

  const Options options;
  const bool host_pids;

  mutable Mutex mutex;
  BrokerConfig config GUARDED_BY(mutex);
  device::GpuConfig gpu GUARDED_BY(mutex);
  Ledger ledger GUARDED_BY(mutex);
  Store store;  // writes are under the lock
  Footprints footprints GUARDED_BY(mutex);
  std::map<LeaseId, Lease> unsaved GUARDED_BY(mutex);
  bool is_boot_stored GUARDED_BY(mutex) = false;
  std::string store_trouble GUARDED_BY(mutex);
  Instant store_again_at GUARDED_BY(mutex){};  // not before this, while in trouble
  std::deque<PendingEvent> unsaved_events GUARDED_BY(mutex);
  std::deque<Lease> recent GUARDED_BY(mutex);  // ended, newest last
  std::map<LeaseId, ProcessId> followed GUARDED_BY(mutex);
  Stats stats GUARDED_BY(mutex);
  Latencies latencies GUARDED_BY(mutex);
  std::atomic<std::uint64_t> decisions{0};
  std::set<LeaseId> yielded GUARDED_BY(mutex);  // ended on request; not all seen free yet

  std::vector<CardSnapshot> card_snapshots GUARDED_BY(mutex);
  bool has_all GUARDED_BY(mutex) = false;        // these are all GPUs of the machine
  std::uint64_t sequence GUARDED_BY(mutex) = 0;  // of the snapshot they are from
  bool mps_daemon GUARDED_BY(mutex) = false;

  // For after().
  std::vector<Holder> to_end GUARDED_BY(mutex);
  std::set<LeaseId> to_limit GUARDED_BY(mutex), to_lift GUARDED_BY(mutex);
  std::set<LeaseId> grouped GUARDED_BY(mutex);        // have a group of their own
  std::set<LeaseId> groups_before GUARDED_BY(mutex);  // the same, since before this broker
  std::set<LeaseId> limited GUARDED_BY(mutex);        // by it, when it was last read back
  std::set<LeaseId> tried GUARDED_BY(mutex);          // NVIDIA's driver was called, once
  std::deque<PendingEvent> outbox GUARDED_BY(mutex);
  std::map<std::string, std::size_t> pending_by_peer GUARDED_BY(mutex);  // of the outbox, by peer
  bool delivering GUARDED_BY(mutex) = false;
  std::function<void(const BrokerEvent&)> listener GUARDED_BY(mutex);
  std::condition_variable_any delivered, has_events;

  Mutex groups_mutex;  // taken before `mutex` where both are
  LeaseGroups groups GUARDED_BY(groups_mutex);
  DriverLimits driver_limits GUARDED_BY(groups_mutex);

  Instant wake_at GUARDED_BY(mutex){};
  bool wakes_sooner GUARDED_BY(mutex) = false;
  Instant forget_at GUARDED_BY(mutex){};
  std::condition_variable_any woken;
  std::jthread delivery_thread;
  std::unique_ptr<HolderWatch> watch;  // last but one: calls back
  std::jthread thread;                 // last: uses everything above
};

}  // namespace sluice::broker
