// A request as a handler sees it and the answer it gives. Nothing here knows a
// socket: handlers are plain functions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory_budget.h"
#include "serve/http/peer.h"

namespace sluice::serve::http {

enum class Method { get, head, post, put, patch, delete_, options, other };

std::string_view to_string(Method method) noexcept;

// Only the header fields that something reads are kept; absent is empty.
struct Request {
  Method method = Method::other;
  std::string other_method;  // as sent, when it is none of ours; cut when it is long
  std::string target;        // as sent: path and query, still percent-encoded
  std::string host, origin, content_type, authorization, api_key, if_none_match, last_event_id;
  std::optional<std::string> idempotency_key;  // where it is repeated all, divided by commas
  // Where what it makes the server hold is charged: its client's part of the budget.
  std::shared_ptr<MemoryBudget> memory;
  MemoryBudget::Charge held;  // for the body; goes with it
  std::string body;
  std::vector<std::string> captures;  // decoded {parts} of the route's pattern
  int version = 11;                   // 10 or 11
  bool keep_alive = true;
  bool expects_continue = false;
  bool repeated_host = false;
  bool has_body = false;     // a length above zero or chunks were announced
  bool over_socket = false;  // came through the Unix socket: its file mode let the caller in
  using Peer = http::Peer;
  // Who asks. Set once per connection, but for the key. Over TCP the user is known to the
  // handlers of blocking routes only, and where the client is on this machine.
  Peer peer;
  bool takes_admin_key = false;  // serve.admin_key is set: showing it would make peer.is_admin
  std::uint64_t connection = 0;  // which one it came over; no other ever has this number

  std::string_view method_name() const noexcept;  // for messages
  std::string_view path() const noexcept;         // of target, without the query
  std::string_view query() const noexcept;        // behind '?', without it

  void clear();                         // for the next request; keeps the memory
  void release_memory();                // of what is long, once it is answered
  std::size_t fields_capacity() const;  // bytes that all but the body hold
};

// An answer without an end, such as server-sent events. It is pulled, never
// pushed: while a slow client's last write is under way nothing is asked for, so
// nothing can pile up for it. Used by one thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;

  // Appends what is due at `now` and returns when to be asked again at the
  // latest; Server::wake_streams asks at once.
  virtual Instant pull(Instant now, std::string& out) = 0;
};

// A body that is made while it is sent, so that it never stands in memory whole. Used by one
// thread at a time.
class Pieces {
 public:
  virtual ~Pieces() = default;

  // Appends the next piece, best some 64 KB, and returns whether there are more. Runs on a
  // thread that serves others: a millisecond is long. When it throws the connection is cut.
  virtual bool next(std::string& out) = 0;
};

struct Response;

// An answer that is not known yet; the client waits for it, no thread does. Destroyed
// unanswered when the client goes or the server ends. Used by one thread at a time.
class Pending {
 public:
  virtual ~Pending() = default;

  // The answer, or nothing, and then `again` is when to be asked at the latest;
  // Server::wake_streams asks at once where there is news. May throw Error.
  virtual std::unique_ptr<Response> poll(Instant now, Instant& again) = 0;
  // Whether poll() may say something else than the last time: a quick look, from any thread.
  virtual bool has_news() const noexcept { return true; }
  // Whether poll() and the end may wait for a disk: then they run where blocking routes do.
  virtual bool blocks() const noexcept { return false; }
};

struct Response {
  int status = 200;
  std::string_view type = "application/json";  // must outlive the response
  std::string body;
  std::string_view fixed;  // sent instead of body when not empty; lives as long as the program
  std::vector<std::pair<std::string_view, std::string>> headers;
  std::unique_ptr<Stream> stream;    // follows the header instead of a body
  std::unique_ptr<Pieces> pieces;    // the body, instead of `body`
  std::unique_ptr<Pending> pending;  // this one comes instead, later; of blocking routes only
  // Something of the client's now lives as long as its connection: that one may be idle
  // for any time, and Server::Options::on_close hears of its end.
  bool binds = false;
  bool is_own = false;  // it changed only what is its client's own: nothing for the audit log
};

// {"error": {"code", "message", "fix"}}. `code` is a stable word for programs; a message of more
// than 4 KB is cut.
Response error_response(int status, std::string_view code, std::string_view message,
                        std::string_view fix);

// The same for an exception that reached the edge.
Response error_response(const Error& error);

// 503 with Retry-After: others hold the memory that this one needs.
Response no_room();

// Appends status line, header and body. `date` as in the Date field.
struct Framing {
  bool head_only = false;  // the length but not the bytes: HEAD
  bool keep_alive = true;
  int version = 11;
  std::string_view date;
  std::size_t body_behind = 0;  // bytes of the body that the caller sends behind this
};
void write_response(const Response& response, const Framing& framing, std::string& out);

std::string_view reason(int status) noexcept;  // "Not Found"
std::string http_date(WallTime t);             // "Sun, 15 Nov 2026 03:00:00 GMT"

}  // namespace sluice::serve::http
