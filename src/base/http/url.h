// An http or https address, taken apart.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

struct Url {
  bool tls = false;
  std::string host;    // without the brackets of an IPv6 literal
  std::string port;    // "443"; filled in from the scheme
  std::string target;  // path and query, at least "/"

  std::string host_header() const;  // with port when it is not the scheme's
  std::string origin() const;  // "https://example.com:8443": what may be logged, paths hold tokens
};

// Throws invalid_argument that says what is wrong: another scheme, no host, a bad
// port, a user name in the address, white space.
Url parse_url(std::string_view text);

}  // namespace sluice
