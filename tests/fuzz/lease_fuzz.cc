// Any bytes as the body of POST /v1/leases, and as a token: each is a request within its
// limits, or is refused with a short reason that names a field. Built for libFuzzer with
// clang, and for the smoke test beside it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "broker/broker.h"

namespace {

using namespace sluice;

void check(bool ok) {
  if (!ok) std::abort();
}

void read_request(std::string_view body) {
  try {
    auto request = broker::lease_request_from_json(body, {});
    check(request.holder == broker::Holder{});
    if (request.bytes == 0) request.bytes = request.min_bytes > 0 ? request.min_bytes : 1;
    broker::check(request);  // throws when a limit was overlooked
  } catch (const Error& e) {
    check(e.code() == Code::invalid_argument);
    const std::string_view reason = e.what();
    check(!reason.empty() && reason.size() < 4096);
  }
}

void read_token(std::string_view text) {
  const auto token = broker::token_from(text);
  if (!token) return;
  const auto again = broker::token_from(broker::to_string(*token));
  check(again && again->id == token->id && again->renewals == token->renewals &&
        again->secret == token->secret);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_request(bytes);
  read_token(bytes);
  return 0;
}
