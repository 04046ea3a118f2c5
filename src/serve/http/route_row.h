// A route as a line of a table: what it answers to and the function that answers. Each
// file of routes has one table; routes.cc puts them together.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "serve/http/message.h"
#include "serve/http/router.h"
#include "serve/http/target.h"
#include "serve/service.h"

namespace sluice::serve::http {

struct Asked {
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
  Response (*answer)(Service& service, const Asked& asked);
  bool open = false;
  Runs runs = Runs::at_once;
  std::uint64_t most_body = 0;
  int reuse_ms = 0;
  std::span<const std::string_view> parameters = {};  // of the query
  Access access = Access::anyone;
};

inline constexpr bool kOpen = true;
inline constexpr auto kAtOnce = Runs::at_once, kBlocking = Runs::in_pool, kLease = Runs::as_lease;
inline constexpr std::uint64_t kNoBody = 0, kSmallBody = 64 << 10;

Response json_text(std::string text);  // one line of JSON

// 401 where showing the admin key would help, 403 otherwise. `what` as in "silencing alerts".
Response admin_wanted(const Request& request, std::string_view what);

std::span<const Row> lease_rows() noexcept;
std::span<const Row> market_rows() noexcept;

}  // namespace sluice::serve::http
