#include "serve/http/listen.h"

#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <limits>
#include <utility>

#include "base/error.h"
#include "base/state_file.h"
#include "serve/address.h"

namespace sluice::serve::http {

namespace {

constexpr int kBacklog = 4096;

asio::ip::tcp::endpoint endpoint_of(io_context& io, const ServeConfig& config) {
  asio::ip::tcp::resolver resolver(io);
  ErrorCode failed;
  const auto found = resolver.resolve(
      config.host, std::to_string(config.port),
      asio::ip::tcp::resolver::passive | asio::ip::tcp::resolver::numeric_service, failed);
  if (failed || found.empty())
    throw Error(
        Code::invalid_argument,
        "serve.host '" + config.host + "' is no address and no known name: " + failed.message());
  return found.begin()->endpoint();
}

void require_key(const ServeConfig& config, const asio::ip::tcp::endpoint& endpoint) {
  if (!config.api_key.empty() || endpoint.address().is_loopback()) return;
  throw Error(Code::invalid_argument,
              "serve.host " + config.host +
                  " can be reached from other machines and no API key is set; set "
                  "SLUICE_SERVE_API_KEY (or api_key in the [serve] section), or listen on "
                  "127.0.0.1");
}

[[noreturn]] void cannot_listen(const std::string& what, const ErrorCode& why) {
  if (why == asio::error::address_in_use)
    throw Error(Code::unavailable, what +
                                       " is taken, perhaps by another sluice; stop that, or "
                                       "choose another with --port N (0 takes a free one)");
  if (why == asio::error::access_denied)
    throw Error(Code::unavailable,
                what + " is not for this user; choose a port above 1023 with --port N");
  throw Error(Code::unavailable, "cannot listen on " + what + ": " + why.message());
}

std::string name_of(const asio::ip::tcp::endpoint& endpoint) {
  return "port " + std::to_string(endpoint.port()) + " of " + endpoint.address().to_string();
}

bool somebody_answers(io_context& io, const std::string& path) {
  ErrorCode failed;
  asio::local::stream_protocol::socket probe(io);
  probe.connect(asio::local::stream_protocol::endpoint(path), failed);
  return !failed;
}

// Accepted sockets inherit these options. A client whose machine disappeared is noticed within two
// minutes, and the kernel buffers no megabytes for one that reads nothing.
void set_for_clients(TcpAcceptor& acceptor) {
  const auto set = [&](int level, int name, int value) {
    ::setsockopt(acceptor.native_handle(), level, name, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 15);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(SOL_SOCKET, SO_SNDBUF, kSendBuffer);
}

void listen_on(TcpAcceptor& acceptor, const asio::ip::tcp::endpoint& endpoint, ErrorCode& failed) {
  acceptor.open(endpoint.protocol(), failed);
  // Allows binding over sockets of our last run that are closing, never over a live server: that
  // needs SO_REUSEPORT, with which two servers would silently share a port.
  if (!failed) acceptor.set_option(asio::socket_base::reuse_address(true), failed);
  if (!failed) set_for_clients(acceptor);
  if (!failed) acceptor.bind(endpoint, failed);
  if (!failed) acceptor.listen(kBacklog, failed);
}

}  // namespace

TcpAcceptor listen_tcp(io_context& io, const ServeConfig& config) {
  const auto endpoint = endpoint_of(io, config);
  require_key(config, endpoint);
  TcpAcceptor acceptor(io);
  ErrorCode failed;
  listen_on(acceptor, endpoint, failed);
  if (failed) cannot_listen(name_of(endpoint), failed);
  return acceptor;
}

std::optional<TcpAcceptor> listen_loopback6(io_context& io, const asio::ip::tcp::endpoint& v4,
                                            std::string& problem) {
  if (v4.address() != asio::ip::address_v4::loopback()) return std::nullopt;
  const asio::ip::tcp::endpoint endpoint(asio::ip::address_v6::loopback(), v4.port());
  TcpAcceptor acceptor(io);
  ErrorCode failed;
  listen_on(acceptor, endpoint, failed);
  if (failed == asio::error::address_in_use)
    problem = name_of(endpoint) + " is taken by another process: clients that name localhost may " +
              "reach that one; name 127.0.0.1";
  return failed ? std::nullopt : std::optional(std::move(acceptor));
}

UnixAcceptor listen_unix(io_context& io, const std::string& path, unsigned mode) {
  if (path.size() >= sizeof(sockaddr_un::sun_path))
    throw Error(Code::unavailable, "the path " + path + " is too long for a Unix socket");
  if (somebody_answers(io, path))
    throw Error(Code::unavailable, "another sluice listens on " + path);
  remove_stale_socket(path);
  UnixAcceptor acceptor(io);
  ErrorCode failed;
  acceptor.open(asio::local::stream_protocol(), failed);
  const auto mask = ::umask(0777 & ~mode);  // from the first moment on
  if (!failed) acceptor.bind(asio::local::stream_protocol::endpoint(path), failed);
  ::umask(mask);
  if (!failed) acceptor.listen(kBacklog, failed);
  if (failed) throw Error(Code::unavailable, "cannot listen on " + path + ": " + failed.message());
  return acceptor;
}

std::int64_t raise_file_limit() noexcept {
  constexpr auto kAny = std::numeric_limits<std::int64_t>::max();
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return kAny;
  const rlim_t before = std::exchange(files.rlim_cur, files.rlim_max);
  const rlim_t now = ::setrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur : before;
  return now == RLIM_INFINITY ? kAny : static_cast<std::int64_t>(now);
}

}  // namespace sluice::serve::http
