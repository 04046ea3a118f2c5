#include "serve/http/shard.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "base/log.h"
#include "serve/http/connection.h"

namespace sluice::serve::http {

namespace {

constexpr auto kTick = std::chrono::milliseconds(100);  // how late a time limit may strike
// The interval of polling streams after an event: there may be thousands of streams and events.
constexpr auto kWakeEvery = std::chrono::milliseconds(20);

// The end of a coroutine: whatever it could not handle ends it alone.
void report_end(const std::exception_ptr& failed) {
  try {
    if (failed) std::rethrow_exception(failed);
  } catch (const std::exception& e) {
    log::error("http: a connection ended: {}", e.what());
  }
}

}  // namespace

Shard::Shard(Shared& shared, Traffic::Counters& counters, Limits limits, GuardConfig guard)
    : shared_(shared),
      counters_(counters),
      limits_(limits),
      guard_(std::move(guard)),
      response_cache_(shared.router.routes().size()) {
  update_date();
}

Shard::~Shard() = default;

void Shard::adopt(Arrival arrival) {
  ++shared_.traffic.connections;
  ++arrival.load->connections;
  auto connection = std::make_unique<Connection>(*this, std::move(arrival));
  asio::co_spawn(io_, Connection::run(std::move(connection)), report_end);
}

void Shard::reload(Limits limits, GuardConfig guard) {
  asio::post(io_, [this, limits, guard = std::move(guard)] {
    limits_ = limits;
    guard_ = guard;
  });
}

void Shard::wake_streams() {
  if (is_waking_.exchange(true)) return;  // one that is posted already sees this event too
  asio::post(io_, [this] {
    is_waking_ = false;
    for (auto* connection : connections_) connection->wake_pending();
    wake_streams_soon();
  });
}

void Shard::wake_streams_soon() {
  if (std::exchange(wakes_soon_, true)) return;
  wake_timer_.expires_at(woken_at_ + kWakeEvery);
  wake_timer_.async_wait([this](const ErrorCode& cancelled) {
    wakes_soon_ = false;
    if (cancelled) return;
    woken_at_ = Steady::now();
    for (auto* connection : connections_) connection->wake();
  });
}

void Shard::end_unless_bound(std::uint64_t number, const std::shared_ptr<PeerLoad::Entry>& load) {
  if (!shared_.is_bound) return;
  shared_.leases.post(load->name, FairPool::Work([this, number] {
                        if (shared_.is_bound(number)) return;
                        asio::post(io_, [this, number] {
                          const auto at =
                              std::ranges::find(connections_, number, &Connection::number);
                          if (at != connections_.end() && (*at)->is_idle())
                            (*at)->end(Connection::Unsent::discard);
                        });
                      }));
}

void Shard::drain() {
  asio::post(io_, [this] {
    draining_ = true;
    const auto now = Steady::now();
    for (auto* connection : connections_) connection->drain(now);
    timer_.cancel();
  });
}

void Shard::run(const std::function<void()>& each_second) {
  asio::co_spawn(io_, tick(each_second), report_end);
  io_.run();
}

Task<void> Shard::tick(const std::function<void()>& each_second) {
  auto second = Steady::now();
  while (!draining_ || !connections_.empty()) {
    ErrorCode cancelled;
    timer_.expires_after(kTick);
    co_await timer_.async_wait(into(cancelled));
    const auto now = Steady::now();
    update_date();
    sweep(now);
    response_cache_.evict_expired(now);
    if (each_second && now - second >= std::chrono::seconds(1)) {
      second = now;
      each_second();
    }
  }
}

void Shard::sweep(Instant now) {
  for (auto* connection : connections_) connection->sweep(now);
}

void Shard::update_date() {
  const auto now = std::chrono::system_clock::now();
  const auto second = unix_ms(now) / 1000;
  if (second == date_second_) return;
  date_second_ = second;
  date_ = http_date(now);
}

}  // namespace sluice::serve::http
