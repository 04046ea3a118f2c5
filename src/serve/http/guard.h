// Access control, decided from the request alone.
//
// Two dangers on a machine of one's own are browsers: any page may send requests
// to 127.0.0.1 (forgery), and a name the page's owner controls may be pointed at
// it (rebinding). Against the first, a request that changes something must come
// from our own origin and say that its body is JSON; against the second, where
// no key protects the server, it answers only to names that are its own.
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
  Secret admin_key;                        // does for api_key, too; empty: none is accepted
  std::vector<std::string> allowed_hosts;  // beside IP addresses and localhost
};

bool is_owner(const Peer& peer) noexcept;  // the user whom the server runs as, or root
bool sends_key(const Request& request) noexcept;
bool wants_keys(const GuardConfig& config) noexcept;  // there is one to be guessed
Response too_many_keys();                             // for KeyThrottle

// Whether this client must send the key, if one is set: all but the owner over the Unix socket.
bool needs_key(const Request& request) noexcept;

// Sets request.peer.key and is_admin, which belongs to a client that shows the admin key and, over
// the Unix socket, to the owner.
void recognize(Request& request, const GuardConfig& config);

// The refusal, or nothing when the request may go on. `open` routes need no key. After recognize().
std::optional<Response> refuse(const Request& request, bool open, const GuardConfig& config);

// "localhost", "localhost:8000", "10.0.0.1:8000", "[::1]" or one of `allowed`. A name
// that is allowed with a port is ours with that port only; otherwise any port will do,
// since a tunnel or a container may show another one to the client than we listen on.
bool is_own_name(std::string_view host, const std::vector<std::string>& allowed);

// Bearer and Basic (the key as password, so that a browser can ask for it) in
// Authorization, or the X-API-Key field. Takes the same time for every wrong key
// of one length.
bool has_key(const Request& request, const Secret& key);

}  // namespace sluice::serve::http
