// Tracks memory by owner: usage, leaks and unbounded growth. Always on:
// the cost is a few atomic additions per block.
//
//   Tracker tracker;
//   {
//     TrackedAllocator scout(pool, tracker, "scout");
//     ...
//   }  // what is still out here is a leak of scout's, reported with its call sites
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/mutex.h"
#include "memory/alloc/allocator.h"

namespace sluice::memory {

#ifdef NDEBUG
inline constexpr bool kDebugBuild = false;
#else
inline constexpr bool kDebugBuild = true;
#endif

struct OwnerUse {
  std::string owner;
  std::size_t used = 0, peak = 0, count = 0;  // bytes out, the most, blocks out
  std::uint64_t allocations = 0;
  std::size_t leaked = 0;             // bytes that outlived their scope; not in used
  std::optional<double> bytes_per_s;  // growth over the window, once there is enough of it
};

struct CallSite {
  std::string where;  // innermost function first
  std::size_t bytes = 0, count = 0;
};
struct Leak {
  std::string owner;
  std::size_t bytes = 0, count = 0;
  std::vector<CallSite> sites;  // most bytes first; empty where they are not recorded
};
struct Growth {
  std::string owner;
  double bytes_per_s = 0, over_s = 0;
  std::size_t used = 0;
};
std::string to_string(const Leak& leak);
std::string to_string(const Growth& growth);

struct TrackerOptions {
  bool call_sites = kDebugBuild;                      // costs microseconds per block
  double window_s = 600;                              // growth is judged over this time
  double growth_bytes_per_s = 1 << 20;                // at which it is worth an alert
  std::function<void(const Leak&)> on_leak = {};      // the log, where there is none
  std::function<void(const Growth&)> on_growth = {};  // likewise; once per owner until it ends
};

// Thread-safe. Must outlive its allocators.
class Tracker {
 public:
  explicit Tracker(TrackerOptions options = {});
  ~Tracker();

  // Call it periodically, for example every few seconds. growth.h defines growth.
  void sample(Instant now);

  std::vector<OwnerUse> owners() const;  // by name

 private:
  friend class TrackedAllocator;
  struct Owner;
  Owner& owner(std::string_view name);
  void report(const Leak& leak) const;

  const TrackerOptions options_;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Owner>> owners_ GUARDED_BY(mutex_);  // by name; never removed
};

Json to_json(const OwnerUse& use);

// Counts for one owner. Safe to share when `upstream` is.
class TrackedAllocator final : public Allocator {
 public:
  TrackedAllocator(Allocator& upstream, Tracker& tracker, std::string_view owner);
  ~TrackedAllocator() override;  // end()
  TrackedAllocator(const TrackedAllocator&) = delete;
  TrackedAllocator& operator=(const TrackedAllocator&) = delete;

  [[nodiscard]] void* allocate(std::size_t bytes) override;
  void deallocate(void* pointer, std::size_t bytes) noexcept override;
  std::size_t trim() noexcept override { return upstream_.trim(); }

  std::size_t in_use() const noexcept { return bytes_.load(std::memory_order_relaxed); }

  // The lease or scope is over: what is out now is reported as a leak, once. Blocks may
  // still come back later.
  void end() noexcept;

 private:
  class Sites;
  Allocator& upstream_;
  Tracker& tracker_;
  Tracker::Owner& owner_;
  std::atomic<std::size_t> bytes_{0}, count_{0};
  std::atomic<bool> ended_{false};
  std::unique_ptr<Sites> sites_;  // null where call sites are not recorded
};

}  // namespace sluice::memory
