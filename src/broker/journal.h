// What has changed and is not on disk yet: the rows of leases, and the events that are reported
// once they are. Tries again while the store cannot be written. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "broker/event_outbox.h"
#include "broker/store/store.h"

namespace sluice::broker {

class Journal {
 public:
  explicit Journal(Store& store) : store_(store) {}

  void add(const Lease& lease) { unsaved_.insert_or_assign(lease.id, lease); }
  void add_event(PendingEvent&& event);  // the oldest goes when there are too many

  // Everything that waits goes in one transaction, so what is on disk is always a state that the
  // ledger once had. After a failure it is not tried again for a moment. Never throws.
  enum class Saved { all, all_again, failed, not_tried };  // all_again: the first after a failure
  Saved save(const Moment& at);
  // Those of what was saved.
  void move_events_to(EventOutbox& outbox);

  const std::string& trouble() const noexcept { return trouble_; }  // empty: it can be written
  std::uint64_t failures() const noexcept { return failures_; }
  [[noreturn]] void fail() const;  // throws StoreUnavailable
  // Throws while nothing can be written. The ledger and the disk are not used then: only the
  // timer tries again, so a full disk costs neither memory nor time.
  void require() const;
  // For a read that failed: throws the same where the files are not in their places, of which
  // SQLite says only "disk I/O error".
  void require_files() const;
  // Throws when the state that would be reported is not on disk. The end of a lease may be
  // reported: see Broker::release().
  void check_stored(const Lease& lease) const;

  const Lease* find_unsaved(LeaseId id) const;  // null: what is on disk is the newest
  std::optional<Lease> find(LeaseId id, const Moment& at) const;  // the newest, of any age

 private:
  Store& store_;
  std::map<LeaseId, Lease> unsaved_;
  std::deque<PendingEvent> unsaved_events_;
  bool is_boot_stored_ = false;
  std::string trouble_;
  Instant again_at_{};  // not before this, while in trouble
  std::uint64_t failures_ = 0;
};

}  // namespace sluice::broker
