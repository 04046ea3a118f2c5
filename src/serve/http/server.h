// The HTTP server: listens on TCP and on a Unix socket, deals connections out to
// its threads and ends cleanly.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/memory_budget.h"
#include "serve/config.h"
#include "serve/http/router.h"
#include "serve/traffic.h"

namespace sluice::serve::http {

class Server {
 public:
  struct Options {
    ServeConfig config;
    std::size_t threads = 1;            // the number of thread counters of `traffic`
    std::string socket_path;            // of the Unix socket; empty for none
    std::function<void()> each_second;  // on a thread of the server; must be quick
    // The client of a connection that something was bound to (Response::binds) has gone.
    std::function<void(std::uint64_t connection)> on_close = nullptr;
    // Returns whether something is still bound to it: then the connection may be idle for any time.
    std::function<bool(std::uint64_t connection)> is_bound = nullptr;
    MemoryBudget* memory = nullptr;  // of requests and answers; null for no limit
  };

  // Listens and starts. `router` and `traffic` must outlive it. Throws
  // invalid_argument for an address that would be open to others without a key,
  // unavailable when an address is taken or not ours.
  Server(Options options, const Router& router, Traffic& traffic);
  ~Server();  // stop()

  std::uint16_t port() const noexcept;       // the one really used
  const std::string& host() const noexcept;  // as an address
  // The path of the Unix socket; empty when there is none, and why_no_socket() has the reason.
  const std::string& socket_path() const noexcept;
  const std::string& why_no_socket() const noexcept;

  // Pulls every open stream. Any thread.
  void wake_streams();

  // Takes over the settings that may change at run time. Throws invalid_argument,
  // and changes nothing, when others could then reach it without a key. Any thread.
  void reload(const ServeConfig& config);

  // Accepts no more, lets what is under way finish for at most
  // config.drain_timeout_s, then ends the rest. Returns whether nothing had to be
  // cut off. Idempotent.
  bool stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::serve::http
