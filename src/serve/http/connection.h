// One client: reads requests, answers them in order, streams events. A coroutine
// of its shard; nothing in it waits except for the socket, a timer or a pool of
// threads, so a slow client holds no thread. What it makes the server hold is
// charged to its peer's share of the memory budget, and it counts as a connection until the
// client has taken its answers.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/http/net.h"
#include "serve/http/parser.h"
#include "serve/http/shard.h"

namespace sluice::serve::http {

class Connection {
 public:
  Connection(Shard& shard, Arrival arrival);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Serves until the client leaves, misbehaves or the shard drains; owns itself
  // through `self` meanwhile.
  static Task<void> run(std::unique_ptr<Connection> self);

  // The shard asks each connection every tick.
  void sweep(Instant now);
  void wake();          // polls a pending answer, and pulls a stream
  void wake_pending();  // polls a pending answer only
  void drain(Instant now);
  // Serves no more: run() goes on to close(). What the client has not read yet may be discarded.
  enum class Unsent { keep, discard };
  void end(Unsent unsent);

  std::uint64_t number() const noexcept { return number_; }
  bool is_idle() const noexcept { return phase_ == Phase::idle; }

 private:
  static constexpr std::int64_t kMaxLightConnections = 32;
  enum class Phase { idle, reading, writing, working, waiting, streaming, closing };
  enum class Next { again, read, work, stream, chunks, close };
  struct Answered {
    std::size_t route;
    int status;
  };

  // connection.cc: requests come in.
  Task<void> serve();
  Next advance();
  Next parse();
  Next check_header();
  std::optional<Response> malformed();
  Next refused(Response response);
  std::optional<Response> check_key(bool open);
  Next answer();
  // Few connections of a peer cannot delay others and need no turns.
  bool has_few_connections() const noexcept { return load_->connections <= kMaxLightConnections; }
  Task<void> yield_to_others();
  void enter(Phase phase, Steady::duration at_most);
  char* before_read(std::size_t& size);
  void after_read(std::size_t n, const ErrorCode& failed);
  std::size_t max_unread() const noexcept;
  std::uint64_t max_body_held() const noexcept;
  char* read_buffer(std::size_t& size);
  bool account();
  bool has_left();
  void discard_input();
  bool read_ahead();
  bool is_closed_there();

  // connection_work.cc: what handlers do in a pool of threads.
  void find_user(bool may_read_table);
  Response call(const Route& route);
  Task<bool> work();
  ResponseCache::Shared call_or_find(Response& response);
  Task<Response> await_pending();
  Task<std::unique_ptr<Response>> poll_pending(Instant& again);
  void drop_pending();
  FairPool& pool() noexcept;

  // connection_write.cc: answers go out.
  Next answer_cached();
  Next reply_cached(const ResponseCache::Shared& kept);
  std::size_t unsent() const noexcept { return out_.size() + (large_ ? large_->size() : 0); }
  bool hold_large(std::shared_ptr<const std::string> body);
  Steady::duration time_to_send(std::size_t bytes) const;
  Response does_not_fit(std::size_t answer) const;
  Next reply(Response response);
  Next reply_and_close(Response response);
  bool flush_now(std::size_t& written);
  Task<void> flush_rest(std::size_t written);
  void after_flush();
  Task<void> stream();
  Task<bool> send_chunks();

  // connection_close.cc: the only way out.
  Task<void> close();
  Task<void> until_taken();
  void close_at_deadline(Instant now);
  void release_memory();
  void unbind();

  Shard& shard_;
  Socket socket_;
  Timer timer_;
  const bool over_socket_;
  const std::uint64_t number_;
  const std::shared_ptr<PeerLoad::Entry> load_;
  MemoryBudget::Charge memory_;   // for the buffers below; the body has its own
  bool has_shown_key_ = false;    // a right one, with the last request that had any
  bool knows_user_ = false;       // local_user() was called, or need not be
  bool hung_up_unknown_ = false;  // see LocalUser::has_hung_up
  bool bound_ = false;            // see Response::binds
  std::optional<std::list<Connection*>::iterator> place_;  // among the shard's connections
  Phase phase_ = Phase::reading;
  Instant deadline_{};
  bool timed_out_ = false, is_last_wait_ = false, gone_ = false;
  bool discards_ = false;  // see Unsent

  std::vector<char> in_;
  std::size_t begin_ = 0, end_ = 0;           // of what is read and not consumed
  std::string out_;                           // small answers, and the header of a large one
  std::shared_ptr<const std::string> large_;  // the body behind it; others may send it too
  Request request_;
  std::optional<Parser> parser_;
  Router::Match match_;
  std::optional<std::string> query_;  // canonical; nothing: the query is invalid
  std::uint64_t body_limit_ = 0;
  Response streaming_;  // whose stream or chunks are sent
  bool keep_after_chunks_ = false;
  std::unique_ptr<Pending> pending_;
  bool woken_ = false;              // since pending_ was polled last
  Instant arrived_{}, now_{};       // of the newest bytes; the last look at the clock
  std::vector<Answered> answered_;  // in out_, not yet counted
};

}  // namespace sluice::serve::http
