#include "memory/alloc/tracking.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/units.h"
#include "memory/alloc/call_sites.h"
#include "memory/alloc/growth.h"

namespace sluice::memory {

struct Tracker::Owner {
  Owner(std::string_view owner_name, double window_s) : name(owner_name), window(window_s) {}

  void take(std::size_t bytes) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    count.fetch_add(1, std::memory_order_relaxed);
    const std::size_t now = used.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    std::size_t old_peak = peak.load(std::memory_order_relaxed);
    while (now > old_peak &&
           !peak.compare_exchange_weak(old_peak, now, std::memory_order_relaxed)) {
    }
  }
  void give(std::size_t bytes) {
    used.fetch_sub(bytes, std::memory_order_relaxed);
    count.fetch_sub(1, std::memory_order_relaxed);
  }

  const std::string name;
  std::atomic<std::size_t> used{0}, peak{0}, count{0}, leaked{0};
  std::atomic<std::uint64_t> allocations{0};
  GrowthWindow window;   // this and the next under the tracker's mutex
  bool growing = false;  // and reported
};

std::string to_string(const Leak& leak) {
  std::string text =
      fmt::format("{} leaked {} in {} blocks", leak.owner, human_bytes(leak.bytes), leak.count);
  for (const CallSite& site : leak.sites)
    text +=
        fmt::format("\n  {} in {} blocks from {}", human_bytes(site.bytes), site.count, site.where);
  return text;
}

std::string to_string(const Growth& growth) {
  return fmt::format("{} grows by {} a minute since {}; it holds {}", growth.owner,
                     human_bytes(static_cast<std::uint64_t>(growth.bytes_per_s * 60)),
                     human_duration(growth.over_s), human_bytes(growth.used));
}

Tracker::Tracker(TrackerOptions options) : options_(std::move(options)) {}
Tracker::~Tracker() = default;

Tracker::Owner& Tracker::owner(std::string_view name) {
  const Lock lock(mutex_);
  const auto at = std::lower_bound(owners_.begin(), owners_.end(), name,
                                   [](const auto& a, std::string_view b) { return a->name < b; });
  if (at != owners_.end() && (*at)->name == name) return **at;
  return **owners_.insert(at, std::make_unique<Owner>(name, options_.window_s));
}

void Tracker::report(const Leak& leak) const {
  if (options_.on_leak)
    options_.on_leak(leak);
  else
    log::warn("memory: {}", to_string(leak));
}

void Tracker::sample(Instant now) {
  const double t = Seconds(now.time_since_epoch()).count();
  std::vector<Growth> found;
  {
    const Lock lock(mutex_);
    for (const auto& owner : owners_) {
      const std::size_t used = owner->used.load(std::memory_order_relaxed);
      owner->window.add(t, static_cast<double>(used));
      const double slope = owner->window.growth_per_s(owner->growing).value_or(0);
      if (!owner->growing && slope >= options_.growth_bytes_per_s)
        found.push_back({owner->name, slope, t - owner->window.since(), used});
      // Half the threshold ends it, so that a slope at the edge is reported once.
      owner->growing = slope >= options_.growth_bytes_per_s / (owner->growing ? 2 : 1);
    }
  }
  for (const Growth& growth : found) {
    if (options_.on_growth)
      options_.on_growth(growth);
    else
      log::warn("memory: {}", to_string(growth));
  }
}

std::vector<OwnerUse> Tracker::owners() const {
  const Lock lock(mutex_);
  std::vector<OwnerUse> all;
  for (const auto& owner : owners_) {
    OwnerUse use{owner->name,        owner->used,   owner->peak, owner->count,
                 owner->allocations, owner->leaked, std::nullopt};
    if (const auto line = owner->window.line()) use.bytes_per_s = line->per_s;
    all.push_back(std::move(use));
  }
  return all;
}

Json to_json(const OwnerUse& use) {
  Json json{{"owner", use.owner},
            {"used", use.used},
            {"peak", use.peak},
            {"count", use.count},
            {"allocations", use.allocations},
            {"leaked", use.leaked}};
  if (use.bytes_per_s) json["bytes_per_s"] = *use.bytes_per_s;
  return json;
}

TrackedAllocator::TrackedAllocator(Allocator& upstream, Tracker& tracker, std::string_view owner)
    : upstream_(upstream),
      tracker_(tracker),
      owner_(tracker.owner(owner)),
      sites_(tracker.options_.call_sites ? std::make_unique<Sites>() : nullptr) {}

TrackedAllocator::~TrackedAllocator() {
  end();
  const std::size_t bytes = bytes_, count = count_;
  owner_.leaked.fetch_add(bytes, std::memory_order_relaxed);
  owner_.used.fetch_sub(bytes, std::memory_order_relaxed);
  owner_.count.fetch_sub(count, std::memory_order_relaxed);
}

void* TrackedAllocator::allocate(std::size_t bytes) {
  void* const pointer = upstream_.allocate(bytes);
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  count_.fetch_add(1, std::memory_order_relaxed);
  owner_.take(bytes);
  if (sites_) sites_->add(pointer, bytes);
  return pointer;
}

void TrackedAllocator::deallocate(void* pointer, std::size_t bytes) noexcept {
  if (sites_) sites_->remove(pointer);  // before another can get the same address
  upstream_.deallocate(pointer, bytes);
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  count_.fetch_sub(1, std::memory_order_relaxed);
  owner_.give(bytes);
}

void TrackedAllocator::end() noexcept {
  const std::size_t bytes = bytes_, count = count_;
  if (count == 0 || ended_.exchange(true)) return;
  try {
    tracker_.report({owner_.name, bytes, count, sites_ ? sites_->out() : std::vector<CallSite>{}});
  } catch (const std::exception& e) {
    log::error("memory: a leak of {} could not be reported: {}", owner_.name, e.what());
  }
}

}  // namespace sluice::memory
