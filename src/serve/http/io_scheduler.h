// Round-robin by peer on the I/O thread of a shard. A socket that is ready does not run its
// connection at once: it queues behind its own peer's. So a peer with thousands of busy
// connections delays its own requests, and another's by one turn.
#pragma once

#include <boost/asio/async_result.hpp>
#include <deque>
#include <future>
#include <unordered_map>

#include "serve/http/net.h"

namespace sluice::serve::http {

// Used by the thread of `io` only.
class IoScheduler {
 public:
  explicit IoScheduler(io_context& io) : io_(io) {}
  IoScheduler(const IoScheduler&) = delete;
  IoScheduler& operator=(const IoScheduler&) = delete;

  using Peer = const void*;  // equal pointers are one; it lives while one of its turns is awaited

  // co_await turns.next(peer): goes on when it is this peer's turn.
  auto next(Peer peer) {
    Awaiting token;
    return asio::async_initiate<Awaiting, void()>(
        [this, peer](auto handler) { queue(peer, Turn(std::move(handler))); }, token);
  }

 private:
  using Turn = std::packaged_task<void()>;

  void queue(Peer peer, Turn turn);
  void run();
  Turn take();

  io_context& io_;
  bool is_posted_ = false;                             // run() is on its way
  std::unordered_map<Peer, std::deque<Turn>> queued_;  // none of them empty
  std::deque<Peer> order_;                             // each of queued_, once
};

}  // namespace sluice::serve::http
