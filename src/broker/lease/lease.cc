#include "broker/lease/lease.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/units.h"

namespace sluice::broker {

namespace {

constexpr std::array<std::string_view, 4> kPriorities{"low", "normal", "high", "critical"};
constexpr std::array<std::string_view, 3> kOnUnavailable{"cpu", "wait", "fail"};
constexpr std::array<std::string_view, 5> kEnforcements{"none", "observed", "client", "mps",
                                                        "cgroup"};
constexpr std::array<std::string_view, 6> kStates{"waiting",  "on_cpu",   "held",
                                                  "yielding", "draining", "ended"};
constexpr std::array<std::string_view, 6> kEndReasons{"none",        "released", "expired",
                                                      "holder_died", "revoked",  "timed_out"};

constexpr std::size_t kMaxNameBytes = 128;
constexpr std::uint64_t kMaxLeaseBytes = 64ull << 40;
constexpr unsigned kMaxLeaseGpus = 64;
constexpr double kDay = 86400;

template <std::size_t N, class Enum>
std::string_view name_of(const std::array<std::string_view, N>& names, Enum value) noexcept {
  const auto index = static_cast<std::size_t>(value);
  return index < N ? names[index] : "unknown";
}

template <class Enum, std::size_t N>
std::optional<Enum> named(const std::array<std::string_view, N>& names,
                          std::string_view name) noexcept {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

[[noreturn]] void refuse_request(std::string text) { throw Error(Code::invalid_argument, text); }

// Every request comes here: a message is made only where it is needed.
void check_name(std::string_view field, std::string_view text, bool may_be_empty) {
  if (text.empty() && !may_be_empty)
    refuse_request(fmt::format("{} is empty; it names the requesting agent, in 1 to {} characters",
                               field, kMaxNameBytes));
  if (text.size() > kMaxNameBytes)
    refuse_request(
        fmt::format("{} has {} bytes; at most {} are allowed", field, text.size(), kMaxNameBytes));
  if (!is_plain_text(text))
    refuse_request(fmt::format(
        "{} has characters that cannot be printed, or are not seen; use plain UTF-8 text", field));
  if (has_outer_spaces(text))
    refuse_request(fmt::format("{} begins or ends with a space; leave it out", field));
}

// Written so that a NaN is outside too.
void check_span(std::string_view field, Seconds value, double low) {
  if (!(value.count() >= low && value.count() <= kDay))
    refuse_request(fmt::format("{} is {} s; it may be {} s to {} s (one day)", field, value.count(),
                               low, kDay));
}

}  // namespace

bool is_same_user(const LeaseRequest& one, const LeaseRequest& other) noexcept {
  const auto uid = one.holder.uid;
  if (uid != other.holder.uid || uid == kUnmappedUid) return false;
  return uid >= 0 || one.peer == other.peer;
}

bool may_preempt(const LeaseRequest& requester, const LeaseRequest& holder) noexcept {
  return requester.by_admin || is_same_user(requester, holder);
}

std::uint64_t promised(const Lease& lease) noexcept {
  std::uint64_t bytes = 0;
  for (const auto& part : lease.parts) bytes += part.bytes;
  return bytes;
}

std::string_view to_string(Priority p) noexcept { return name_of(kPriorities, p); }
std::string_view to_string(OnUnavailable o) noexcept { return name_of(kOnUnavailable, o); }
std::string_view to_string(Enforcement e) noexcept { return name_of(kEnforcements, e); }
std::string_view to_string(State s) noexcept { return name_of(kStates, s); }
std::string_view to_string(EndReason e) noexcept { return name_of(kEndReasons, e); }

std::optional<Priority> priority_from(std::string_view name) noexcept {
  return named<Priority>(kPriorities, name);
}
std::optional<OnUnavailable> on_unavailable_from(std::string_view name) noexcept {
  return named<OnUnavailable>(kOnUnavailable, name);
}

std::string_view utf8_prefix(std::string_view text, std::size_t max_bytes) noexcept {
  if (text.size() <= max_bytes) return text;
  while (max_bytes > 0 && (static_cast<unsigned char>(text[max_bytes]) & 0xc0) == 0x80) --max_bytes;
  return text.substr(0, max_bytes);
}

void check(const LeaseRequest& request) {
  check_name("agent", request.agent, false);
  check_name("model_type", request.model_type, true);
  check_name("device", request.device, true);
  require(request.bytes > 0, "memory is 0; a lease is for more than 0 bytes");
  if (request.bytes > kMaxLeaseBytes)
    refuse_request(fmt::format("memory is {}; at most {} on each GPU may be requested",
                               human_bytes(request.bytes), human_bytes(kMaxLeaseBytes)));
  if (request.min_bytes > request.bytes)
    refuse_request(fmt::format("the minimum memory ({}) is above the memory requested ({})",
                               human_bytes(request.min_bytes), human_bytes(request.bytes)));
  if (request.gpus < 1 || request.gpus > kMaxLeaseGpus)
    refuse_request(fmt::format("gpus is {}; it may be 1 to {}", request.gpus, kMaxLeaseGpus));
  require(request.gpus == 1 || request.device.empty(),
          "a device is named, but more than one GPU is requested");
  check_span("ttl", request.ttl, 1);
  check_span("wait", request.wait, 0);
}

}  // namespace sluice::broker
