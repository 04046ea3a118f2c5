#include "serve/http/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <boost/beast/http/error.hpp>

#include "serve/address.h"
#include "serve/http/target.h"
#include "serve/http/unsent.h"

namespace sluice::serve::http {

namespace {

constexpr std::size_t kFirstBuffer = 2 << 10;  // an ordinary request; idle clients hold no more
constexpr std::size_t kBodyBuffer = 64 << 10;
constexpr std::size_t kBatch = 64 << 10;          // of pipelined answers in one write
constexpr std::size_t kAnswersInTurn = 8;         // of one client, before others are served
constexpr std::size_t kIdleBuffer = 8 << 10;      // larger ones are given back when done with
constexpr std::size_t kFreeOfCharge = 24 << 10;   // a small request is taken whatever others hold
constexpr std::uint64_t kBodyOfNoUse = 64 << 10;  // read and dropped where a route takes none
constexpr int kReadsInSweep = 16;                 // of what a client sends without being asked
constexpr auto kDrainIdle = std::chrono::milliseconds(200);  // for a request already on its way

}  // namespace

Connection::Connection(Shard& shard, Arrival arrival)
    : shard_(shard),
      socket_(std::move(arrival.socket)),
      timer_(shard.io()),
      over_socket_(arrival.over_socket),
      number_(++shard.shared().connections_made),
      load_(std::move(arrival.load)),
      memory_(load_->memory) {
  request_.memory = {load_, &load_->memory};
  request_.held = MemoryBudget::Charge(load_->memory);
  request_.peer = std::move(arrival.peer);
  knows_user_ = over_socket_ || request_.peer.uid != -1;
}

Connection::~Connection() {
  auto& shared = shard_.shared();
  unbind();
  if (!shard_.draining()) close_and_discard(socket_);
  if (place_) shard_.connections().erase(*place_);
  --load_->connections;
  --shared.traffic.connections;
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
  co_await self->close();
}

Task<void> Connection::serve() {
  for (;;) {
    if (!has_few_connections()) co_await shard_.scheduler().next(load_.get());
    const auto next = advance();
    if (!out_.empty()) {
      std::size_t written = 0;
      if (!flush_now(written)) co_await flush_rest(written);
      after_flush();
    }
    if (gone_ || next == Next::close) co_return;
    if (next == Next::stream) co_return co_await stream();
    if (next == Next::chunks && !co_await send_chunks()) co_return;
    if (next == Next::work && !co_await work()) co_return;
    if (next == Next::again && has_few_connections()) co_await asio::post(shard_.io(), Awaiting{});
    if (next != Next::read) continue;
    std::size_t size = 0;
    char* to = before_read(size);
    ErrorCode failed;
    const auto n = co_await socket_.async_read_some(asio::buffer(to, size), into(failed));
    after_read(n, failed);
  }
}

// Lets other ready connections run first.
Task<void> Connection::yield_to_others() {
  if (has_few_connections())
    co_await asio::post(shard_.io(), Awaiting{});
  else
    co_await shard_.scheduler().next(load_.get());
}

char* Connection::before_read(std::size_t& size) {
  if (begin_ == end_ && !parser_) {
    request_.release_memory();
    enter(Phase::idle, shard_.limits().idle_time);
    if (shard_.draining()) drain(now_);
  }
  auto* to = read_buffer(size);
  if (memory_.bytes() + request_.held.bytes() > 0 && !parser_) account();
  return to;
}

void Connection::after_read(std::size_t n, const ErrorCode& failed) {
  now_ = arrived_ = Steady::now();
  if (timed_out_) return;  // advance() says so to the client
  if (failed || n == 0) gone_ = true;
  end_ += n;
  if (phase_ == Phase::idle) enter(Phase::reading, shard_.limits().request_time);
}

// The maximum of unparsed bytes: a longer header, or line between chunks, is refused.
std::size_t Connection::max_unread() const noexcept {
  return std::max<std::size_t>(shard_.limits().header_bytes, kBodyBuffer) + kFirstBuffer;
}

// The maximum size of a body, which must fit beside the read buffer.
std::uint64_t Connection::max_body_held() const noexcept {
  const auto limit = load_->memory.limit();
  return limit - std::min<std::uint64_t>(limit / 2, max_unread());
}

char* Connection::read_buffer(std::size_t& size) {
  if (begin_ == end_) begin_ = end_ = 0;
  const bool large_body = parser_ && parser_->is_header_done() &&
                          parser_->content_length_remaining().value_or(0) > in_.size();
  if (in_.empty() || (!parser_ && end_ == 0 && in_.size() > kIdleBuffer)) {
    in_ = std::vector<char>(kFirstBuffer);
  } else if (end_ == in_.size() && begin_ > 0) {
    std::copy(in_.begin() + static_cast<std::ptrdiff_t>(begin_),
              in_.begin() + static_cast<std::ptrdiff_t>(end_), in_.begin());
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == in_.size() || (large_body && in_.size() < kBodyBuffer))
    in_.resize(
        std::min(max_unread(), std::max(in_.size() * 2, large_body ? kBodyBuffer : kFirstBuffer)));
  size = in_.size() - end_;
  return in_.data() + end_;
}

// Charges the memory of this client to its budget, except a small free amount. Returns false when
// the budget does not allow it.
bool Connection::account() {
  const auto beyond = [](std::size_t n, std::size_t free) { return n > free ? n - free : 0; };
  const auto buffers = request_.fields_capacity() + in_.capacity() + out_.capacity() +
                       (large_ ? large_->capacity() : 0);
  const auto for_body = beyond(request_.body.capacity(), beyond(kFreeOfCharge, buffers));
  if (for_body < request_.held.bytes())  // first: the answer may need this budget
    (void)request_.held.resize(for_body);
  return memory_.resize(beyond(buffers, kFreeOfCharge)) && request_.held.resize(for_body);
}

// Parses and answers what has arrived, until more is needed.
Connection::Next Connection::advance() {
  if (timed_out_) {
    ++shard_.shared().traffic.timed_out;
    return reply_and_close(error_response(408, "too_slow", "the request did not arrive in time",
                                          "Send it faster, or raise serve.request_timeout_s."));
  }
  while (!gone_) {
    if (large_ || out_.size() >= kBatch || answered_.size() >= kAnswersInTurn) return Next::again;
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
    if (failed == boost::beast::http::error::need_more) {
      if (end_ - begin_ < max_unread()) return Next::read;
      return reply_and_close(
          error_response(400, "bad_request", "a line between the chunks of the body is too long",
                         "Send chunks without extensions and a body without trailers."));
    }
    if (failed == boost::beast::http::error::body_limit)
      return reply_and_close(body_too_large(body_limit_));
    if (failed) return reply_and_close(parse_failure(failed, {in_.data() + begin_, end_ - begin_}));
    if (!had_header && parser_->is_header_done())
      if (const auto next = check_header(); next != Next::again) return next;
    if (had_header && !account()) {
      std::string().swap(request_.body);
      return reply_and_close(out_of_memory_response());
    }
    if (begin_ == end_ && !parser_->is_done()) return Next::read;
  }
  return Next::again;
}

// Returns the error of an invalid request line or Host field.
std::optional<Response> Connection::malformed() {
  if ((request_.version >= 11 && request_.host.empty()) || request_.repeated_host)
    return error_response(400, "bad_request", "a request needs one Host field",
                          "Send 'Host: ' with the server's address.");
  if (auto form = absolute_form(request_.target)) {  // its host counts, not the field's
    request_.host = form->authority;
    request_.target = std::move(form->path);
  }
  const bool any = request_.target == "*" && request_.method == Method::options;
  if (!any && !request_.target.starts_with('/'))
    return error_response(400, "bad_request", "the request target is not a path",
                          "Ask for a path such as /health.");
  if (!request_.host.empty() && !split_host(request_.host))
    return error_response(400, "bad_request", "'" + request_.host + "' is no host with a port",
                          "Name the server as in 'Host: localhost:8000'.");
  return std::nullopt;
}

// An unread body would be parsed as the next request, so the connection is closed after the reply.
Connection::Next Connection::refused(Response response) {
  return request_.has_body ? reply_and_close(std::move(response)) : reply(std::move(response));
}

// Everything that can be refused before the body is read.
Connection::Next Connection::check_header() {
  parser_->finish_header();
  request_.over_socket = over_socket_;
  request_.connection = number_;
  if (auto wrong = malformed()) return reply_and_close(*std::move(wrong));
  if (const auto cause = query_too_long(request_.query()); !cause.empty())
    return refused(error_response(414, "query_too_long", cause, "Ask for less at once."));
  match_ = shard_.shared().router.find(request_);
  const bool open = match_.route != nullptr && match_.route->open;
  if (auto no = check_key(open)) return refused(*std::move(no));
  if (auto no = refuse(request_, open, shard_.guard())) return refused(*std::move(no));
  if (match_.route == nullptr) return refused(shard_.shared().router.refusal(request_, match_));
  const auto& route = *match_.route;
  body_limit_ = route.max_body == 0
                    ? kBodyOfNoUse
                    : std::min({route.max_body, shard_.limits().body_bytes, max_body_held()});
  parser_->body_limit(body_limit_);
  if (parser_->content_length().value_or(0) > body_limit_)
    return reply_and_close(body_too_large(body_limit_));
  const bool may_continue = request_.version >= 11;  // RFC 9110, 10.1.1: HTTP/1.0 has no 1xx
  if (may_continue && request_.expects_continue && !parser_->is_done() && begin_ == end_)
    out_ += "HTTP/1.1 100 Continue\r\n\r\n";
  return Next::again;
}

// Checks the key if one was sent and one is required, unless the throttle blocks this peer.
std::optional<Response> Connection::check_key(bool open) {
  const auto& guard = shard_.guard();
  auto& shared = shard_.shared();
  const bool looks = needs_key(request_) && !open && sends_key(request_) && wants_keys(guard);
  if (looks && !has_shown_key_ && !shared.keys.is_quiet()) {
    find_user(false);
    if (!shared.keys.may_try(request_.peer, now_)) {
      ++shared.traffic.throttled_keys;
      return too_many_keys();
    }
  }
  recognize(request_, guard);
  if (!looks) return std::nullopt;
  has_shown_key_ = !request_.peer.key.empty();
  if (has_shown_key_) return std::nullopt;
  find_user(false);
  ++shared.traffic.wrong_keys;
  shared.keys.failed(request_.peer, now_);
  return std::nullopt;
}

Connection::Next Connection::answer() {
  if (match_.route == nullptr) return Next::again;  // refused in check_header, answered there
  const auto& route = *match_.route;
  if (route.reuse.count() > 0) return answer_cached();
  if (route.execution != Execution::on_io_thread) return Next::work;
  return reply(call(route));
}

void Connection::enter(Phase phase, Steady::duration at_most) {
  phase_ = phase;
  deadline_ = at_most == Steady::duration::max() ? Instant::max() : now_ + at_most;
}

// Pipelined bytes must not hide that the client left.
bool Connection::has_left() {
  pollfd one{socket_.native_handle(), POLLRDHUP, 0};
  return ::poll(&one, 1, 0) > 0;
}

// Whether the client of a Unix socket closed it: one that only ended its own side still reads.
bool Connection::is_closed_there() {
  pollfd one{socket_.native_handle(), 0, 0};
  return ::poll(&one, 1, 0) > 0 && (one.revents & POLLHUP) != 0;
}

// During a stream no request is read. A client may have sent descriptors of its own end: unread,
// they would keep it open, and the stream running, when its process has ended.
void Connection::discard_input() {
  char unread[4096];
  for (int i = 0; i < kReadsInSweep; ++i)
    if (::recv(socket_.native_handle(), unread, sizeof unread, MSG_DONTWAIT) <= 0) return;
}

// While an answer is pending, nothing is parsed, and over TCP nothing is read. Over a Unix socket
// unread descriptors of the client's own end would keep it open, and the request waiting, when its
// process has ended. recv() closes them; the bytes are kept, since they may be the next request.
// False where they are more than the buffer takes: to leave the rest would leave its descriptors.
bool Connection::read_ahead() {
  for (int i = 0; i < kReadsInSweep; ++i) {
    std::size_t size = 0;
    char* const to = read_buffer(size);
    if (size == 0) return false;
    const auto n = ::recv(socket_.native_handle(), to, size, MSG_DONTWAIT);
    if (n <= 0) return true;
    end_ += static_cast<std::size_t>(n);
    if (!account()) return false;
  }
  return true;
}

void Connection::sweep(Instant now) {
  if (phase_ == Phase::streaming && over_socket_) {
    discard_input();
    if (is_closed_there()) return end(Unsent::discard);
  }
  if (phase_ == Phase::waiting && ((over_socket_ && !read_ahead()) || has_left()))
    return end(Unsent::keep);
  if (now < deadline_) return;
  deadline_ = Instant::max();
  if (phase_ == Phase::closing) return close_at_deadline(now);
  if (phase_ == Phase::reading && (parser_ || end_ > 0) && !timed_out_) {
    timed_out_ = true;
    ErrorCode ignored;
    socket_.cancel(ignored);
    return;
  }
  if (phase_ == Phase::idle && bound_ && !shard_.draining()) {
    deadline_ = now + shard_.limits().idle_time;
    return shard_.end_unless_bound(number_, load_);
  }
  if (phase_ == Phase::writing) ++shard_.shared().traffic.timed_out;
  end(Unsent::discard);
}

void Connection::wake() {
  wake_pending();
  if (phase_ == Phase::streaming) timer_.cancel();
}

void Connection::wake_pending() {
  if (!pending_ || !pending_->has_update()) return;
  woken_ = true;
  if (phase_ == Phase::waiting) timer_.cancel();
}

void Connection::drain(Instant now) {
  if (phase_ == Phase::idle || phase_ == Phase::closing ||
      (phase_ == Phase::reading && end_ == 0 && !parser_))
    deadline_ = std::min(deadline_, now + kDrainIdle);
  timer_.cancel();
}

void Connection::end(Unsent unsent) {
  gone_ = true;
  discards_ = discards_ || unsent == Unsent::discard;
  ErrorCode ignored;
  socket_.cancel(ignored);
  timer_.cancel();
}

}  // namespace sluice::serve::http
