// A route as a line of a table: what it answers to and the function that answers. Each
// file of routes has one table; routes.cc puts them together.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "serve/http/message.h"
#include "serve/http/target.h"
#include "serve/service.h"

namespace sluice::serve::http {

struct Asked {
  const Request& request;
  Query query;  // holds none but the parameters of the row
};

struct Row {
  Method method;
  std::string_view pattern;
  Response (*answer)(Service& service, const Asked& asked);
  bool open = false, blocking = false, takes_body = false;
  int reuse_ms = 0;
  std::span<const std::string_view> parameters = {};  // of the query
};

inline constexpr bool kOpen = true, kBlocking = true, kBody = true;

Response json_text(std::string text);  // one line of JSON

std::span<const Row> lease_rows() noexcept;
std::span<const Row> market_rows() noexcept;

}  // namespace sluice::serve::http
