#include "base/http/url.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"

namespace sluice {

namespace {

[[noreturn]] void refuse(std::string_view what) {
  throw Error(Code::invalid_argument, "not a usable web address: " + std::string(what));
}

bool eat(std::string_view& text, std::string_view prefix) {
  const auto same = [](char a, char b) { return (a | 0x20) == b || a == b; };
  if (text.size() < prefix.size() || !std::equal(prefix.begin(), prefix.end(), text.begin(),
                                                 [&](char p, char t) { return same(t, p); }))
    return false;
  text.remove_prefix(prefix.size());
  return true;
}

void check_port(std::string_view port) {
  const bool digits = !port.empty() && port.size() <= 5 &&
                      std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; });
  const int number = digits ? std::stoi(std::string(port)) : 0;
  if (number < 1 || number > 65535) refuse(fmt::format("the port '{}' is not 1 to 65535", port));
}

// "host", "host:port", "[v6]", "[v6]:port"
void split_authority(std::string_view authority, Url& url) {
  std::string_view rest;
  if (authority.starts_with('[')) {
    const auto close = authority.find(']');
    if (close == authority.npos) refuse("'[' without ']'");
    url.host = authority.substr(1, close - 1);
    rest = authority.substr(close + 1);
    if (!rest.empty() && rest[0] != ':') refuse("only a port may follow ']'");
  } else {
    const auto colon = authority.find(':');
    url.host = authority.substr(0, colon);
    rest = colon == authority.npos ? "" : authority.substr(colon);
  }
  if (url.host.empty()) refuse("there is no host in it");
  if (rest.empty()) return;
  check_port(rest.substr(1));
  url.port = rest.substr(1);
}

}  // namespace

Url parse_url(std::string_view text) {
  const auto odd = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\x7f'; };
  if (text.empty()) refuse("it is empty");
  if (std::ranges::any_of(text, odd)) refuse("it has white space or control characters");
  Url url;
  if (eat(text, "https://"))
    url.tls = true;
  else if (!eat(text, "http://"))
    refuse("it must begin with http:// or https://");
  url.port = url.tls ? "443" : "80";

  const auto end = text.find_first_of("/?#");
  const auto authority = text.substr(0, end);
  if (authority.find('@') != authority.npos)
    refuse("a user name or password in it would end up in logs; use a token in the path");
  split_authority(authority, url);
  std::string_view target = end == text.npos ? "" : text.substr(end);
  target = target.substr(0, target.find('#'));
  url.target = fmt::format("{}{}", target.starts_with('/') ? "" : "/", target);
  return url;
}

std::string Url::host_header() const {
  const std::string name = host.find(':') == host.npos ? host : fmt::format("[{}]", host);
  return port == (tls ? "443" : "80") ? name : fmt::format("{}:{}", name, port);
}

std::string Url::origin() const { return (tls ? "https://" : "http://") + host_header(); }

}  // namespace sluice
