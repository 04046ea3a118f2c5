// A cache of answers with an expiry time, for every form of the request: GET or HEAD, HTTP/1.0 or
// 1.1, keep-alive or close, any spelling of the query.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "serve/http/message.h"

namespace sluice::serve::http {

// Not thread-safe.
class ResponseCache {
 public:
  explicit ResponseCache(std::size_t routes) : by_route_(routes) {}

  struct Answer {
    Response response;
    std::string header;  // as most clients want it: HTTP/1.1 on a connection that is kept
    std::string_view body() const noexcept {
      return response.fixed.empty() ? std::string_view(response.body) : response.fixed;
    }
  };
  using Shared = std::shared_ptr<const Answer>;

  // Null when no answer is cached or it has expired at `now`. `query` is in the form of
  // Query::canonical().
  Shared find(std::size_t route, std::string_view query, Instant now) const;

  // Caches `response` until then, and evicts the oldest when the route has too many. `response` has
  // a body, and no stream.
  Shared keep(std::size_t route, std::string query, Response response, std::string_view date,
              Instant until);

  void evict_expired(Instant now);

 private:
  static constexpr std::size_t kMaxPerRoute = 8;  // of a route
  struct Kept {
    std::string query;
    Instant until;
    Shared answer;
  };
  std::vector<std::vector<Kept>> by_route_;
};

// A thread-safe ResponseCache.
class SharedResponseCache {
 public:
  explicit SharedResponseCache(std::size_t routes) : answers_(routes) {}

  ResponseCache::Shared find(std::size_t route, std::string_view query, Instant now) {
    const Lock lock(mutex_);
    return answers_.find(route, query, now);
  }
  ResponseCache::Shared keep(std::size_t route, std::string query, Response response,
                             std::string_view date, Instant until) {
    const Lock lock(mutex_);
    return answers_.keep(route, std::move(query), std::move(response), date, until);
  }
  void evict_expired(Instant now) {
    const Lock lock(mutex_);
    answers_.evict_expired(now);
  }

 private:
  Mutex mutex_;
  ResponseCache answers_ GUARDED_BY(mutex_);
};

}  // namespace sluice::serve::http
