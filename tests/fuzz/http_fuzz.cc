// Any bytes as what a client sends: the request parser, the target, the router and
// the guard must give an answer for all of them. Built for libFuzzer with clang, and
// for the smoke test beside it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "serve/http/guard.h"
#include "serve/http/parser.h"
#include "serve/http/router.h"
#include "serve/http/target.h"

namespace {

using namespace sluice::serve::http;

const Router& router() {
  static const auto nothing = [](const Request&) { return Response{}; };
  static const Router made({{Method::get, "/", nothing},
                            {Method::get, "/v1/history", nothing},
                            {Method::post, "/v1/leases/{id}/renew", nothing},
                            {Method::get, "/assets/{file...}", nothing}});
  return made;
}

void check(bool ok) {
  if (!ok) std::abort();
}

// Every response must be well-formed and its Content-Length correct.
void check_answer(const Response& response) {
  std::string bytes;
  write_response(response, {false, false, 11, "now"}, bytes);
  check(bytes.starts_with("HTTP/1.1 ") && bytes.find("\r\n\r\n") != std::string::npos);
  check(bytes.ends_with(response.body));
}

void read_target(std::string_view target) {
  if (const auto form = absolute_form(target))
    check(!form->authority.empty() && form->path.starts_with("/"));
  try {
    const Query query(target.substr(std::min(target.find('?'), target.size())));
    query.number("interval", 1, 0, 10);
    query.integer("points", 1, 0, 10);
  } catch (const sluice::Error& e) {
    check_answer(error_response(e));
  }
}

void route(Request& request) {
  const GuardConfig guard{sluice::Secret("key"), sluice::Secret("admin"), {"name"}};
  recognize(request, guard);
  if (const auto refused = refuse(request, false, guard)) check_answer(*refused);
  const auto match = router().find(request);
  if (match.route == nullptr) check_answer(router().refusal(request, match));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_target(bytes);
  Request request;
  Parser parser(request, 4096);
  std::size_t at = 0;
  while (at < size && !parser.is_done()) {
    const bool had_header = parser.is_header_done();
    boost::system::error_code failed;
    const auto used = parser.put(boost::asio::const_buffer(data + at, size - at), failed);
    check(used <= size - at);
    at += used;
    if (failed) {
      check_answer(parse_failure(failed, bytes.substr(at)));
      return 0;
    }
    if (!had_header && parser.is_header_done()) {
      parser.finish_header();
      parser.body_limit(1024);
      read_target(request.target);
      route(request);
    }
    if (used == 0) break;
  }
  return 0;
}
