// The newest snapshot as the broker looks at it: cards for the ledger, and beside each
// what only a response needs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "broker/lease/card.h"
#include "broker/lease/lease.h"
#include "device/config.h"
#include "watch/snapshot.h"

namespace sluice::broker {

using ProcessId = std::pair<std::int64_t, std::uint64_t>;  // number and start time

struct CardSnapshot {
  Card card;
  device::Vendor vendor{};
  // Among the GPUs of its vendor, by bus, as CUDA counts them; absent until all are listed.
  std::optional<int> index;
  std::uint64_t memory_total = 0;  // of the card; card.total is what may be promised of it
  // The MPS clients on the card, with the memory limit from their environment.
  std::map<ProcessId, std::string> mps_limits;
};

// The capacity is the card's memory without the driver's own share, and at most
// gpu.memory_fraction of the total. A process counts as the holder when it is one
// of `holders` or a descendant of one: workers use what their parent leased. While GPUs are
// still to come none has an index, and where gpu.devices chooses by index none is seen.
std::vector<CardSnapshot> card_snapshots_of(const watch::Snapshot& snapshot,
                                            const device::GpuConfig& gpu,
                                            const std::set<ProcessId>& holders,
                                            const std::string& proc);

// Finds cards by uuid or a prefix of one, by bus, or by index; several when the prefix fits
// several. While GPUs are still to come, only the complete uuid and the bus count: a prefix that
// fits one card so far may fit another soon.
std::vector<const CardSnapshot*> find_card_snapshots(std::span<const CardSnapshot> card_snapshots,
                                                     std::string_view device);

}  // namespace sluice::broker
