// Writes answers: small ones together, large ones separately, streams in pieces.
#include <array>
#include <boost/asio/write.hpp>
#include <charconv>

#include "base/log.h"
#include "base/units.h"
#include "serve/http/connection.h"
#include "serve/http/target.h"

namespace sluice::serve::http {

namespace {

constexpr std::size_t kLargeBody = 64 << 10;    // sent from where it is, not copied behind others
constexpr std::size_t kKeepAnswers = 64 << 10;  // a larger buffer is given back when it is sent
constexpr std::size_t kWrittenAtOnce = 256 << 10;         // of one answer, before others' turns
constexpr std::size_t kSlowestBytesPerSecond = 64 << 10;  // a client may take an answer this slowly

const std::string kNone;

// `a` and at most `max_of_b` bytes of `b` as two buffers, without the first `skipped` bytes.
std::array<asio::const_buffer, 2> behind(std::size_t skipped, const std::string& a,
                                         const std::string& b,
                                         std::size_t max_of_b = std::string::npos) {
  const auto of_a = std::min(skipped, a.size());
  return {asio::buffer(a) + of_a, asio::buffer(b, max_of_b) + (skipped - of_a)};
}

void append_chunk(std::string_view piece, bool is_last, std::string& out) {
  if (!piece.empty()) {
    char size[16];
    const auto end = std::to_chars(size, size + sizeof size, piece.size(), 16).ptr;
    out.append(size, end).append("\r\n").append(piece).append("\r\n");
  }
  if (is_last) out += "0\r\n\r\n";
}

}  // namespace

// Replies with the route's cached answer while it is fresh, otherwise with a new one, which is
// cached.
Connection::Next Connection::answer_cached() {
  const auto& route = *match_.route;
  const bool at_once = route.execution == Execution::on_io_thread;
  query_ = canonical_query(request_.query());
  if (!query_) return at_once ? reply(call(route)) : Next::work;  // it says what is wrong
  auto kept = at_once ? shard_.response_cache().find(match_.index, *query_, arrived_)
                      : shard_.shared().response_cache.find(match_.index, *query_, arrived_);
  if (!kept && !at_once) return Next::work;
  if (!kept) {
    auto fresh = call(route);
    if (fresh.status != 200) return reply(std::move(fresh));
    kept = shard_.response_cache().keep(match_.index, *query_, std::move(fresh), shard_.date(),
                                        arrived_ + route.reuse);
  }
  return reply_cached(kept);
}

Connection::Next Connection::reply_cached(const ResponseCache::Shared& kept) {
  const bool head = request_.method == Method::head;
  const bool keep = request_.keep_alive && !shard_.draining();
  const bool large = !head && kept->response.body.size() > kLargeBody;
  if (large && !hold_large({kept, &kept->response.body}))
    return reply(does_not_fit(kept->response.body.size()));
  if (keep && request_.version == 11)
    out_ += kept->header;
  else
    write_response(kept->response, {true, keep, request_.version, shard_.date()}, out_);
  if (!head && !large) out_ += kept->body();
  answered_.push_back({match_.index, kept->response.status});
  return keep ? Next::again : Next::close;
}

// Returns false when the memory budget does not allow it.
bool Connection::hold_large(std::shared_ptr<const std::string> body) {
  std::string().swap(request_.body);  // read; free it before the answer is charged
  large_ = std::move(body);
  if (account()) return true;
  large_.reset();
  return false;
}

// The refusal of an answer of this size that exceeds the memory budget now, or always.
Response Connection::does_not_fit(std::size_t answer) const {
  const auto max_body = max_body_held();
  if (answer <= max_body) return out_of_memory_response();
  return error_response(
      Error(Code::invalid_argument, "the answer has " + human_bytes(answer) + ", more than the " +
                                        human_bytes(max_body) + " that one client may hold here"));
}

Connection::Next Connection::reply(Response response) {
  const bool head = request_.method == Method::head;
  const bool large = !head && response.fixed.empty() && response.body.size() > kLargeBody;
  if (large) {
    const auto size = response.body.size();
    if (!hold_large(std::make_shared<const std::string>(std::move(response.body))))
      return reply(does_not_fit(size));
  }
  const bool streams = response.stream != nullptr && !head;
  const bool pieces = response.chunks != nullptr && !head;
  const bool ends_body = !streams && (!pieces || request_.version == 11);
  const bool keep = request_.keep_alive && !shard_.draining() && ends_body;
  write_response(response,
                 {head, keep, request_.version, shard_.date(), large_ ? large_->size() : 0}, out_);
  const auto route = match_.route != nullptr ? match_.index : shard_.shared().traffic.unmatched();
  answered_.push_back({route, response.status});
  if (streams || pieces) {
    streaming_ = std::move(response);
    keep_after_chunks_ = keep;
    return streams ? Next::stream : Next::chunks;
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

Task<void> Connection::stream() {
  auto& counters = shard_.counters();
  counters.streams(1);
  ErrorCode ignored;
  while (!gone_ && !shard_.draining()) {
    co_await yield_to_others();
    if (gone_ || shard_.draining()) break;  // drain() came meanwhile
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
  }
  counters.streams(-1);
}

// False when the connection is to be closed.
Task<bool> Connection::send_chunks() {
  const bool chunked = request_.version == 11;
  std::string piece;
  std::size_t sent = 0;
  const auto begun = Steady::now();
  for (bool more = true; more && !gone_;) {
    co_await yield_to_others();
    // It holds memory until the last piece, so its time is that of all of them.
    if (Steady::now() - begun > time_to_send(sent)) {
      ++shard_.shared().traffic.timed_out;
      end(Unsent::discard);
      break;
    }
    try {
      piece.clear();
      more = streaming_.chunks->next(piece);
    } catch (const std::exception& e) {  // too late to say so: the client sees a body without end
      log::error("http: {} {}: {}", to_string(request_.method), request_.path(), e.what());
      gone_ = true;
      break;
    }
    if (chunked)
      append_chunk(piece, !more, out_);
    else
      out_ += piece;
    sent += out_.size();
    std::size_t written = 0;
    if (!flush_now(written)) co_await flush_rest(written);
    after_flush();
  }
  streaming_ = {};
  co_return keep_after_chunks_ && !gone_;
}

// The time that a client may take to receive so many bytes.
Steady::duration Connection::time_to_send(std::size_t bytes) const {
  return shard_.limits().request_time + std::chrono::seconds(bytes / kSlowestBytesPerSecond);
}

// Returns whether everything was written at once. Most answers fit the socket's buffer, and then
// no operation has to be queued.
bool Connection::flush_now(std::size_t& written) {
  ErrorCode failed;
  written = large_ ? socket_.write_some(behind(0, out_, *large_, kWrittenAtOnce), failed)
                   : socket_.write_some(asio::buffer(out_), failed);
  if (failed && failed != asio::error::would_block) gone_ = true;
  return gone_ || written == unsent();
}

Task<void> Connection::flush_rest(std::size_t written) {
  const auto left = unsent() - written;
  if (!account()) co_return end(Unsent::discard);  // it reads too slowly for what others need
  now_ = Steady::now();
  enter(Phase::writing, time_to_send(left));
  ErrorCode failed;
  co_await asio::async_write(socket_, behind(written, out_, large_ ? *large_ : kNone),
                             into(failed));
  if (failed) gone_ = true;
  if (phase_ == Phase::writing) enter(Phase::reading, shard_.limits().request_time);
}

void Connection::after_flush() {
  auto& counters = shard_.counters();
  counters.sent(unsent());
  if (!answered_.empty()) {
    now_ = Steady::now();
    const double seconds = seconds_between(arrived_, now_);
    for (const auto& a : answered_) counters.request(a.route, a.status, seconds);
    answered_.clear();
    enter(Phase::reading, shard_.limits().request_time);  // of the next one, if it has begun
  }
  large_.reset();
  if (out_.capacity() > kKeepAnswers)
    std::string().swap(out_);
  else
    out_.clear();
  if (memory_.bytes() + request_.held.bytes() > 0) account();
}

}  // namespace sluice::serve::http
