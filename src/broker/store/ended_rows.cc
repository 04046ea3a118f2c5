#include "broker/store/ended_rows.h"

#include <algorithm>

#include "broker/store/store_rows.h"

namespace sluice::broker {

EndedRows::EndedRows(Database& db) : db_(db), forget_of_peer_(db, kForgetLeasesOfPeer) { count(); }

void EndedRows::count() {
  total_ = 0;
  of_.clear();
  Statement rows(db_, "SELECT peer, count(*) FROM leases WHERE state = 'ended' GROUP BY peer");
  while (rows.step()) {
    of_[rows.text(0)] = static_cast<std::size_t>(rows.number(1));
    total_ += static_cast<std::size_t>(rows.number(1));
  }
}

std::size_t EndedRows::forget(std::size_t rows, const Moment& at) {
  constexpr unsigned kLookEvery = 64;
  if (looks_again_in_-- == 0) {
    looks_again_in_ = kLookEvery;
    const auto most = std::ranges::max_element(of_, {}, [](const auto& of) { return of.second; });
    if (most != of_.end()) most_ = most->first;
  }
  forget_of_peer_.bind(most_).bind(unix_ms(at.wall)).bind(static_cast<std::int64_t>(rows)).step();
  return static_cast<std::size_t>(sqlite3_changes(db_.get()));
}

void EndedRows::were_written(std::span<const Lease* const> leases, std::size_t deleted) {
  for (const auto* lease : leases)
    if (lease->state == State::ended) ++of_[lease->request.peer], ++total_;
  auto& most = of_[most_];
  total_ -= std::min(deleted, total_);
  most -= std::min(deleted, most);
}

}  // namespace sluice::broker
