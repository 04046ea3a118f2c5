// The Idempotency-Key of a request: a client that lost the response sends the request again under
// the same key and gets the same lease.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace sluice::broker {

inline constexpr std::size_t kMaxIdempotencyKeyBytes = 128;

// The value of LeaseRequest::idempotency_key: the client's key and a digest of its JSON body. White
// space and the order of fields do not change the digest. Throws invalid_argument unless the key is
// 1 to 128 visible ASCII characters.
std::string keyed(std::string_view key, std::string_view body);

// The client's part of it.
std::string_view client_key(std::string_view kept) noexcept;

// The key belongs to a lease in force that was requested with another body.
class KeyReused : public Error {
 public:
  explicit KeyReused(std::string_view kept);
};

}  // namespace sluice::broker
