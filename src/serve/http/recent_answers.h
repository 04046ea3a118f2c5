// Answers that may be given again for a while, whatever form the request has: GET or HEAD,
// HTTP/1.0 or 1.1, the connection kept or closed, a query spelled in any way.
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
class RecentAnswers {
 public:
  explicit RecentAnswers(std::size_t routes) : by_route_(routes) {}

  struct Answer {
    Response response;
    std::string header;  // as most clients want it: HTTP/1.1 on a connection that is kept
    std::string_view body() const noexcept {
      return response.fixed.empty() ? std::string_view(response.body) : response.fixed;
    }
  };
  using Shared = std::shared_ptr<const Answer>;

  // Nothing when there is none, or none that is good until after `now`. `query` in the form of
  // Query::canonical().
  Shared find(std::size_t route, std::string_view query, Instant now) const;

  // Keeps it until then, in the place of the oldest when the route has too many. `response`
  // has a body, and no stream.
  Shared keep(std::size_t route, std::string query, Response response, std::string_view date,
              Instant until);

  void forget_expired(Instant now);

 private:
  static constexpr std::size_t kMost = 8;  // of a route
  struct Kept {
    std::string query;
    Instant until;
    Shared answer;
  };
  std::vector<std::vector<Kept>> by_route_;
};

// The same for several threads.
class LockedRecentAnswers {
 public:
  explicit LockedRecentAnswers(std::size_t routes) : answers_(routes) {}

  RecentAnswers::Shared find(std::size_t route, std::string_view query, Instant now) {
    const Lock lock(mutex_);
    return answers_.find(route, query, now);
  }
  RecentAnswers::Shared keep(std::size_t route, std::string query, Response response,
                             std::string_view date, Instant until) {
    const Lock lock(mutex_);
    return answers_.keep(route, std::move(query), std::move(response), date, until);
  }
  void forget_expired(Instant now) {
    const Lock lock(mutex_);
    answers_.forget_expired(now);
  }

 private:
  Mutex mutex_;
  RecentAnswers answers_ GUARDED_BY(mutex_);
};

}  // namespace sluice::serve::http
