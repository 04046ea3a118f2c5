#include "serve/http/router.h"

#include <algorithm>

#include "base/nearest.h"
#include "serve/http/target.h"

namespace sluice::serve::http {

namespace {

std::vector<std::string_view> split(std::string_view path) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto slash = path.find('/');
    parts.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return parts;
    path.remove_prefix(slash + 1);
  }
}

bool is_variable(std::string_view segment) { return segment.starts_with('{'); }

Method method_served_as(Method method) { return method == Method::head ? Method::get : method; }

}  // namespace

Router::Router(std::vector<Route> routes) : routes_(std::move(routes)) {
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    const auto pattern = routes_[i].pattern;
    patterns_.push_back({split(pattern), pattern.ends_with("...}")});
    if (pattern.find('{') == std::string_view::npos) plain_.push_back(i);
  }
  std::ranges::stable_sort(plain_, {}, [this](std::size_t i) { return routes_[i].pattern; });
}

bool Router::matches(const Pattern& pattern, std::string_view path,
                     std::vector<std::string>& captures) const {
  captures.clear();
  for (std::size_t i = 0; i < pattern.segments.size(); ++i) {
    const bool last = i + 1 == pattern.segments.size();
    const auto slash = last && pattern.takes_rest ? std::string_view::npos : path.find('/');
    const auto segment = path.substr(0, slash);
    if (last != (slash == std::string_view::npos)) return false;
    if (is_variable(pattern.segments[i])) {
      auto decoded = percent_decode(segment, false);
      if (!decoded || decoded->empty()) return false;
      captures.push_back(*std::move(decoded));
    } else if (pattern.segments[i] != segment) {
      return false;
    }
    if (!last) path.remove_prefix(slash + 1);
  }
  return true;
}

Router::Match Router::find(Request& request) const {
  Match match;
  const auto path = request.path();
  const auto method = method_served_as(request.method);
  const auto pattern_of = [this](std::size_t i) { return routes_[i].pattern; };
  auto consider = [&](std::size_t i) {
    if (routes_[i].method == method) {
      match = {&routes_[i], i, {}};
      return true;
    }
    if (routes_[i].method == Method::get)
      match.allow += "GET, HEAD, ";
    else
      match.allow.append(to_string(routes_[i].method)).append(", ");
    return false;
  };
  for (auto at = std::ranges::lower_bound(plain_, path, {}, pattern_of);
       at != plain_.end() && pattern_of(*at) == path; ++at)
    if (consider(*at)) return match;
  for (std::size_t i = 0; i < routes_.size(); ++i)
    if (routes_[i].pattern.find('{') != std::string_view::npos &&
        matches(patterns_[i], path, request.captures) && consider(i))
      return match;
  if (!match.allow.empty()) match.allow += "OPTIONS";
  return match;
}

Response Router::refusal(const Request& request, const Match& match) const {
  if (request.method == Method::options && (!match.allow.empty() || request.target == "*")) {
    Response made;
    made.status = 204;
    made.headers.emplace_back("Allow", match.allow.empty() ? "OPTIONS" : match.allow);
    return made;
  }
  const std::string path(request.path());
  if (!match.allow.empty()) {
    auto made = error_response(405, "method_not_allowed",
                               std::string(request.method_name()) + " is not possible on " + path,
                               "Use one of: " + match.allow + ".");
    made.headers.emplace_back("Allow", match.allow);
    return made;
  }
  std::vector<std::string_view> known;
  for (const auto& route : routes_) known.push_back(route.pattern);
  return error_response(404, "not_found", "no route " + path + did_you_mean(path, known),
                        "docs/http.md lists every route; GET / is the dashboard.");
}

}  // namespace sluice::serve::http
