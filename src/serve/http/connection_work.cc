// Runs handlers in a thread pool while their client waits.
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include "base/log.h"
#include "serve/http/connection.h"

namespace sluice::serve::http {

namespace {

// Queued for longer than this, a request is dropped if its client has hung up.
constexpr auto kPatience = std::chrono::seconds(1);

// Runs `f` in the pool; the coroutine resumes in its own loop.
template <class F>
auto in_pool(FairPool& pool, const std::string& client, F f) {
  Awaiting token;
  return asio::async_initiate<Awaiting, void()>(
      [&pool, &client, f = std::move(f)](auto handler) mutable {
        auto executor = asio::get_associated_executor(handler);
        pool.post(client, FairPool::Work([f = std::move(f), handler = std::move(handler),
                                          busy = asio::make_work_guard(executor)]() mutable {
                    f();
                    asio::post(busy.get_executor(), std::move(handler));
                  }));
      },
      token);
}

}  // namespace

FairPool& Connection::pool() noexcept {
  auto& shared = shard_.shared();
  return match_.route->execution == Execution::in_lease_pool ? shared.leases : shared.work;
}

// Runs once per connection, and only for routes that count or audit the requester: most clients
// only read public values.
void Connection::find_user(bool may_read_table) {
  if (knows_user_) return;
  const auto found = local_user(socket_.native_handle(), may_read_table);
  request_.peer.uid = found.uid;
  hung_up_unknown_ = found.has_hung_up;
  knows_user_ = request_.peer.uid != -1 || may_read_table;
}

Response Connection::call(const Route& route) {
  try {
    return route.handler(request_);
  } catch (const Error& e) {
    if (e.code() == Code::internal)
      log::error("http: {} {}: {}", to_string(request_.method), request_.path(), e.what());
    return error_response(e);
  } catch (const std::bad_alloc&) {
    return out_of_memory_response();
  } catch (const std::exception& e) {
    log::error("http: {} {}: {}", to_string(request_.method), request_.path(), e.what());
    return error_response(Error(Code::internal, "the server failed to answer"));
  }
}

// Runs on a pool thread. A client that hung up before it was identified would have a second
// identity with limits of its own, so it gets nothing; nobody hears the answer. Concurrent requests
// for the same answer wait for one and share it.
ResponseCache::Shared Connection::call_or_find(Response& response) {
  const auto& route = *match_.route;
  auto& recent = shard_.shared().response_cache;
  const bool reuse = route.reuse.count() > 0 && query_.has_value();
  if (reuse)
    if (auto kept = recent.find(match_.index, *query_, Steady::now())) return kept;
  find_user(true);
  if (hung_up_unknown_ && !route.serves_hung_up) {
    gone_ = true;
    return nullptr;
  }
  if (over_socket_) forget_ended(request_.peer, socket_.native_handle());
  response = call(route);
  if (!reuse || response.status != 200) return nullptr;
  const auto date = http_date(std::chrono::system_clock::now());
  return recent.keep(match_.index, *query_, std::move(response), date, Steady::now() + route.reuse);
}

// False when the connection is to be closed.
Task<bool> Connection::work() {
  Response response;
  ResponseCache::Shared kept;
  if (!pool().has_capacity(load_->name)) {
    response =
        error_response(503, "exhausted", "too many requests at once", "Try again in a moment.");
  } else {
    find_user(false);
    enter(Phase::working, Steady::duration::max());
    co_await in_pool(pool(), load_->name, [&, queued = Steady::now()] {
      // A client that only shut down its sending side looks the same, and is answered in time.
      gone_ = Steady::now() - queued > kPatience && has_left();
      if (!gone_) kept = call_or_find(response);
    });
  }
  if (response.pending) {
    pending_ = std::move(response.pending);
    std::string().swap(request_.body);  // read: what waits has what it needs
    account();
    response = co_await await_pending();
  }
  if (response.binds) bound_ = true;
  if (gone_) co_return false;
  const auto next = kept ? reply_cached(kept) : reply(std::move(response));
  std::size_t written = 0;
  if (!flush_now(written)) co_await flush_rest(written);
  after_flush();
  if (next == Next::chunks) co_return co_await send_chunks();
  co_return next != Next::close;
}

Task<Response> Connection::await_pending() {
  std::unique_ptr<Response> answer;
  while (!gone_ && !shard_.draining()) {
    Instant again = now_ = Steady::now();
    woken_ = false;
    answer = co_await poll_pending(again);
    if (answer) break;
    // An update that it may not have seen; drain() may have come meanwhile.
    if (woken_ || shard_.draining()) continue;
    enter(Phase::waiting, Steady::duration::max());
    timer_.expires_at(again);
    ErrorCode woken;
    co_await timer_.async_wait(into(woken));
  }
  if (answer) {
    pending_.reset();
    co_return std::move(*answer);
  }
  drop_pending();
  co_return error_response(503, "unavailable", "the server is stopping", "Ask again in a moment.");
}

Task<std::unique_ptr<Response>> Connection::poll_pending(Instant& again) {
  std::unique_ptr<Response> answer;
  const auto ask = [&, now = now_] {
    try {
      answer = pending_->poll(now, again);
    } catch (const Error& e) {
      answer = std::make_unique<Response>(error_response(e));
    } catch (const std::exception& e) {
      log::error("http: {} {}: {}", to_string(request_.method), request_.path(), e.what());
      answer = std::make_unique<Response>(
          error_response(Error(Code::internal, "the server failed to answer")));
    }
  };
  if (!pending_->blocks()) {
    ask();
  } else {
    enter(Phase::working, Steady::duration::max());
    co_await in_pool(pool(), load_->name, ask);
  }
  co_return answer;
}

void Connection::drop_pending() {
  if (pending_ && pending_->blocks() && !shard_.draining())
    pool().post(load_->name, FairPool::Work([left = std::move(pending_)] {}));
  pending_.reset();
}

}  // namespace sluice::serve::http
