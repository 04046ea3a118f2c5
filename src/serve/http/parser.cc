#include "serve/http/parser.h"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <limits>
#include <utility>

#include "base/units.h"

namespace sluice::serve::http {

namespace {

namespace beast = boost::beast;

Method method_of(beast::http::verb verb) {
  switch (verb) {
    case beast::http::verb::get: return Method::get;
    case beast::http::verb::head: return Method::head;
    case beast::http::verb::post: return Method::post;
    case beast::http::verb::put: return Method::put;
    case beast::http::verb::patch: return Method::patch;
    case beast::http::verb::delete_: return Method::delete_;
    case beast::http::verb::options: return Method::options;
    default: return Method::other;
  }
}

// The parser takes a line that ends in LF alone for a version it does not know.
bool ends_lines_with_lf_alone(std::string_view text) {
  const auto end = text.find('\n');
  return end != text.npos && (end == 0 || text[end - 1] != '\r');
}

constexpr std::size_t kMaxMethodBytes = 32;  // of unknown methods

}  // namespace

Parser::Parser(Request& into, std::uint32_t header_limit_bytes) : request_(into) {
  into.clear();
  header_limit(header_limit_bytes);
  // The route decides, once the header is known. Not boost::none: to Boost 1.74 every
  // length is above that.
  body_limit(std::numeric_limits<std::uint64_t>::max());
  eager(false);
}

void Parser::finish_header() {
  request_.keep_alive = keep_alive();
  request_.has_body = chunked() || content_length().value_or(0) > 0;
}

// The caller has seen to it that a method is a token: letters, digits and some signs.
void Parser::on_request_impl(verb method, string_view name, string_view target, int version,
                             error_code&) {
  request_.method = method_of(method);
  if (request_.method == Method::other)
    request_.other_method.assign(name.data(), std::min(name.size(), kMaxMethodBytes));
  request_.target.assign(target.data(), target.size());
  request_.version = version;
}

void Parser::on_field_impl(field name, string_view name_text, string_view value,
                           error_code& failed) {
  if (has_header_) return;  // a trailer: who asks and for what was decided without it
  const auto keep = [value](std::string& in) { in.assign(value.data(), value.size()); };
  switch (name) {
    case field::host:
      if (std::exchange(has_host_, true)) request_.repeated_host = true;
      return keep(request_.host);
    case field::transfer_encoding:
      // Any other spelling may mean another end of the body to a proxy before us.
      if (std::exchange(has_encoding_, true) || request_.version != 11 ||
          !beast::iequals(value, "chunked"))
        failed = beast::http::error::bad_transfer_encoding;
      return;
    case field::origin: return keep(request_.origin);
    case field::content_type: return keep(request_.content_type);
    case field::authorization: return keep(request_.authorization);
    case field::if_none_match: return keep(request_.if_none_match);
    case field::expect: request_.expects_continue = beast::iequals(value, "100-continue"); return;
    case field::unknown:
      if (beast::iequals(name_text, "X-API-Key")) return keep(request_.api_key);
      if (beast::iequals(name_text, "Last-Event-ID")) return keep(request_.last_event_id);
      if (beast::iequals(name_text, "Idempotency-Key")) {
        auto& key = request_.idempotency_key;
        key = (key ? *key + ", " : std::string()).append(value.data(), value.size());
      }
      return;
    default: return;
  }
}

void Parser::on_body_init_impl(const boost::optional<std::uint64_t>& length, error_code&) {
  if (length) length_ = *length;
}

// Grows with the bytes received, never with the announced length, and never beyond that.
std::size_t Parser::append(string_view bytes) {
  auto& body = request_.body;
  const auto needed = body.size() + bytes.size();
  if (needed > body.capacity()) {
    std::string larger;  // a fresh one: reserve() doubles what is there, whatever it is asked for
    larger.reserve(std::max<std::size_t>(needed, std::min<std::uint64_t>(2 * needed, length_)));
    body.swap(larger.append(body));
  }
  body.append(bytes.data(), bytes.size());
  return bytes.size();
}

std::size_t Parser::on_body_impl(string_view bytes, error_code&) { return append(bytes); }

std::size_t Parser::on_chunk_body_impl(std::uint64_t, string_view bytes, error_code&) {
  return append(bytes);
}

Response body_too_large(std::uint64_t limit) {
  return error_response(
      413, "body_too_large",
      "the request's body is larger than the " + human_bytes(limit) + " that are taken here",
      "Send less at once; serve.max_body_bytes and serve.memory_budget bound "
      "what routes without a limit of their own take.");
}

Response parse_failure(const boost::system::error_code& failed, std::string_view unread) {
  using beast::http::error;
  if (failed == error::header_limit)
    return error_response(431, "header_too_large", "the request's header is too large",
                          "Send fewer or shorter header fields, or raise serve.max_header_bytes.");
  if (failed == error::bad_version && ends_lines_with_lf_alone(unread))
    return error_response(400, "bad_request",
                          "this is not an HTTP request: its first line ends in LF alone",
                          "End every line of the header with CR LF.");
  if (failed == error::bad_version)
    return error_response(505, "bad_version", "only HTTP/1.0 and HTTP/1.1 are spoken here",
                          "Use HTTP/1.1.");
  return error_response(400, "bad_request", "this is not an HTTP request: " + failed.message(),
                        "Check what was sent; curl -v shows a request that works.");
}

}  // namespace sluice::serve::http
