// Computes the batch size that fits the memory of a lease, with the reason.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "device/config.h"

namespace sluice::broker {

struct BatchSize {
  std::int64_t size = 0;  // 0: no advice
  std::string reason;
};

// One run of an agent: this batch took this much memory, or did not fit.
struct Footprint {
  std::int64_t batch_size;
  std::uint64_t bytes;
  bool out_of_memory = false;
};

// memory = fixed + batch x each, by least squares over what ran. Nothing when the
// batches were all of one size or the slope is not positive.
struct FootprintFit {
  double fixed_bytes, bytes_each;
};
std::optional<FootprintFit> fit(std::span<const Footprint> history);

// Inputs of batch_size_for(). The agent's own history, newest last, comes first (after an
// out-of-memory the batch is smaller and grows again in small steps), then the compiled plan's
// need, then the settings and the card's memory row. Pure.
struct BatchSizeQuery {
  std::string agent, model_type;
  std::uint64_t lease_bytes = 0;
  std::uint64_t card_bytes = 0;
  std::span<const Footprint> history;
  std::optional<FootprintFit> plan;
};
BatchSize batch_size_for(const BatchSizeQuery& query, const device::GpuConfig& settings);

}  // namespace sluice::broker
