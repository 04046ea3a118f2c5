// One client: reads requests, answers them in order, streams events. A coroutine
// of its shard; nothing in it waits except for the socket, a timer or the
// blocking pool, so a slow client holds no thread.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "serve/http/net.h"
#include "serve/http/parser.h"
#include "serve/http/shard.h"

namespace sluice::serve::http {

class Connection {
 public:
  Connection(Shard& shard, Socket socket, bool over_socket);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Serves until the client leaves, misbehaves or the shard drains; owns itself
  // through `self` meanwhile.
  static Task<void> run(std::unique_ptr<Connection> self);

  // The shard asks each connection every tick.
  void sweep(Instant now);
  void wake();
  void drain(Instant now);
  void abort();

 private:
  enum class Phase { idle, reading, writing, working, waiting, streaming, closing };
  enum class Next { again, read, work, stream, close };
  struct Answered {
    std::size_t route;
    int status;
  };

  Task<void> serve();
  Task<void> flush_rest(std::size_t written);
  Task<bool> work();
  Task<Response> outwait();
  Task<std::unique_ptr<Response>> ask_pending(Instant& again);
  void drop_pending();
  Task<void> stream();
  Task<void> linger();

  bool flush_now(std::size_t& written);
  void after_flush();

  Next advance();
  Next parse();
  Next check_header();
  Next answer();
  Next answer_kept();
  Next reply(Response response);
  Next reply_and_close(Response response);
  Response call(const Route& route);
  void find_user(bool may_read_table);
  bool has_left();
  void enter(Phase phase, Steady::duration at_most);
  char* before_read(std::size_t& size);
  void after_read(std::size_t n, const ErrorCode& failed);
  char* room(std::size_t& size);

  Shard& shard_;
  Socket socket_;
  Timer timer_;
  const bool over_socket_;
  const std::uint64_t number_;
  bool knows_user_ = false;                                // local_uid was asked, or need not be
  bool bound_ = false;                                     // see Response::binds
  std::optional<std::list<Connection*>::iterator> place_;  // among the shard's connections
  Phase phase_ = Phase::reading;
  Instant deadline_{};
  bool timed_out_ = false, gone_ = false;

  std::vector<char> in_;
  std::size_t begin_ = 0, end_ = 0;  // of what is read and not consumed
  std::string out_;
  Request request_;
  std::optional<Parser> parser_;
  Router::Match match_;
  Response streaming_;
  std::unique_ptr<Pending> pending_;
  std::stop_source client_left_{std::nostopstate};  // while its request is worked on
  bool woken_ = false;                              // since pending_ was asked last
  Instant arrived_{}, now_{};       // of the newest bytes; the last look at the clock
  std::vector<Answered> answered_;  // in out_, not yet counted
};

}  // namespace sluice::serve::http
