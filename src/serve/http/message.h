// The request that a handler gets and the response that it returns. Nothing here knows a socket:
// handlers are plain functions.
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
  // The client's share of the memory budget, which this request is charged to.
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
  // The client. Set once per connection, except for the key. Over TCP the user is known to the
  // handlers of pooled routes only, and only for clients on this machine.
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

// An endless response, such as server-sent events. It is pulled, never pushed: nothing is produced
// while the last write to a slow client is pending, so no backlog can grow. Used by one thread at a
// time.
class Stream {
 public:
  virtual ~Stream() = default;

  // Appends what is due at `now` and returns the time of the next call at the latest;
  // Server::wake_streams calls at once.
  virtual Instant pull(Instant now, std::string& out) = 0;
};

// A body that is produced chunk by chunk while it is sent, so that it is never in memory as a
// whole. Used by one thread at a time.
class ChunkedBody {
 public:
  virtual ~ChunkedBody() = default;

  // Appends the next chunk, ideally about 64 KB, and returns whether more follow. Runs on an I/O
  // thread, so it should take far less than a millisecond. An exception closes the connection.
  virtual bool next(std::string& out) = 0;
};

struct Response;

// A response that is not known yet; the client waits for it, but no thread does. Destroyed
// unanswered when the client leaves or the server stops. Used by one thread at a time.
class Pending {
 public:
  virtual ~Pending() = default;

  // Returns the response, or null and in `again` the time of the next poll at the latest;
  // Server::wake_streams polls at once after an update. May throw Error.
  virtual std::unique_ptr<Response> poll(Instant now, Instant& again) = 0;
  // Returns whether poll() may return something else than the last time: cheap, from any thread.
  virtual bool has_update() const noexcept { return true; }
  // Returns whether poll() and the destructor may wait for a disk: then they run in the pool.
  virtual bool blocks() const noexcept { return false; }
};

struct Response {
  int status = 200;
  std::string_view type = "application/json";  // must outlive the response
  std::string body;
  std::string_view fixed;  // sent instead of body when not empty; lives as long as the program
  std::vector<std::pair<std::string_view, std::string>> headers;
  std::unique_ptr<Stream> stream;       // follows the header instead of a body
  std::unique_ptr<ChunkedBody> chunks;  // produce the body, instead of `body`
  std::unique_ptr<Pending> pending;     // produces the response later; pooled routes only
  // Something of the client's now lives as long as its connection: that one may be idle
  // for any time, and Server::Options::on_close hears of its end.
  bool binds = false;
  bool is_own = false;  // it changed only what is its client's own: nothing for the audit log
};

// {"error": {"code", "message", "fix"}}. `code` is a stable word for programs; a message of more
// than 4 KB is cut. A 503 has Retry-After.
Response error_response(int status, std::string_view code, std::string_view message,
                        std::string_view fix);

// The same for an exception that reached the edge.
Response error_response(const Error& error);

// 503 with Retry-After: the memory budget is used by other requests.
Response out_of_memory_response();

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
