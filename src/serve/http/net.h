// The Asio types this folder uses, with the executor spelled out: the general one
// costs a virtual call per operation.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/clock.h"

namespace sluice::serve::http {

namespace asio = boost::asio;
using asio::io_context;
using Executor = io_context::executor_type;
using ErrorCode = boost::system::error_code;

// TCP and Unix sockets alike.
using Socket = asio::basic_stream_socket<asio::generic::stream_protocol, Executor>;
using Timer = asio::basic_waitable_timer<Steady, asio::wait_traits<Steady>, Executor>;

template <class T>
using Task = asio::awaitable<T, Executor>;
using Awaiting = asio::use_awaitable_t<Executor>;

// co_await operation(..., into(failed)): the error goes there instead of being thrown.
inline auto into(ErrorCode& failed) { return asio::redirect_error(Awaiting{}, failed); }

}  // namespace sluice::serve::http
