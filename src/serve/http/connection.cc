#include "serve/http/connection.h"

#include <poll.h>

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>

#include "base/log.h"
#include "serve/address.h"
#include "serve/http/target.h"

namespace sluice::serve::http {

namespace {

constexpr std::size_t kFirstBuffer = 2 << 10;  // an ordinary request; idle clients hold no more
constexpr std::size_t kBodyBuffer = 64 << 10;
constexpr std::size_t kBatch = 256 << 10;         // of pipelined answers in one write
constexpr std::size_t kKeepBuffer = 64 << 10;     // larger ones are given back when done with
constexpr std::uint64_t kBodyOfNoUse = 64 << 10;  // read and dropped where a route takes none
constexpr int kBlockedAtMost = 256;
constexpr int kStreamSendBuffer = 256 << 10;
constexpr std::size_t kSlowestBytesPerSecond = 16 << 10;  // a client may take an answer this slowly
constexpr auto kLinger = std::chrono::seconds(2);
constexpr auto kDrainIdle = std::chrono::milliseconds(200);  // for a request already on its way

// Runs `f` in the pool; the coroutine goes on in its own loop.
template <class F>
auto in_pool(asio::thread_pool& pool, F f) {
  Awaiting token;
  return asio::async_initiate<Awaiting, void()>(
      [&pool, f = std::move(f)](auto handler) mutable {
        auto executor = asio::get_associated_executor(handler);
        asio::post(pool, [f = std::move(f), handler = std::move(handler),
                          busy = asio::make_work_guard(executor)]() mutable {
          f();
          asio::post(busy.get_executor(), std::move(handler));
        });
      },
      token);
}

}  // namespace

Connection::Connection(Shard& shard, Socket socket, bool over_socket)
    : shard_(shard),
      socket_(std::move(socket)),
      timer_(shard.io()),
      over_socket_(over_socket),
      number_(++shard.shared().connections_made) {
  const int fd = socket_.native_handle();
  request_.peer = over_socket_ ? unix_peer(fd) : tcp_peer(fd);
  knows_user_ = over_socket_;
}

// A server that ends takes nothing away from its clients: what they hold is there again
// when it is back.
Connection::~Connection() {
  client_left_.request_stop();
  if (bound_ && !shard_.draining() && shard_.shared().on_close)
    asio::post(shard_.shared().blocking,
               [&shared = shard_.shared(), number = number_] { shared.on_close(number); });
  if (place_) shard_.connections().erase(*place_);
  --shard_.shared().traffic.connections;
}

Task<void> Connection::run(std::unique_ptr<Connection> self) {
  auto& all = self->shard_.connections();
  self->place_ = all.insert(all.end(), self.get());
  self->now_ = Steady::now();
  self->enter(Phase::reading, self->shard_.limits().request_time);
  if (self->shard_.draining()) self->drain(self->now_);
  ErrorCode ignored;
  self->socket_.non_blocking(true, ignored);
  co_await self->serve();
  if (!self->gone_) co_await self->linger();
}

Task<void> Connection::serve() {
  for (;;) {
    const auto next = advance();
    if (!out_.empty()) {
      std::size_t written = 0;
      if (!flush_now(written)) co_await flush_rest(written);
      after_flush();
    }
    if (gone_ || next == Next::close) co_return;
    if (next == Next::stream) co_return co_await stream();
    if (next == Next::work && !co_await work()) co_return;
    if (next != Next::read) continue;
    std::size_t size = 0;
    char* to = before_read(size);
    ErrorCode failed;
    const auto n = co_await socket_.async_read_some(asio::buffer(to, size), into(failed));
    after_read(n, failed);
  }
}

char* Connection::before_read(std::size_t& size) {
  if (begin_ == end_ && !parser_) {
    enter(Phase::idle, bound_ ? Steady::duration::max() : shard_.limits().idle_time);
    if (shard_.draining()) drain(now_);
  }
  return room(size);
}

void Connection::after_read(std::size_t n, const ErrorCode& failed) {
  now_ = arrived_ = Steady::now();
  if (timed_out_) return;  // advance() says so to the client
  if (failed || n == 0) gone_ = true;
  end_ += n;
  if (phase_ == Phase::idle) enter(Phase::reading, shard_.limits().request_time);
}

char* Connection::room(std::size_t& size) {
  if (begin_ == end_) begin_ = end_ = 0;
  const bool body = parser_ && parser_->is_header_done();
  const auto most = std::max<std::size_t>(shard_.limits().header_bytes, kBodyBuffer) + kFirstBuffer;
  if (in_.empty() || (!parser_ && end_ == 0 && in_.size() > kKeepBuffer)) {
    in_ = std::vector<char>(kFirstBuffer);
  } else if (end_ == in_.size() && begin_ > 0) {
    std::copy(in_.begin() + static_cast<std::ptrdiff_t>(begin_),
              in_.begin() + static_cast<std::ptrdiff_t>(end_), in_.begin());
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == in_.size() || (body && in_.size() < kBodyBuffer))
    in_.resize(std::min(most, std::max(in_.size() * 2, body ? kBodyBuffer : std::size_t{0})));
  size = in_.size() - end_;
  return in_.data() + end_;
}

// Parses and answers what has arrived, until more is needed.
Connection::Next Connection::advance() {
  if (timed_out_) {
    ++shard_.shared().traffic.timed_out;
    return reply_and_close(error_response(408, "too_slow", "the request did not arrive in time",
                                          "Send it faster, or raise serve.request_timeout_s."));
  }
  while (!gone_) {
    if (out_.size() >= kBatch) return Next::again;
    if (begin_ == end_ && !parser_) return Next::read;
    if (!parser_) {
      parser_.emplace(request_, shard_.limits().header_bytes);
      match_.route = nullptr;
    }
    auto next = parse();
    if (next == Next::again) next = answer();
    if (next == Next::read) return next;
    parser_.reset();
    if (next != Next::again) return next;
  }
  return Next::close;
}

// Again: the request is complete.
Connection::Next Connection::parse() {
  while (!parser_->is_done()) {
    const bool had_header = parser_->is_header_done();
    ErrorCode failed;
    begin_ += parser_->put(asio::const_buffer(in_.data() + begin_, end_ - begin_), failed);
    if (failed == boost::beast::http::error::need_more) return Next::read;
    if (failed) return reply_and_close(parse_failure(failed, {in_.data() + begin_, end_ - begin_}));
    if (!had_header && parser_->is_header_done())
      if (const auto next = check_header(); next != Next::again) return next;
    if (begin_ == end_ && !parser_->is_done()) return Next::read;
  }
  return Next::again;
}

// Everything that can be refused before the body is read.
Connection::Next Connection::check_header() {
  parser_->finish_header();
  request_.over_socket = over_socket_;
  request_.connection = number_;
  if ((request_.version >= 11 && request_.host.empty()) || request_.repeated_host)
    return reply_and_close(error_response(400, "bad_request", "a request needs one Host field",
                                          "Send 'Host: ' with the server's address."));
  if (auto form = absolute_form(request_.target)) {  // its host counts, not the field's
    request_.host = form->authority;
    request_.target = std::move(form->path);
  }
  const bool any = request_.target == "*" && request_.method == Method::options;
  if (!any && !request_.target.starts_with('/'))
    return reply_and_close(error_response(400, "bad_request", "the request target is not a path",
                                          "Ask for a path such as /health."));
  if (!request_.host.empty() && !split_host(request_.host))
    return reply_and_close(error_response(400, "bad_request",
                                          "'" + request_.host + "' is no host with a port",
                                          "Name the server as in 'Host: localhost:8000'."));

  match_ = shard_.shared().router.find(request_);
  const bool open = match_.route != nullptr && match_.route->open;
  recognize(request_, shard_.guard());
  if (auto refused = refuse(request_, open, shard_.guard()))
    return request_.has_body ? reply_and_close(*std::move(refused)) : reply(*std::move(refused));
  if (match_.route == nullptr) {
    auto none = shard_.shared().router.refusal(request_, match_);
    return request_.has_body ? reply_and_close(std::move(none)) : reply(std::move(none));
  }
  const auto limit = match_.route->takes_body ? shard_.limits().body_bytes : kBodyOfNoUse;
  parser_->body_limit(limit);
  if (parser_->content_length().value_or(0) > limit)
    return reply_and_close(parse_failure(boost::beast::http::error::body_limit));
  if (request_.expects_continue && !parser_->is_done() && begin_ == end_)
    out_ += "HTTP/1.1 100 Continue\r\n\r\n";
  return Next::again;
}

Connection::Next Connection::answer() {
  if (match_.route == nullptr) return Next::again;  // refused in check_header, answered there
  const auto& route = *match_.route;
  if (route.blocking) {
    find_user(false);
    return Next::work;
  }
  if (route.reuse.count() > 0) return answer_kept();
  return reply(call(route));
}

// The route's last answer while it is fresh; otherwise a new one, kept.
Connection::Next Connection::answer_kept() {
  const auto& route = *match_.route;
  const bool plain = request_.keep_alive && request_.version == 11 && !shard_.draining() &&
                     request_.target.size() == route.pattern.size();
  if (!plain) return reply(call(route));
  auto& kept = shard_.kept(match_.index);
  if (arrived_ >= kept.until) {
    auto fresh = call(route);
    if (fresh.status != 200) return reply(std::move(fresh));
    kept.bytes.clear();
    write_response(fresh, {false, true, 11, shard_.date()}, kept.bytes);
    kept.header =
        kept.bytes.size() - (fresh.fixed.empty() ? fresh.body.size() : fresh.fixed.size());
    kept.until = arrived_ + route.reuse;
  }
  const bool head = request_.method == Method::head;
  out_.append(kept.bytes, 0, head ? kept.header : kept.bytes.size());
  answered_.push_back({match_.index, 200});
  return Next::again;
}

// Once per connection, and only for routes that may count or audit who asks: most clients only
// read what everybody may.
void Connection::find_user(bool may_read_table) {
  if (knows_user_) return;
  request_.peer.uid = local_uid(socket_.native_handle(), may_read_table);
  knows_user_ = request_.peer.uid >= 0 || may_read_table;
}

Response Connection::call(const Route& route) {
  try {
    return route.handler(request_);
  } catch (const Error& e) {
    if (e.code() == Code::internal)
      log::error("http: {} {}: {}", to_string(request_.method), request_.path(), e.what());
    return error_response(e);
  } catch (const std::exception& e) {
    log::error("http: {} {}: {}", to_string(request_.method), request_.path(), e.what());
    return error_response(Error(Code::internal, "the server failed to answer"));
  }
}

Connection::Next Connection::reply(Response response) {
  const bool head = request_.method == Method::head;
  const bool streams = response.stream != nullptr && !head;
  const bool keep = request_.keep_alive && !shard_.draining() && !streams;
  write_response(response, {head, keep, request_.version, shard_.date()}, out_);
  const auto route = match_.route != nullptr ? match_.index : shard_.shared().traffic.unmatched();
  answered_.push_back({route, response.status});
  if (streams) {
    streaming_ = std::move(response);
    return Next::stream;
  }
  if (!keep) return Next::close;
  match_.route = nullptr;  // answered: what check_header refused has no body to wait for
  return Next::again;
}

Connection::Next Connection::reply_and_close(Response response) {
  request_.keep_alive = false;
  response.stream.reset();
  return reply(std::move(response));
}

// False when the connection is to be closed.
Task<bool> Connection::work() {
  Response response;
  auto& blocked = shard_.shared().blocked;
  if (blocked.fetch_add(1) >= kBlockedAtMost) {
    --blocked;
    response =
        error_response(503, "exhausted", "too many questions at once", "Try again in a moment.");
    response.headers.emplace_back("Retry-After", "1");
  } else {
    enter(Phase::working, Steady::duration::max());
    client_left_ = std::stop_source();
    request_.stop = client_left_.get_token();
    co_await in_pool(shard_.shared().blocking, [&] {
      find_user(true);
      response = call(*match_.route);
    });
    --blocked;
  }
  if (response.binds) bound_ = true;
  if (response.pending) {
    pending_ = std::move(response.pending);
    response = co_await outwait();
  }
  client_left_ = std::stop_source(std::nostopstate);
  if (gone_) co_return false;
  const auto next = reply(std::move(response));
  std::size_t written = 0;
  if (!flush_now(written)) co_await flush_rest(written);
  after_flush();
  co_return next != Next::close;
}

Task<Response> Connection::outwait() {
  std::unique_ptr<Response> answer;
  while (!gone_ && !shard_.draining()) {
    Instant again = now_ = Steady::now();
    woken_ = false;
    answer = co_await ask_pending(again);
    if (answer) break;
    if (woken_) continue;  // by news that it may not have seen
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

Task<std::unique_ptr<Response>> Connection::ask_pending(Instant& again) {
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
    co_await in_pool(shard_.shared().blocking, ask);
  }
  co_return answer;
}

void Connection::drop_pending() {
  if (pending_ && pending_->blocks() && !shard_.draining())
    asio::post(shard_.shared().blocking, [left = std::move(pending_)] {});
  pending_.reset();
}

Task<void> Connection::stream() {
  auto& lane = shard_.lane();
  lane.streams(1);
  ErrorCode ignored;
  socket_.set_option(asio::socket_base::send_buffer_size(kStreamSendBuffer), ignored);
  while (!gone_ && !shard_.draining()) {
    now_ = Steady::now();
    const auto again = streaming_.stream->pull(now_, out_);
    if (out_.empty()) {
      enter(Phase::streaming, Steady::duration::max());
      timer_.expires_at(again);
      co_await timer_.async_wait(into(ignored));
      continue;
    }
    std::size_t written = 0;
    if (!flush_now(written)) co_await flush_rest(written);
    after_flush();
    co_await asio::post(shard_.io(), Awaiting{});  // a stream full of news is not alone here
  }
  lane.streams(-1);
}

// Whether everything went out at once. Most answers fit the socket's buffer, and
// then no operation has to be queued.
bool Connection::flush_now(std::size_t& written) {
  ErrorCode failed;
  written = socket_.write_some(asio::buffer(out_), failed);
  if (failed && failed != asio::error::would_block) gone_ = true;
  return gone_ || written == out_.size();
}

Task<void> Connection::flush_rest(std::size_t written) {
  const auto left = out_.size() - written;
  now_ = Steady::now();
  enter(Phase::writing,
        shard_.limits().request_time + std::chrono::seconds(left / kSlowestBytesPerSecond));
  ErrorCode failed;
  co_await asio::async_write(socket_, asio::buffer(out_.data() + written, left), into(failed));
  if (failed) gone_ = true;
  if (phase_ == Phase::writing) enter(Phase::reading, shard_.limits().request_time);
}

void Connection::after_flush() {
  auto& lane = shard_.lane();
  lane.sent(out_.size());
  if (!answered_.empty()) {
    now_ = Steady::now();
    const double seconds = seconds_between(arrived_, now_);
    for (const auto& a : answered_) lane.request(a.route, a.status, seconds);
    answered_.clear();
    enter(Phase::reading, shard_.limits().request_time);  // of the next one, if it has begun
  }
  if (out_.capacity() > kKeepBuffer)
    std::string().swap(out_);
  else
    out_.clear();
}

// Lets the client read the last answer before the connection goes: closing with
// unread bytes would reset it.
Task<void> Connection::linger() {
  ErrorCode failed;
  socket_.shutdown(asio::socket_base::shutdown_send, failed);
  now_ = Steady::now();
  enter(Phase::closing, shard_.draining() ? kDrainIdle : Steady::duration(kLinger));
  begin_ = end_ = 0;
  if (in_.empty()) in_.resize(kFirstBuffer);
  while (!failed) co_await socket_.async_read_some(asio::buffer(in_), into(failed));
}

void Connection::enter(Phase phase, Steady::duration at_most) {
  phase_ = phase;
  deadline_ = at_most == Steady::duration::max() ? Instant::max() : now_ + at_most;
}

// Nothing is read while an answer is waited for; what it sent ahead must not hide that it left.
bool Connection::has_left() {
  pollfd one{socket_.native_handle(), POLLRDHUP, 0};
  return ::poll(&one, 1, 0) > 0;
}

void Connection::sweep(Instant now) {
  if (phase_ == Phase::waiting && has_left()) return abort();
  // One that only sends no more still gets the answer of a handler that does not stop.
  if (phase_ == Phase::working && !client_left_.stop_requested() && has_left())
    client_left_.request_stop();
  if (now < deadline_) return;
  deadline_ = Instant::max();
  if (phase_ == Phase::reading && (parser_ || end_ > 0) && !timed_out_) {
    timed_out_ = true;
    ErrorCode ignored;
    socket_.cancel(ignored);
    return;
  }
  if (phase_ == Phase::writing) ++shard_.shared().traffic.timed_out;
  abort();
}

void Connection::wake() {
  if (pending_ && !pending_->has_news()) return;
  woken_ = true;
  if (phase_ == Phase::streaming || phase_ == Phase::waiting) timer_.cancel();
}

void Connection::drain(Instant now) {
  if (phase_ == Phase::idle || (phase_ == Phase::reading && end_ == 0 && !parser_))
    deadline_ = std::min(deadline_, now + kDrainIdle);
  timer_.cancel();
}

void Connection::abort() {
  gone_ = true;
  client_left_.request_stop();
  ErrorCode ignored;
  socket_.close(ignored);
  timer_.cancel();
}

}  // namespace sluice::serve::http
