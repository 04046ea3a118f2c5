#include "broker/journal.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/sqlite/sqlite.h"

namespace sluice::broker {

namespace {

constexpr std::size_t kMaxUnsavedEvents = 100'000;  // while nothing can be written
constexpr auto kStoreAgainAfter = std::chrono::milliseconds(250);

}  // namespace

void Journal::add_event(PendingEvent&& event) {
  unsaved_events_.push_back(std::move(event));
  if (unsaved_events_.size() > kMaxUnsavedEvents) unsaved_events_.pop_front();
}

Journal::Saved Journal::save(const Moment& at) {
  if (unsaved_.empty() && trouble_.empty() && is_boot_stored_ && store_.has_its_files())
    return Saved::all;
  if (!trouble_.empty() && at.now < again_at_) return Saved::not_tried;
  std::vector<const Lease*> rows;
  rows.reserve(unsaved_.size());
  for (const auto& [id, lease] : unsaved_) rows.push_back(&lease);
  try {
    if (rows.empty()) store_.probe(at);
    store_.write(rows, at);
    if (!is_boot_stored_) store_.remember_boot();  // after what the change of boot ended
    is_boot_stored_ = true;
  } catch (const Error& e) {
    ++failures_;
    if (trouble_.empty()) log::error("leases: cannot be stored: {}", with_sql(e));
    trouble_ = e.reason();
    again_at_ = at.now + kStoreAgainAfter;
    return Saved::failed;
  }
  unsaved_.clear();
  if (trouble_.empty()) return Saved::all;
  log::info("leases: stored again");
  trouble_.clear();
  return Saved::all_again;
}

void Journal::move_events_to(EventOutbox& outbox) {
  for (auto& one : unsaved_events_) outbox.push(std::move(one));
  unsaved_events_.clear();
}

void Journal::fail() const { throw StoreUnavailable("leases cannot be stored now: " + trouble_); }

void Journal::require() const {
  if (!trouble_.empty()) fail();
}

void Journal::require_files() const {
  if (!store_.has_its_files()) require();
}

void Journal::check_stored(const Lease& lease) const {
  if (!is_over(lease) && unsaved_.contains(lease.id)) fail();
}

const Lease* Journal::find_unsaved(LeaseId id) const {
  const auto found = unsaved_.find(id);
  return found == unsaved_.end() ? nullptr : &found->second;
}

std::optional<Lease> Journal::find(LeaseId id, const Moment& at) const try {
  const auto* newer = find_unsaved(id);
  return newer == nullptr ? store_.find(id, at) : *newer;
} catch (const Error&) {
  require_files();
  throw;
}

}  // namespace sluice::broker
