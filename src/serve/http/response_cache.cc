#include "serve/http/response_cache.h"

#include <algorithm>

namespace sluice::serve::http {

ResponseCache::Shared ResponseCache::find(std::size_t route, std::string_view query,
                                          Instant now) const {
  for (const auto& kept : by_route_[route])
    if (kept.query == query) return now < kept.until ? kept.answer : nullptr;
  return nullptr;
}

ResponseCache::Shared ResponseCache::keep(std::size_t route, std::string query, Response response,
                                          std::string_view date, Instant until) {
  auto& all = by_route_[route];
  auto place = std::ranges::find(all, query, &Kept::query);
  if (place == all.end() && all.size() >= kMaxPerRoute)
    place = std::ranges::min_element(all, {}, &Kept::until);
  if (place == all.end()) place = all.insert(all.end(), Kept{});
  auto made = std::make_shared<Answer>();
  constexpr bool kHeadOnly = true, kKeepAlive = true;
  write_response(response, {kHeadOnly, kKeepAlive, 11, date}, made->header);
  made->response = std::move(response);
  *place = {std::move(query), until, std::move(made)};
  return place->answer;
}

void ResponseCache::evict_expired(Instant now) {
  for (auto& all : by_route_)
    std::erase_if(all, [now](const Kept& kept) { return kept.until <= now; });
}

}  // namespace sluice::serve::http
