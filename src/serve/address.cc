#include "serve/address.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <charconv>
#include <string>

namespace sluice::serve {

namespace {

constexpr std::size_t kMaxDnsNameBytes = 253;

// Parses ":8000", ":" or ""; nothing for any other text.
std::optional<HostPort> with_port(std::string_view name, std::string_view rest) {
  if (rest.empty()) return HostPort{name, std::nullopt};
  if (!rest.starts_with(':')) return std::nullopt;
  rest.remove_prefix(1);
  if (rest.empty()) return HostPort{name, std::nullopt};
  std::uint16_t port = 0;
  const auto* end = rest.data() + rest.size();
  const auto [stop, failed] = std::from_chars(rest.data(), end, port);
  if (failed != std::errc() || stop != end || port == 0) return std::nullopt;
  return HostPort{name, port};
}

}  // namespace

bool is_loopback(std::string_view host) noexcept {
  if (host == "localhost") return true;
  boost::system::error_code failed;
  const auto address = boost::asio::ip::make_address(std::string(host), failed);
  return !failed && address.is_loopback();
}

bool is_address(std::string_view text) noexcept {
  boost::system::error_code failed;
  boost::asio::ip::make_address(std::string(text), failed);
  return !failed;
}

bool is_host_name(std::string_view text) noexcept {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !text.empty() && text.size() <= kMaxDnsNameBytes && !text.starts_with('.') &&
         text.find("..") == text.npos && std::ranges::all_of(text, allowed);
}

std::optional<HostPort> split_host(std::string_view text) noexcept {
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == text.npos) return std::nullopt;
    const auto name = text.substr(1, end - 1);
    if (name.find(':') == name.npos || !is_address(name)) return std::nullopt;
    return with_port(name, text.substr(end + 1));
  }
  const auto name = text.substr(0, text.find(':'));
  return is_host_name(name) ? with_port(name, text.substr(name.size())) : std::nullopt;
}

}  // namespace sluice::serve
