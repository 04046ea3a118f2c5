#include "serve/http/guard.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "serve/address.h"

namespace sluice::serve::http {

namespace {

constexpr std::uint16_t kHttpPort = 80;  // meant where a URL names none

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// The rest of `text` behind `scheme` and spaces; nothing when it has another.
std::optional<std::string_view> credentials(std::string_view text, std::string_view scheme) {
  if (text.size() <= scheme.size() || !equal_ignoring_case(text.substr(0, scheme.size()), scheme) ||
      text[scheme.size()] != ' ')
    return std::nullopt;
  text.remove_prefix(scheme.size());
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return text;
}

int base64_digit(char c) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto at = digits.find(c);
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

std::string base64_decode(std::string_view text) {
  std::string out;
  unsigned bits = 0;
  int held = 0;
  for (const char c : text) {
    const int digit = base64_digit(c);
    if (digit < 0) break;  // padding, or not base64: what follows is no key
    bits = bits << 6 | static_cast<unsigned>(digit);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out.push_back(static_cast<char>(bits >> held & 0xff));
  }
  return out;
}

bool changes_something(Method method) {
  return method != Method::get && method != Method::head && method != Method::options;
}

bool is_same_origin(const Request& request) {
  const std::string_view origin = request.origin;
  const auto scheme = origin.find("://");
  return scheme != std::string_view::npos &&
         equal_ignoring_case(origin.substr(scheme + 3), request.host);
}

bool is_json(std::string_view type) {
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  return equal_ignoring_case(type, "application/json");
}

Response key_required(bool sent_one) {
  auto made = error_response(
      401, "unauthenticated", sent_one ? "the API key is wrong" : "this server needs an API key",
      "Send it as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'; a browser asks for it as the "
      "password, with any user name.");
  made.headers.emplace_back("WWW-Authenticate", "Basic realm=\"Sluice\", Bearer");
  return made;
}

}  // namespace

bool is_own_name(std::string_view host, const std::vector<std::string>& allowed) {
  const auto requested = split_host(host);
  if (!requested) return false;
  if (equal_ignoring_case(requested->name, "localhost") || is_address(requested->name)) return true;
  return std::ranges::any_of(allowed, [&](const auto& own) {
    const auto ours = split_host(own);
    return ours && equal_ignoring_case(ours->name, requested->name) &&
           (!ours->port || ours->port == requested->port.value_or(kHttpPort));
  });
}

bool has_key(const Request& request, const Secret& key) {
  if (key.equals(request.api_key)) return true;
  if (const auto bearer = credentials(request.authorization, "Bearer")) return key.equals(*bearer);
  if (const auto basic = credentials(request.authorization, "Basic")) {
    const auto pair = base64_decode(*basic);
    const auto colon = pair.find(':');
    return colon != std::string::npos && key.equals(std::string_view(pair).substr(colon + 1));
  }
  return false;
}

bool is_owner(const Peer& peer) noexcept {
  return peer.uid == 0 || peer.uid == static_cast<std::int64_t>(::geteuid());
}

bool needs_key(const Request& request) noexcept {
  return !request.over_socket || !is_owner(request.peer);
}

bool sends_key(const Request& request) noexcept {
  return !request.authorization.empty() || !request.api_key.empty();
}

bool wants_keys(const GuardConfig& config) noexcept {
  return !config.api_key.empty() || !config.admin_key.empty();
}

Response too_many_keys() {
  auto made = error_response(429, "too_many_keys", "too many wrong keys came from here",
                             "Wait a few seconds, then send the right one.");
  made.headers.emplace_back("Retry-After", "6");
  return made;
}

void recognize(Request& request, const GuardConfig& config) {
  auto& peer = request.peer;
  peer.key = {};
  request.takes_admin_key = !config.admin_key.empty();
  if (needs_key(request) && sends_key(request)) {
    if (!config.admin_key.empty() && has_key(request, config.admin_key))
      peer.key = "admin";
    else if (!config.api_key.empty() && has_key(request, config.api_key))
      peer.key = "api";
  }
  peer.is_admin = !needs_key(request) || peer.key == "admin";
}

std::optional<Response> refuse(const Request& request, bool open, const GuardConfig& config) {
  const bool keyed = !config.api_key.empty();
  const bool sent_one = sends_key(request);
  const bool guesses = sent_one && !config.admin_key.empty();
  if (needs_key(request) && !open && request.peer.key.empty() && (keyed || guesses))
    return key_required(sent_one);
  if (!request.over_socket && !keyed && !request.host.empty() &&
      !is_own_name(request.host, config.allowed_hosts))
    return error_response(
        421, "wrong_host", "this server does not answer to the name '" + request.host + "'",
        "Use its IP address or localhost, or add the name to serve.allowed_hosts.");
  if (!changes_something(request.method)) return std::nullopt;
  if (!request.origin.empty() && !is_same_origin(request))
    return error_response(403, "cross_origin",
                          "a page of " + request.origin + " may not change this server",
                          "Send the request from the dashboard or from a program.");
  if (request.has_body && !is_json(request.content_type))
    return error_response(415, "not_json", "the body's Content-Type must be application/json",
                          "Add the header 'Content-Type: application/json'.");
  return std::nullopt;
}

}  // namespace sluice::serve::http
