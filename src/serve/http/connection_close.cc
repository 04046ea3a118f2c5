// How connections end. What the kernel still holds for a client counts as the client's connection
// until it is taken or discarded.
#include <algorithm>

#include "serve/http/connection.h"
#include "serve/http/unsent.h"

namespace sluice::serve::http {

namespace {

constexpr auto kLinger = std::chrono::seconds(2);
constexpr auto kLingerDraining = std::chrono::milliseconds(200);
constexpr auto kFirstLook = std::chrono::milliseconds(1),
               kMaxPause = std::chrono::milliseconds(256);

}  // namespace

// Lets the client read the last answer before the connection goes: closing with unread bytes would
// reset it. A client that ended its side first gets its answers, too. sweep() limits the time.
Task<void> Connection::close() {
  unbind();
  release_memory();
  if (discards_ && !over_socket_) co_return close_and_discard(socket_);
  ErrorCode failed;
  socket_.shutdown(asio::socket_base::shutdown_send, failed);
  now_ = Steady::now();
  enter(Phase::closing, shard_.draining() ? Steady::duration(kLingerDraining) : kLinger);
  while (!failed) co_await socket_.async_read_some(asio::buffer(in_), into(failed));
  if (failed == asio::error::eof) co_await until_taken();
  close_and_discard(socket_);
}

Task<void> Connection::until_taken() {
  ErrorCode ignored;
  for (std::chrono::milliseconds pause = kFirstLook;
       socket_.is_open() && unsent_in_kernel(socket_) > 0 && !was_reset(socket_);
       pause = std::min(2 * pause, kMaxPause)) {
    timer_.expires_after(pause);
    co_await timer_.async_wait(into(ignored));
  }
}

// Closes, but first gives a slow client time for the rest. A Unix socket stays open, and counted,
// until the client has taken all or has closed its end: nothing else frees what is in its queue.
void Connection::close_at_deadline(Instant now) {
  const auto left = unsent_in_kernel(socket_);
  if (left > 0 && !is_last_wait_ && !shard_.draining()) {
    is_last_wait_ = true;
    deadline_ = now + time_to_send(left);
    return;
  }
  if (left > 0 && over_socket_ && !shard_.draining()) {
    ErrorCode ignored;  // the end of reading: close() goes on to until_taken()
    socket_.shutdown(asio::socket_base::shutdown_receive, ignored);
    return;
  }
  close_and_discard(socket_);
  timer_.cancel();
}

void Connection::release_memory() {
  begin_ = end_ = 0;
  in_ = std::vector<char>(std::min<std::size_t>(std::max<std::size_t>(in_.size(), 2048), 16384));
  parser_.reset();
  request_.release_memory();
  std::string().swap(request_.body);
  streaming_ = {};
  account();
}

// A server that stops does not release its clients' leases: they are in force after the restart.
void Connection::unbind() {
  auto& shared = shard_.shared();
  if (std::exchange(bound_, false) && !shard_.draining() && shared.on_close)
    shared.leases.post(load_->name,
                       FairPool::Work([&shared, number = number_] { shared.on_close(number); }));
}

}  // namespace sluice::serve::http
