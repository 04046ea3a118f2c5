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
constexpr std::array<std::string_view, 6> kEndings{"none",        "released", "expired",
                                                   "holder_died", "revoked",  "timed_out"};

constexpr std::size_t kLongestName = 128;
constexpr std::uint64_t kMostBytes = 64ull << 40;
constexpr unsigned kMostGpus = 64;
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

[[noreturn]] void refuse_wish(std::string text) { throw Error(Code::invalid_argument, text); }

// Every request comes here: a message is made only where it is needed.
void check_name(std::string_view field, std::string_view text, bool may_be_empty) {
  if (text.empty() && !may_be_empty)
    refuse_wish(
        fmt::format("{} is empty; it names who asks, in 1 to {} characters", field, kLongestName));
  if (text.size() > kLongestName)
    refuse_wish(
        fmt::format("{} has {} bytes; at most {} are allowed", field, text.size(), kLongestName));
  if (!is_plain_text(text))
    refuse_wish(fmt::format(
        "{} has characters that cannot be printed, or are not seen; use plain UTF-8 text", field));
  if (has_outer_spaces(text))
    refuse_wish(fmt::format("{} begins or ends with a space; leave it out", field));
}

// Written so that a NaN is outside too.
void check_span(std::string_view field, Seconds value, double low) {
  if (!(value.count() >= low && value.count() <= kDay))
    refuse_wish(fmt::format("{} is {} s; it may be {} s to {} s (one day)", field, value.count(),
                            low, kDay));
}

}  // namespace

bool is_same_user(const Wanted& one, const Wanted& other) noexcept {
  const auto uid = one.holder.uid;
  if (uid != other.holder.uid || uid == kUnmappedUid) return false;
  return uid >= 0 || one.peer == other.peer;
}

bool may_preempt(const Wanted& asker, const Wanted& holder) noexcept {
  return asker.by_admin || is_same_user(asker, holder);
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
std::string_view to_string(Ending e) noexcept { return name_of(kEndings, e); }

std::optional<Priority> priority_named(std::string_view name) noexcept {
  return named<Priority>(kPriorities, name);
}
std::optional<OnUnavailable> on_unavailable_named(std::string_view name) noexcept {
  return named<OnUnavailable>(kOnUnavailable, name);
}

std::string_view whole_characters(std::string_view text, std::size_t most) noexcept {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return text.substr(0, most);
}

void check(const Wanted& wanted) {
  check_name("agent", wanted.agent, false);
  check_name("model_type", wanted.model_type, true);
  check_name("device", wanted.device, true);
  require(wanted.bytes > 0, "memory is 0; a lease is for more than 0 bytes");
  if (wanted.bytes > kMostBytes)
    refuse_wish(fmt::format("memory is {}; at most {} on each GPU may be asked for",
                            human_bytes(wanted.bytes), human_bytes(kMostBytes)));
  if (wanted.min_bytes > wanted.bytes)
    refuse_wish(fmt::format("the least memory ({}) is above the memory asked for ({})",
                            human_bytes(wanted.min_bytes), human_bytes(wanted.bytes)));
  if (wanted.gpus < 1 || wanted.gpus > kMostGpus)
    refuse_wish(fmt::format("gpus is {}; it may be 1 to {}", wanted.gpus, kMostGpus));
  require(wanted.gpus == 1 || wanted.device.empty(),
          "a device is named, but more than one GPU is asked for");
  check_span("ttl", wanted.ttl, 1);
  check_span("wait", wanted.wait, 0);
}

}  // namespace sluice::broker
