// Names and addresses of the server.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::serve {

// "localhost", 127.0.0.0/8 and ::1. A name that must be resolved is not.
bool is_loopback(std::string_view host) noexcept;

bool is_address(std::string_view text) noexcept;  // IPv4, or IPv6 without brackets

// Letters, digits, '-', '_' and '.', as in a URL; an IPv4 address is one too.
bool is_host_name(std::string_view text) noexcept;

// "localhost:8000", "10.0.0.1", "[::1]:80" taken apart; the name is a view of `text`,
// without brackets. Nothing when it is no host, or the port is none of 1 to 65535.
struct HostPort {
  std::string_view name;
  std::optional<std::uint16_t> port;
};
std::optional<HostPort> split_host(std::string_view text) noexcept;

}  // namespace sluice::serve
