#include "broker/ledger/change.h"

#include <array>

namespace sluice::broker {

std::string_view to_string(Change::What what) noexcept {
  static constexpr std::array<std::string_view, kChanges> kNames{
      "queued",          "granted",       "renewed",     "yield_requested",
      "yield_withdrawn", "yield_overdue", "ended",       "drained",
      "over_use",        "within_again",  "preempted",   "terminate",
      "card_lost",       "card_back",     "sent_to_cpu", "capacity"};
  const auto index = static_cast<std::size_t>(what);
  return index < kNames.size() ? kNames[index] : "unknown";
}

}  // namespace sluice::broker
