#include "serve/http/io_scheduler.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace sluice::serve::http {

namespace {

// The time for scheduled requests before sockets are polled again.
constexpr auto kRun = std::chrono::microseconds(200);

}  // namespace

void IoScheduler::queue(Peer peer, Turn turn) {
  auto& own = queued_[peer];
  if (own.empty()) order_.push_back(peer);
  own.push_back(std::move(turn));
  if (!std::exchange(is_posted_, true)) asio::post(io_, [this] { run(); });
}

IoScheduler::Turn IoScheduler::take() {
  const auto own = queued_.find(order_.front());
  order_.pop_front();
  Turn turn = std::move(own->second.front());
  own->second.pop_front();
  if (own->second.empty())
    queued_.erase(own);
  else
    order_.push_back(own->first);
  return turn;
}

void IoScheduler::run() {
  const auto until = Steady::now() + kRun;
  do {
    take()();
  } while (!order_.empty() && Steady::now() < until);
  is_posted_ = !order_.empty();
  if (is_posted_) asio::post(io_, [this] { run(); });
}

}  // namespace sluice::serve::http
