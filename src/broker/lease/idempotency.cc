#include "broker/lease/idempotency.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/uuid/name_generator_sha1.hpp>
#include <boost/uuid/uuid_io.hpp>
#include <nlohmann/json.hpp>

namespace sluice::broker {

namespace {

constexpr char kDivider = ' ';  // in no key

bool is_visible(char c) { return c > ' ' && c <= '~'; }

// Short, and the same in every version of this program: it is stored.
std::string digest(std::string_view body) {
  const auto sorted = nlohmann::json::parse(body).dump();
  return to_string(boost::uuids::name_generator_sha1(boost::uuids::ns::oid())(sorted));
}

}  // namespace

std::string keyed(std::string_view key, std::string_view body) {
  require(
      !key.empty() && key.size() <= kMaxIdempotencyKeyBytes && std::ranges::all_of(key, is_visible),
      fmt::format("Idempotency-Key must be 1 to {} visible ASCII characters, given once",
                  kMaxIdempotencyKeyBytes));
  return std::string(key) + kDivider + digest(body);
}

std::string_view client_key(std::string_view kept) noexcept {
  return kept.substr(0, kept.find(kDivider));
}

KeyReused::KeyReused(std::string_view kept)
    : Error(Code::invalid_argument,
            fmt::format("Idempotency-Key '{}' belongs to a lease that was requested with another "
                        "body",
                        client_key(kept))) {}

}  // namespace sluice::broker
