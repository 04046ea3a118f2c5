// Opening the listening sockets, with errors that say what to do.
#pragma once

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <string>

#include "serve/config.h"
#include "serve/http/net.h"

namespace sluice::serve::http {

template <class Protocol>
using Acceptor = asio::basic_socket_acceptor<Protocol, Executor>;
using TcpAcceptor = Acceptor<asio::ip::tcp>;
using UnixAcceptor = Acceptor<asio::local::stream_protocol>;

// Throws invalid_argument where the address is open to others and no key is set,
// unavailable where it cannot be had.
TcpAcceptor listen_tcp(io_context& io, const ServeConfig& config);

// `mode` of its file. A socket file that nobody answers on is replaced. Throws unavailable.
UnixAcceptor listen_unix(io_context& io, const std::string& path, unsigned mode);

// Lets this process have as many files open as it is allowed to; how many that are.
std::int64_t raise_file_limit() noexcept;

}  // namespace sluice::serve::http
