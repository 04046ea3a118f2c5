// What holders report of their runs, by peer, agent and model type, and the batch sizes that follow
// from it. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "broker/broker.h"
#include "broker/store/store.h"

namespace sluice::broker {

class UsageHistory {
 public:
  using Plans = std::map<std::string, FootprintFit>;  // see Broker::Options::plans
  // Both outlive this.
  UsageHistory(Store& store, const Plans& plans) : store_(store), plans_(plans) {}

  void restore(Footprints footprints) { footprints_ = std::move(footprints); }
  const Footprints& all() const noexcept { return footprints_; }

  // `card_bytes` is the memory of the lease's first card; 0 where it is not known.
  BatchSize batch_for(const Lease& lease, std::uint64_t card_bytes,
                      const device::GpuConfig& gpu) const;

  // Keeps and stores a run of the lease's holder. Throws invalid_argument, StoreUnavailable;
  // nothing has changed then.
  void add(const Lease& lease, UsageReport usage, std::uint64_t card_bytes,
           const device::GpuConfig& gpu, const Moment& at);

 private:
  UsageReport completed(UsageReport usage, const Lease& lease, std::uint64_t card_bytes,
                        const device::GpuConfig& gpu) const;

  Store& store_;
  const Plans& plans_;
  Footprints footprints_;
};

}  // namespace sluice::broker
