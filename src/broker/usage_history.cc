#include "broker/usage_history.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"

namespace sluice::broker {

namespace {

constexpr std::size_t kRunsKept = 32;               // of an agent and model type
constexpr std::size_t kMaxFootprintsPerPeer = 256;  // agents and model types that runs are kept of
constexpr std::uint64_t kMaxPeakBytes = 64ull << 40;
constexpr std::int64_t kMaxBatchSize = 1'000'000'000;

// The footprint to evict for a new one of this peer: its own oldest or, when there are too many of
// all peers, the oldest of the peer with the most.
Footprints::iterator one_too_many(Footprints& all, const std::string& peer) {
  std::map<std::string, std::size_t> counts;
  for (const auto& [key, runs] : all) ++counts[key.peer];
  const auto own = counts.find(peer);
  const bool is_full = own != counts.end() && own->second >= kMaxFootprintsPerPeer;
  if (!is_full && all.size() < kMaxFootprints) return all.end();
  const auto largest =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
        return a.second < b.second;
      })->first;
  auto oldest = all.end();
  for (auto at = all.begin(); at != all.end(); ++at)
    if (at->first.peer == (is_full ? peer : largest) &&
        (oldest == all.end() || at->second.at_ms < oldest->second.at_ms))
      oldest = at;
  return oldest;
}

}  // namespace

BatchSize UsageHistory::batch_for(const Lease& lease, std::uint64_t card_bytes,
                                  const device::GpuConfig& gpu) const {
  const auto& request = lease.request;
  BatchSizeQuery query;
  query.agent = request.agent, query.model_type = request.model_type;
  if (!lease.parts.empty()) query.lease_bytes = lease.parts.front().bytes;
  query.card_bytes = card_bytes;
  if (!footprints_.empty())
    if (const auto known = footprints_.find({request.peer, request.agent, request.model_type});
        known != footprints_.end())
      query.history = known->second.runs;
  for (const auto* name : {&query.model_type, &query.agent})
    if (const auto plan = plans_.find(*name); plan != plans_.end() && !query.plan)
      query.plan = plan->second;
  return batch_size_for(query, gpu);
}

// With what it leaves out: a run that ran out of memory had the advised batch, and the lease.
UsageReport UsageHistory::completed(UsageReport usage, const Lease& lease, std::uint64_t card_bytes,
                                    const device::GpuConfig& gpu) const {
  require(!lease.parts.empty(), "this lease holds no GPU memory: only runs on a GPU are reported");
  const auto limit = card_bytes > 0 ? card_bytes : kMaxPeakBytes;
  require(usage.peak_bytes <= limit,
          fmt::format("peak memory is {}, and its GPU has {}", human_bytes(usage.peak_bytes),
                      human_bytes(limit)));
  require(usage.peak_bytes > 0 || usage.out_of_memory,
          "peak memory is missing: a run that did not run out of memory took some");
  if (usage.batch_size == 0 && usage.out_of_memory)
    usage.batch_size = batch_for(lease, card_bytes, gpu).size;
  require(usage.batch_size >= 1 && usage.batch_size <= kMaxBatchSize,
          fmt::format("batch_size may be 1 to {}", kMaxBatchSize));
  if (usage.peak_bytes == 0) usage.peak_bytes = lease.parts.front().bytes;
  return usage;
}

void UsageHistory::add(const Lease& lease, UsageReport usage, std::uint64_t card_bytes,
                       const device::GpuConfig& gpu, const Moment& at) {
  const auto run = completed(usage, lease, card_bytes, gpu);
  const FootprintKey key{lease.request.peer, lease.request.agent, lease.request.model_type};
  const auto known = footprints_.find(key);
  const bool is_new = known == footprints_.end();
  auto runs = is_new ? std::vector<Footprint>{} : known->second.runs;
  runs.push_back({run.batch_size, run.peak_bytes, run.out_of_memory});
  if (runs.size() > kRunsKept) runs.erase(runs.begin());
  const auto oldest = is_new ? one_too_many(footprints_, key.peer) : footprints_.end();
  try {
    store_.write(key, runs, at, oldest == footprints_.end() ? nullptr : &oldest->first);
  } catch (const Error& e) {
    throw StoreUnavailable(fmt::format("reports cannot be stored now: {}", e.reason()));
  }
  if (oldest != footprints_.end()) footprints_.erase(oldest);
  footprints_[key] = {std::move(runs), unix_ms(at.wall)};
}

}  // namespace sluice::broker
