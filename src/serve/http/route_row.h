// A route as a row of a table: method, pattern and handler. Each file of routes has one table;
// routes.cc joins them.
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
  Query query;  // holds none but the parameters of the row
};

enum class Access {
  anyone,
  audited,  // changes what belongs to somebody: the handler says whose it must be
  admin,    // changes it for everybody
};

struct Row {
  Method method;
  std::string_view pattern;
  Response (*answer)(Service& service, const RouteContext& context);
  bool open = false;
  Execution execution = Execution::on_io_thread;
  std::uint64_t max_body = 0;
  int reuse_ms = 0;
  std::span<const std::string_view> parameters = {};  // of the query
  Access access = Access::anyone;
};

inline constexpr bool kOpen = true;
inline constexpr auto kAtOnce = Execution::on_io_thread, kBlocking = Execution::in_pool,
                      kLease = Execution::in_lease_pool;
inline constexpr std::uint64_t kNoBody = 0, kSmallBody = 64 << 10;

Response json_text(std::string text);  // one line of JSON

// 401 where showing the admin key would help, 403 otherwise. `what` as in "silencing alerts".
Response admin_required(const Request& request, std::string_view what);

std::span<const Row> lease_rows() noexcept;
std::span<const Row> market_rows() noexcept;

}  // namespace sluice::serve::http
