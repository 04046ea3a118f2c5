// The newest snapshot as the broker looks at it: cards for the ledger, and beside each
// what only an answer needs.
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

struct Sight {
  Card card;
  device::Vendor vendor{};
  // Among the GPUs of its vendor, by bus, as CUDA counts them; absent until all are listed.
  std::optional<int> index;
  std::uint64_t memory_total = 0;  // of the card; card.total is what may be promised of it
  // Who uses it through MPS, and the memory limit that was in its environment.
  std::map<ProcessId, std::string> mps_limits;
};

// What may be promised is the card's memory without the driver's own share, and not more
// than gpu.memory_fraction of the whole. A process counts as the holder when it is one
// of `holders` or a descendant of one: workers use what their parent leased. While GPUs are
// still to come none has an index, and where gpu.devices chooses by index none is seen.
std::vector<Sight> sights_of(const watch::Snapshot& snapshot, const device::GpuConfig& gpu,
                             const std::set<ProcessId>& holders, const std::string& proc);

// By uuid or the beginning of one, by bus, or by index; several where the beginning of a uuid
// fits several. While GPUs are still to come, by the whole uuid or the bus alone: the beginning
// of a uuid that fits one so far may fit another soon.
std::vector<const Sight*> find_sights(std::span<const Sight> sights, std::string_view device);

}  // namespace sluice::broker
