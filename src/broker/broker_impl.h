// The inside of Broker, shared by its files: one lock around the ledger, its store and
// what the last sample showed; everything that acts on the outside happens after it.
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
#include "broker/enforce/driver_limits.h"
#include "broker/enforce/enforce.h"
#include "broker/enforce/enforce_cgroup.h"
#include "broker/enforce/holder_watch.h"
#include "broker/enforce/sight.h"
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
struct Told {
  Change change;
  Lease lease;
  Moment at;
};
BrokerEvent event_of(const Told& told);

// What the holder's processes really have on the lease's cards, and the time of the oldest list
// it is from; absent where nobody can tell.
std::optional<device::Timed> used_by(const Lease& lease, std::span<const Sight> sights);

struct Broker::Impl {
  explicit Impl(Options o);
  ~Impl();

  Moment moment() const { return {options.now(), options.wall()}; }

  // ---- under the lock
  void restore() REQUIRES(mutex);
  Wanted completed(Wanted wanted) const REQUIRES(mutex);
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
  void tell_later(Told news) REQUIRES(mutex);
  [[noreturn]] void store_failed() const REQUIRES(mutex);
  // Throws while nothing can be written. Nothing is asked of the ledger or the disk then: only the
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
  Answer ask(Wanted wanted, std::uint64_t secret, const Moment& at) REQUIRES(mutex);
  std::optional<Answer> asked_before(const Wanted& wanted, const Moment& at) REQUIRES(mutex);
  Answer describe(const Lease& lease, Instant now) const REQUIRES(mutex);
  void add_env(Answer& answer) const REQUIRES(mutex);
  BatchSize batch_for(const Lease& lease) const REQUIRES(mutex);
  // Throws where what would be told of it is not on disk. That it is over may be told: see
  // release().
  void check_stored(const Lease& lease) const REQUIRES(mutex);
  std::optional<Lease> find_ended(LeaseId id, const Moment& at) const REQUIRES(mutex);
  std::set<ProcessId> holders() const REQUIRES(mutex);
  std::vector<LeaseId> live_ids() const REQUIRES(mutex);
  LeaseError turned_down(Ledger::Outcome outcome, const Token& token, const Moment& at) const
      REQUIRES(mutex);
  void wake_timer() REQUIRES(mutex);

  // ---- without it
  Answer look_up(LeaseId id) const;
  void add_refusal(Answer& answer, const Refusal& refusal) const REQUIRES(mutex);
  template <class How>  // a release or revocation
  void end(const Token& token, How how);
  void after();  // what the changes ask for outside: groups, signals, events
  void run_groups();
  void check_groups();
  void collect_limits();
  void tell_all();
  void teller(std::stop_token stop);
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
  std::deque<Told> unsaved_events GUARDED_BY(mutex);
  std::deque<Lease> recent GUARDED_BY(mutex);  // ended, newest last
  std::map<LeaseId, ProcessId> followed GUARDED_BY(mutex);
  Figures figures GUARDED_BY(mutex);
  Latencies latencies GUARDED_BY(mutex);
  std::atomic<std::uint64_t> decisions{0};
  std::set<LeaseId> yielded GUARDED_BY(mutex);  // ended when asked to; not all seen free yet

  std::vector<Sight> sights GUARDED_BY(mutex);
  bool has_all GUARDED_BY(mutex) = false;        // these are all GPUs of the machine
  std::uint64_t sequence GUARDED_BY(mutex) = 0;  // of the snapshot they are from
  bool mps_daemon GUARDED_BY(mutex) = false;

  // For after().
  std::vector<Holder> to_end GUARDED_BY(mutex);
  std::set<LeaseId> to_limit GUARDED_BY(mutex), to_lift GUARDED_BY(mutex);
  std::set<LeaseId> grouped GUARDED_BY(mutex);        // have a group of their own
  std::set<LeaseId> groups_before GUARDED_BY(mutex);  // the same, since before this broker
  std::set<LeaseId> limited GUARDED_BY(mutex);        // by it, when it was last read back
  std::set<LeaseId> tried GUARDED_BY(mutex);          // NVIDIA's driver was asked, once
  std::deque<Told> outbox GUARDED_BY(mutex);
  std::map<std::string, std::size_t> untold GUARDED_BY(mutex);  // of the outbox, by peer
  bool telling GUARDED_BY(mutex) = false;
  std::function<void(const BrokerEvent&)> tell GUARDED_BY(mutex);
  std::condition_variable_any told, has_news;

  Mutex groups_mutex;  // taken before `mutex` where both are
  LeaseGroups groups GUARDED_BY(groups_mutex);
  DriverLimits driver_limits GUARDED_BY(groups_mutex);

  Instant wake_at GUARDED_BY(mutex){};
  bool wakes_sooner GUARDED_BY(mutex) = false;
  Instant forget_at GUARDED_BY(mutex){};
  std::condition_variable_any woken;
  std::jthread telling_thread;
  std::unique_ptr<HolderWatch> watch;  // last but one: calls back
  std::jthread thread;                 // last: uses everything above
};

}  // namespace sluice::broker
