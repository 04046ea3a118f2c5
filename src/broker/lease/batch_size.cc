#include "broker/lease/batch_size.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"

namespace sluice::broker {

namespace {

constexpr double kUsable = 0.95;    // of a lease: the rest is for what a fit does not see
constexpr double kHeadroom = 0.8;   // a run that took less than this of the lease may grow
constexpr double kMaxSize = 65536;  // as the settings allow

std::int64_t whole(double size) {
  return static_cast<std::int64_t>(std::floor(std::clamp(size, 0.0, kMaxSize)));
}

// A batch of n and one step up from it.
std::int64_t grown(std::int64_t n) { return n + std::max<std::int64_t>(1, n / 8); }

BatchSize of_fit(const FootprintFit& f, std::uint64_t lease_bytes, std::string_view source) {
  const double left = static_cast<double>(lease_bytes) * kUsable - f.fixed_bytes;
  const auto fixed = human_bytes(static_cast<std::uint64_t>(std::max(0.0, f.fixed_bytes)));
  const auto each = human_bytes(static_cast<std::uint64_t>(f.bytes_each));
  const auto size = whole(left / f.bytes_each);
  if (size < 1)
    return {0, fmt::format("{} takes {} and {} for each item: not one fits {}", source, fixed, each,
                           human_bytes(lease_bytes))};
  return {size, fmt::format("{} takes {} and {} for each item: {} fit {}", source, fixed, each,
                            size, human_bytes(lease_bytes))};
}

// Without a fit: what ran last, scaled to the lease when it would not fit, a step up
// when it left capacity.
std::optional<BatchSize> of_last_run(const BatchSizeQuery& q) {
  const auto ran = std::find_if(q.history.rbegin(), q.history.rend(),
                                [](const Footprint& f) { return !f.out_of_memory; });
  if (ran == q.history.rend() || ran->batch_size < 1) return std::nullopt;
  const double share = static_cast<double>(ran->bytes) / static_cast<double>(q.lease_bytes);
  const auto took =
      fmt::format("its last batch of {} took {}", ran->batch_size, human_bytes(ran->bytes));
  if (share > 1)
    return BatchSize{
        std::max<std::int64_t>(1, whole(static_cast<double>(ran->batch_size) / share * kUsable)),
        took + ", more than this lease has"};
  if (share < kHeadroom) return BatchSize{grown(ran->batch_size), took + ", which leaves headroom"};
  return BatchSize{ran->batch_size, took};
}

// The newest batch that did not fit, scaled to this lease, and the good runs since.
struct Ceiling {
  std::int64_t failed = 0, limit = 0;
  std::int64_t good_since = 0;
};
std::optional<Ceiling> ceiling_of(const BatchSizeQuery& q) {
  const auto newest = std::find_if(q.history.rbegin(), q.history.rend(),
                                   [](const Footprint& f) { return f.out_of_memory; });
  if (newest == q.history.rend()) return std::nullopt;
  double failed = static_cast<double>(newest->batch_size);
  if (newest->bytes > 0)
    failed *=
        std::min(4.0, static_cast<double>(q.lease_bytes) / static_cast<double>(newest->bytes));
  const auto good = newest - q.history.rbegin();
  const double steps = 0.75 + static_cast<double>(good) / 32;
  return Ceiling{newest->batch_size, std::max<std::int64_t>(1, whole(failed * steps)), good};
}

std::optional<BatchSize> of_history(const BatchSizeQuery& q) {
  if (q.history.empty() || q.lease_bytes == 0) return std::nullopt;
  std::optional<BatchSize> found;
  if (const auto f = fit(q.history)) found = of_fit(*f, q.lease_bytes, "by its own history it");
  if (!found) found = of_last_run(q);
  const auto ceiling = ceiling_of(q);
  if (!ceiling || (found && found->size <= ceiling->limit)) return found;
  const auto ran = ceiling->good_since == 0
                       ? std::string("below it again")
                       : fmt::format("growing again after {} good runs", ceiling->good_since);
  return BatchSize{ceiling->limit,
                   fmt::format("a batch of {} ran out of memory; {}", ceiling->failed, ran)};
}

FootprintFit through_origin(std::span<const Footprint> history) {
  double squares = 0, together = 0;
  for (const auto& f : history)
    if (!f.out_of_memory) {
      const auto x = static_cast<double>(f.batch_size);
      squares += x * x;
      together += x * static_cast<double>(f.bytes);
    }
  return {0, together / squares};
}

std::string row_name(std::uint64_t bytes) { return human_bytes(bytes) + " of memory"; }

// An agent whose usual batch and memory are known gets that batch, or its share in a
// smaller lease.
std::optional<BatchSize> of_custom(const BatchSizeQuery& q, std::uint64_t memory) {
  for (const auto& name : {q.agent, q.model_type}) {
    const auto usual = device::agent_default(name);
    if (!usual) continue;
    const double share = static_cast<double>(memory) / (usual->memory_gb * (1 << 30));
    return BatchSize{
        std::max<std::int64_t>(1, whole(static_cast<double>(usual->batch) * std::min(1.0, share))),
        fmt::format("{} usually runs batches of {} in {:g} GB", name, usual->batch,
                    usual->memory_gb)};
  }
  return std::nullopt;
}

// The settings of this agent or model, or else the row of its memory size.
BatchSize of_settings(const BatchSizeQuery& q, const device::GpuConfig& settings) {
  const auto profile = device::profile_of(settings);
  for (const auto& name : {q.agent, q.model_type}) {
    if (const auto set = settings.batch_sizes.find(name); set != settings.batch_sizes.end())
      return {set->second, fmt::format("gpu.batch_sizes sets it for {}", name)};
    if (!profile) continue;
    if (const auto set = profile->batch_sizes.find(name); set != profile->batch_sizes.end())
      return {set->second, fmt::format("the profile {} sets it for {}", profile->name, name)};
  }
  if (profile) return {profile->batch_size, fmt::format("the profile {} sets it", profile->name)};
  const auto memory = q.lease_bytes > 0 ? q.lease_bytes : q.card_bytes;
  if (memory == 0) return {settings.batch_size, "gpu.batch_size sets it"};
  if (auto usual = of_custom(q, memory)) return *std::move(usual);
  device::Card like{};
  like.memory_bytes = memory;
  const auto row = device::profile_defaults(like, settings.memory_fraction);
  if (settings.batch_size <= row.batch_size) return {settings.batch_size, "gpu.batch_size sets it"};
  return {row.batch_size, fmt::format("what {} usually carries; gpu.batch_size is {}",
                                      row_name(memory), settings.batch_size)};
}

}  // namespace

std::optional<FootprintFit> fit(std::span<const Footprint> history) {
  double n = 0, mean_x = 0, mean_y = 0;
  for (const auto& f : history)
    if (!f.out_of_memory) {
      n += 1;
      mean_x += (static_cast<double>(f.batch_size) - mean_x) / n;
      mean_y += (static_cast<double>(f.bytes) - mean_y) / n;
    }
  double spread = 0, together = 0;
  for (const auto& f : history)
    if (!f.out_of_memory) {
      const double dx = static_cast<double>(f.batch_size) - mean_x;
      spread += dx * dx;
      together += dx * (static_cast<double>(f.bytes) - mean_y);
    }
  if (spread <= 0 || together <= 0) return std::nullopt;
  const double each = together / spread;
  const double fixed = mean_y - each * mean_x;
  if (fixed >= 0) return FootprintFit{fixed, each};
  return through_origin(history);  // nothing takes less than no memory
}

BatchSize batch_size_for(const BatchSizeQuery& query, const device::GpuConfig& settings) {
  if (auto own = of_history(query)) return *own;
  if (query.plan && query.lease_bytes > 0 && query.plan->bytes_each > 0)
    return of_fit(*query.plan, query.lease_bytes, "its compiled plan");
  return of_settings(query, settings);
}

}  // namespace sluice::broker
