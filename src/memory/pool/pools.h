// The named pools of a program: default, workspace, persistent and shared. Each is its
// own arena with its own strategy, safe to share between threads, counted, and asks the
// others to trim before it gives up.
//
//   Pools pools(settings.memory);
//   const auto mine = pools.lend("default", "scout");   // what it leaves behind is a leak
//   Buffer weights(*mine, bytes);
#pragma once

#include <functional>
#include <iterator>
#include <memory>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "memory/alloc/adaptors.h"
#include "memory/alloc/tracking.h"
#include "memory/pool/config.h"
#include "memory/pool/pool.h"

namespace sluice::memory {

// Makes the arena of a pool; `addresses` is enough for its ceiling.
using MakeArena =
    std::function<std::unique_ptr<Arena>(std::string_view pool, std::size_t addresses)>;
// Host memory; fewer addresses where the process may not have as many.
std::unique_ptr<Arena> make_host_arena(std::string_view pool, std::size_t addresses);

struct PoolsOptions {
  MakeArena make_arena = make_host_arena;
  std::function<void(const Leak&)> on_leak = {};      // the log, where there is none; the owner
  std::function<void(const Growth&)> on_growth = {};  // reads "pool/owner"
  double growth_window_s = 600;
  double growth_bytes_per_s = 1 << 20;  // at which on_growth is called
  std::vector<std::string_view> names{std::begin(kPoolNames), std::end(kPoolNames)};
  std::size_t budget = static_cast<std::size_t>(-1);  // committed at most, by all together
};

struct PoolReport {
  PoolStatistics pool;
  Counts counts;
  std::vector<OwnerUse> owners;
};

// Thread-safe.
class Pools {
 public:
  // Throws exhausted when an initial size cannot be had.
  explicit Pools(const MemoryConfig& config, PoolsOptions options = {});
  ~Pools();  // every block must be back

  // All of these throw not_found for a pool that does not exist.
  Allocator& get(std::string_view pool);
  std::unique_ptr<TrackedAllocator> lend(std::string_view pool, std::string_view owner);
  std::vector<Pool::Piece> map(std::string_view pool);
  void set_mover(std::string_view pool, void* pointer, std::size_t bytes, Pool::Mover mover);

  std::size_t trim() noexcept;  // all of them
  Moved defragment();           // likewise; no mover may use the pools
  void sample(Instant now);     // for growth; every few seconds
  std::vector<PoolReport> report();

 private:
  struct Named;
  Named& named(std::string_view pool);
  std::size_t trim_all_but(const Named& one) noexcept;
  std::vector<std::unique_ptr<Named>> pools_;  // never changes
};

Json to_json(const PoolStatistics& statistics);
Json to_json(const std::vector<PoolReport>& report);

}  // namespace sluice::memory
