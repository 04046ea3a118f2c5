// Maps a method and a path to the function that answers. To add a route, add an entry to a table
// that routes.cc joins.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/message.h"

namespace sluice::serve::http {

// May throw Error; the transport turns it into an answer. May keep the request's body. Called
// by several threads at once.
using Handler = std::function<Response(Request&)>;

// The thread that runs a handler: the I/O thread, which it must not block, or a thread of a pool.
// Leases have a separate pool, since a renewal must not wait for other work.
enum class Execution { on_io_thread, in_pool, in_lease_pool };

inline constexpr std::uint64_t kAnyBody = ~std::uint64_t{0};

struct Route {
  Method method;
  // Whole segments in braces match one segment; "{name...}" at the end matches
  // the rest, slashes included: "/v1/leases/{id}", "/assets/{file...}".
  std::string_view pattern;
  Handler handler;
  bool open = false;  // answered without the API key
  Execution execution = Execution::on_io_thread;
  std::uint64_t max_body = 0;  // bytes; the server's own limits hold beside it
  // An answer to the same query is cached for this long; the ages in it are wrong by at most that.
  std::chrono::milliseconds reuse{0};
  // Also served where a client of this machine hung up before its user was known: the request
  // takes nothing, or needs a key. Others are dropped: they would count for nobody.
  bool serves_hung_up = false;
};

class Router {
 public:
  explicit Router(std::vector<Route> routes);

  struct Match {
    const Route* route = nullptr;
    std::size_t index = 0;  // of route, in routes()
    std::string allow;      // "GET, HEAD, OPTIONS" when only the method is wrong
  };
  // Fills request.captures. HEAD finds the GET route. Thread-safe.
  Match find(Request& request) const;

  // 404 with the nearest known path, or 405 with Allow, or the 204 that OPTIONS gets.
  Response refusal(const Request& request, const Match& match) const;

  std::span<const Route> routes() const noexcept { return routes_; }

 private:
  struct Pattern {
    std::vector<std::string_view> segments;
    bool takes_rest = false;
  };
  bool matches(const Pattern& pattern, std::string_view path,
               std::vector<std::string>& captures) const;

  std::vector<Route> routes_;
  std::vector<Pattern> patterns_;   // one per route
  std::vector<std::size_t> plain_;  // routes without braces, sorted by pattern
};

}  // namespace sluice::serve::http
