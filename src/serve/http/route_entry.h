// A route as an entry of a table: method, pattern and handler. monitor_routes.cc, lease_routes.cc
// and market_routes.cc have a table each; routes.cc joins them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "serve/http/message.h"
#include "serve/http/router.h"
#include "serve/http/target.h"
#include "serve/service.h"

namespace sluice::serve::http {

struct RouteContext {
  Request& request;
  Query query;  // holds none but the parameters of the entry
};

enum class Access {
  anyone,
  audited,  // changes what belongs to one user: the handler checks whose it is
  admin,    // changes something for all users
};

using RouteHandler = Response (*)(Service& service, const RouteContext& context);

// See Route (router.h) for the fields they have in common.
struct RouteEntry {
  Method method;
  std::string_view pattern;
  RouteHandler handler;
  bool open = false;
  Execution execution = Execution::on_io_thread;
  std::uint64_t max_body = 0;
  int reuse_ms = 0;
  std::span<const std::string_view> parameters = {};  // of the query
  bool any_query = false;  // of a page: its scripts read the query, the handler gets none
  Access access = Access::anyone;
  bool serves_hung_up = false;  // see Route; audited and admin routes always do
};

inline constexpr auto kBlocking = Execution::in_pool, kLeasePool = Execution::in_lease_pool;
inline constexpr std::uint64_t kSmallBody = 64 << 10;

Response json_text(std::string text);  // one line of JSON

// 401 where showing the admin key would help, 403 otherwise. `what` as in "silencing alerts".
Response admin_required(const Request& request, std::string_view what);

std::span<const RouteEntry> monitor_routes() noexcept;
std::span<const RouteEntry> lease_routes() noexcept;
std::span<const RouteEntry> market_routes() noexcept;

}  // namespace sluice::serve::http
