#include "serve/address.h"

#include <boost/asio/ip/address.hpp>
#include <string>

namespace sluice::serve {

bool is_loopback(std::string_view host) noexcept {
  if (host == "localhost") return true;
  boost::system::error_code failed;
  const auto address = boost::asio::ip::make_address(std::string(host), failed);
  return !failed && address.is_loopback();
}

}  // namespace sluice::serve
