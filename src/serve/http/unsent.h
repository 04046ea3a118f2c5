// Bytes that were written to a socket and that its client has not taken yet. The kernel holds them,
// also after the socket was closed, for as long as the client likes and outside of every limit.
#pragma once

#include <cstddef>

#include "serve/http/net.h"

namespace sluice::serve::http {

std::size_t unsent_in_kernel(Socket& socket);

// Returns whether the connection was reset; then unsent bytes are no longer held.
bool was_reset(Socket& socket);

// Closes the socket; unsent bytes are discarded, with a reset. A Unix socket discards nothing: what
// was sent is in the client's queue.
void close_and_discard(Socket& socket);

}  // namespace sluice::serve::http
