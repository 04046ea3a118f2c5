// Access control, decided from the request alone. Beside keys it stops two attacks by browsers:
//   - CSRF: any web page may send requests to 127.0.0.1. A request that changes something must
//     come from the server's own origin and declare its body as JSON.
//   - DNS rebinding: a page's owner may point a name of theirs at this machine. A server without
//     a key answers only requests for its own names.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/secret.h"
#include "serve/http/message.h"

namespace sluice::serve::http {

struct GuardConfig {
  Secret api_key;                          // empty: none needed
  Secret admin_key;                        // also accepted as api_key; empty: none is accepted
  std::vector<std::string> allowed_hosts;  // beside IP addresses and localhost
};

bool is_owner(const Peer& peer) noexcept;  // the user whom the server runs as, or root
bool sends_key(const Request& request) noexcept;
bool wants_keys(const GuardConfig& config) noexcept;  // whether any key is set
Response too_many_keys();                             // for KeyThrottle

// Returns whether this client must send the key, if one is set: all but the owner over the Unix
// socket.
bool needs_key(const Request& request) noexcept;

// Sets request.peer.key and is_admin, which belongs to a client that shows the admin key and, over
// the Unix socket, to the owner.
void recognize(Request& request, const GuardConfig& config);

// Returns the refusal, or nothing when the request may go on. `open` routes need no key. Call
// recognize() before.
std::optional<Response> refuse(const Request& request, bool open, const GuardConfig& config);

// Accepts "localhost", "localhost:8000", "10.0.0.1:8000", "[::1]" and the names in `allowed`. A
// name that is allowed with a port is accepted with that port only, others with any: a tunnel or a
// container may show another port to the client than the server listens on.
bool is_own_name(std::string_view host, const std::vector<std::string>& allowed);

// Reads the key from Authorization (Bearer, or Basic with the key as password, for browsers) or
// from X-API-Key. Takes the same time for every wrong key of one length.
bool has_key(const Request& request, const Secret& key);

}  // namespace sluice::serve::http
