#include "serve/http/unsent.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>

namespace sluice::serve::http {

std::size_t unsent_in_kernel(Socket& socket) {
  int bytes = 0;
  return ::ioctl(socket.native_handle(), SIOCOUTQ, &bytes) == 0 && bytes > 0
             ? static_cast<std::size_t>(bytes)
             : 0;
}

bool was_reset(Socket& socket) {
  pollfd one{socket.native_handle(), 0, 0};
  return ::poll(&one, 1, 0) > 0 && (one.revents & (POLLERR | POLLNVAL)) != 0;
}

void close_and_discard(Socket& socket) {
  if (!socket.is_open()) return;
  ErrorCode ignored;
  if (unsent_in_kernel(socket) > 0) socket.set_option(asio::socket_base::linger(true, 0), ignored);
  socket.close(ignored);
}

}  // namespace sluice::serve::http
