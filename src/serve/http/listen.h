// Opening the listening sockets, with errors that say what to do.
#pragma once

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <optional>
#include <string>

#include "serve/config.h"
#include "serve/http/net.h"

namespace sluice::serve::http {

template <class Protocol>
using Acceptor = asio::basic_socket_acceptor<Protocol, Executor>;
using TcpAcceptor = Acceptor<asio::ip::tcp>;
using UnixAcceptor = Acceptor<asio::local::stream_protocol>;

// The kernel's buffer for what a client has not read yet; the kernel uses up to twice as much. It
// is outside of the memory budget, and bounded by the number of connections.
inline constexpr int kSendBuffer = 64 << 10;

// Throws invalid_argument where the address is open to others and no key is set,
// unavailable where it cannot be had.
TcpAcceptor listen_tcp(io_context& io, const ServeConfig& config);

// The same port of [::1] for a server that listens on 127.0.0.1: "localhost" is often ::1 first,
// and any other user could listen there for the keys of clients. Nothing where there is no IPv6;
// where another process has the port, `problem` says so.
std::optional<TcpAcceptor> listen_loopback6(io_context& io, const asio::ip::tcp::endpoint& v4,
                                            std::string& problem);

// `mode` of its file. A socket file that nobody answers on is replaced. Throws unavailable.
UnixAcceptor listen_unix(io_context& io, const std::string& path, unsigned mode);

// Lets this process have as many files open as it is allowed to; how many that are.
std::int64_t raise_file_limit() noexcept;

}  // namespace sluice::serve::http
