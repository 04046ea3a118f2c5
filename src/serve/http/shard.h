// One thread of the server: its event loop, its connections and a copy of everything a request
// needs, so that answering takes no lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/fair_pool.h"
#include "serve/http/guard.h"
#include "serve/http/io_scheduler.h"
#include "serve/http/key_throttle.h"
#include "serve/http/net.h"
#include "serve/http/peer_load.h"
#include "serve/http/response_cache.h"
#include "serve/http/router.h"
#include "serve/traffic.h"

namespace sluice::serve::http {

class Connection;

struct Limits {
  std::uint32_t header_bytes = 16 << 10;
  std::uint64_t body_bytes = 64 << 20;
  Steady::duration request_time{}, idle_time{};
};

// A client that has just come.
struct Arrival {
  Socket socket;
  bool over_socket = false;
  Peer peer{};
  std::shared_ptr<PeerLoad::Entry> load{};
};

// State shared by the connections of all shards, which it outlives.
struct Shared {
  const Router& router;
  Traffic& traffic;
  FairPool& work;                      // runs the handlers that wait for a disk
  FairPool& leases;                    // and those of leases, which must not wait for the others
  SharedResponseCache response_cache;  // of the pools' handlers
  std::function<void(std::uint64_t connection)> on_close = nullptr;  // of those that were bound
  std::function<bool(std::uint64_t connection)> is_bound = nullptr;  // still
  std::atomic<std::uint64_t> connections_made{0};
  KeyThrottle keys{};
};

class Shard {
 public:
  Shard(Shared& shared, Traffic::Counters& counters, Limits limits, GuardConfig guard);
  ~Shard();

  io_context& io() noexcept { return io_; }

  // Any thread may call these four.
  void adopt(Arrival arrival);
  void reload(Limits limits, GuardConfig guard);
  void wake_streams();
  void drain();  // finish what is under way, then let run() return

  void run(const std::function<void()>& each_second);  // blocks until drained or stopped
  void abort() { io_.stop(); }

  // Used by connections, on the shard's own thread.
  Shared& shared() noexcept { return shared_; }
  Traffic::Counters& counters() noexcept { return counters_; }
  const Limits& limits() const noexcept { return limits_; }
  const GuardConfig& guard() const noexcept { return guard_; }
  std::string_view date() const noexcept { return date_; }
  bool draining() const noexcept { return draining_; }
  IoScheduler& scheduler() noexcept { return scheduler_; }
  std::list<Connection*>& connections() noexcept { return connections_; }
  ResponseCache& response_cache() noexcept { return response_cache_; }  // of handlers that run here
  // Ends an idle connection that nothing is bound to any more.
  void end_unless_bound(std::uint64_t connection, const std::shared_ptr<PeerLoad::Entry>& load);

 private:
  Task<void> tick(const std::function<void()>& each_second);
  void sweep(Instant now);
  void update_date();
  void wake_streams_soon();

  Shared& shared_;
  Traffic::Counters& counters_;
  Limits limits_;
  GuardConfig guard_;
  ResponseCache response_cache_;
  std::string date_;
  std::int64_t date_second_ = -1;
  bool draining_ = false;
  std::atomic<bool> is_waking_{false};
  bool wakes_soon_ = false;  // wake_timer_ runs
  Instant woken_at_{};       // when streams were pulled last
  std::list<Connection*> connections_;
  io_context io_{1};            // behind connections_: its end ends their coroutines
  IoScheduler scheduler_{io_};  // ends before io_, and ends those that wait in it
  Timer timer_{io_}, wake_timer_{io_};
};

}  // namespace sluice::serve::http
