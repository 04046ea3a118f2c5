// The body of POST /v1/leases. Everything in it comes from outside: each field is
// checked separately, all problems are reported at once, and quoted input is short.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"
#include "base/nearest.h"
#include "broker/broker.h"

namespace sluice::broker {

namespace {

constexpr double kMinGb = 0.001, kMaxGb = 65536;
constexpr double kDay = 86400;
constexpr double kDefaultWait_s = 60;
constexpr std::size_t kShown = 64;  // of a text from outside, in bytes
constexpr std::size_t kMaxProblems = 8;
constexpr std::size_t kMaxBodyBytes = 64 << 10;

constexpr std::array<std::string_view, 4> kPriorities{"low", "normal", "high", "critical"};
constexpr std::array<std::string_view, 3> kOnUnavailable{"cpu", "wait", "fail"};
constexpr std::array<std::string_view, 2> kPlacements{"best_fit", "spread"};
constexpr std::array<std::string_view, 2> kBinds{"heartbeat", "connection"};

// Short and printable, whatever was sent.
std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kShown))
    out += static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f ? '?' : c;
  return "'" + out + (text.size() > kShown ? "…'" : "'");
}

std::string type_of(const Json& json) {
  if (json.is_string()) return "the text " + shown(json.get_ref<const std::string&>());
  if (json.is_number()) return "the number " + json.dump();
  if (json.is_boolean()) return json.get<bool>() ? "true" : "false";
  if (json.is_null()) return "null";
  return json.is_array() ? "a list" : "an object";
}

struct Reading {
  LeaseRequest request;
  const BrokerConfig& config;
  std::set<std::string, std::less<>> given;
};

// Reads one value. Returns what is wrong with it, or "".
using Read = std::string (*)(const Json&, Reading&);

std::string read_number(const Json& json, double low, double high, std::string_view unit,
                        double& out) {
  const bool is_good = json.is_number() && json.get<double>() >= low && json.get<double>() <= high;
  if (!is_good)
    return fmt::format("must be a number from {} to {}{}, not {}", low, high, unit, type_of(json));
  out = json.get<double>();
  return "";
}

template <std::uint64_t LeaseRequest::*member>
std::string read_gb(const Json& json, Reading& r) {
  double gb = 0;
  auto wrong = read_number(json, kMinGb, kMaxGb, " GB (of 2^30 bytes)", gb);
  if (wrong.empty()) r.request.*member = static_cast<std::uint64_t>(std::llround(gb * kGiB));
  return wrong;
}

template <std::string LeaseRequest::*member>
std::string read_text(const Json& json, Reading& r) {
  constexpr std::size_t kMaxBytes = 128;
  if (!json.is_string()) return "must be a text, not " + type_of(json);
  const auto& text = json.get_ref<const std::string&>();
  if (text.size() > kMaxBytes)
    return fmt::format("has {} bytes; at most {} are allowed", text.size(), kMaxBytes);
  r.request.*member = text;
  return "";
}

// The JSON type distinguishes an index from a name; the broker, which knows the cards, resolves it.
std::string read_device(const Json& json, Reading& r) {
  if (json.is_string()) return read_text<&LeaseRequest::device>(json, r);
  const bool is_index = json.is_number_unsigned() && json.get<std::uint64_t>() <= 1024;
  if (!is_index) return "must be a GPU's UUID, its PCI bus or its index, not " + type_of(json);
  r.request.device = json.dump();
  return "";
}

std::string read_ttl(const Json& json, Reading& r) {
  double s = 0;
  auto wrong = read_number(json, 1, r.config.max_ttl_s, " seconds (broker.max_ttl_s)", s);
  if (wrong.empty()) r.request.ttl = Seconds(s);
  return wrong;
}

std::string read_wait(const Json& json, Reading& r) {
  double s = 0;
  auto wrong = read_number(json, 0, kDay, " seconds", s);
  if (wrong.empty()) r.request.wait = Seconds(s);
  return wrong;
}

std::string read_gpus(const Json& json, Reading& r) {
  const bool is_good = json.is_number_unsigned() && json.get<std::uint64_t>() >= 1 &&
                       json.get<std::uint64_t>() <= 64;
  if (!is_good) return "must be an integer from 1 to 64, not " + type_of(json);
  r.request.gpus = json.get<unsigned>();
  return "";
}

std::string read_node(const Json& json, Reading& r) {
  const bool is_good = json.is_number_unsigned() && json.get<std::uint64_t>() <= 1023;
  if (!is_good) return "must be an integer from 0 to 1023, not " + type_of(json);
  r.request.numa_node = json.get<int>();
  return "";
}

template <bool LeaseRequest::*member>
std::string read_flag(const Json& json, Reading& r) {
  if (!json.is_boolean()) return "must be true or false, not " + type_of(json);
  r.request.*member = json.get<bool>();
  return "";
}

template <std::size_t N>
std::string one_of(const Json& json, const std::array<std::string_view, N>& words,
                   std::size_t& index) {
  const std::string_view text =
      json.is_string() ? std::string_view(json.get_ref<const std::string&>()) : "";
  const auto found = std::ranges::find(words, text);
  index = static_cast<std::size_t>(found - words.begin());
  if (found != words.end()) return "";
  return fmt::format("must be one of {}, not {}{}", fmt::join(words, ", "), type_of(json),
                     did_you_mean(text.substr(0, kShown), words));
}

std::string read_priority(const Json& json, Reading& r) {
  std::size_t index = 0;
  auto wrong = one_of(json, kPriorities, index);
  if (wrong.empty()) r.request.priority = *priority_from(kPriorities[index]);
  return wrong;
}

std::string read_on_unavailable(const Json& json, Reading& r) {
  std::size_t index = 0;
  auto wrong = one_of(json, kOnUnavailable, index);
  if (wrong.empty()) r.request.on_unavailable = *on_unavailable_from(kOnUnavailable[index]);
  return wrong;
}

std::string read_placement(const Json& json, Reading& r) {
  std::size_t index = 0;
  auto wrong = one_of(json, kPlacements, index);
  if (wrong.empty())
    r.request.placement = index == 0 ? PlacementPolicy::best_fit : PlacementPolicy::spread;
  return wrong;
}

std::string read_bind(const Json& json, Reading& r) {
  std::size_t index = 0;
  auto wrong = one_of(json, kBinds, index);
  r.request.bound = index == 1;
  return wrong;
}

std::string read_pid(const Json& json, Reading& r) {
  constexpr std::uint64_t kHighest = 1 << 22;  // of the kernel's process numbers
  const bool is_good = json.is_number_unsigned() && json.get<std::uint64_t>() <= kHighest;
  if (!is_good)
    return "must be a process number, or 0 for a lease that no process holds, not " + type_of(json);
  r.request.named_pid = json.get<std::int64_t>();
  return "";
}

struct FieldInfo {
  std::string_view name;
  Read read;
};
constexpr FieldInfo kFields[] = {
    {"agent", read_text<&LeaseRequest::agent>},
    {"memory_gb", read_gb<&LeaseRequest::bytes>},
    {"min_memory_gb", read_gb<&LeaseRequest::min_bytes>},
    {"priority", read_priority},
    {"model_type", read_text<&LeaseRequest::model_type>},
    {"device", read_device},
    {"gpus", read_gpus},
    {"numa_node", read_node},
    {"linked", read_flag<&LeaseRequest::linked>},
    {"placement", read_placement},
    {"ttl_s", read_ttl},
    {"wait_s", read_wait},
    {"on_unavailable", read_on_unavailable},
    {"client_limits", read_flag<&LeaseRequest::client_limits>},
    {"bind", read_bind},
    {"pid", read_pid},
};

std::vector<std::string_view> field_names() {
  std::vector<std::string_view> names;
  for (const auto& f : kFields) names.push_back(f.name);
  return names;
}

[[noreturn]] void refuse_all(std::string_view why) {
  throw Error(Code::invalid_argument, std::string(why));
}

Json parse(std::string_view body) {
  if (body.size() > kMaxBodyBytes)
    refuse_all(fmt::format("the request has {} bytes; at most {} are allowed", body.size(),
                           kMaxBodyBytes));
  return parse_json_object(body, "the request");
}

void read_all(const Json& json, Reading& reading, std::vector<std::string>& problems) {
  const auto names = field_names();
  for (const auto& item : json.items()) {
    const std::string_view key = item.key();
    const auto field = std::ranges::find(kFields, key, &FieldInfo::name);
    if (field == std::end(kFields)) {
      problems.push_back(shown(key) + " is unknown" + did_you_mean(key.substr(0, kShown), names));
    } else if (auto wrong = field->read(item.value(), reading); !wrong.empty()) {
      problems.push_back(fmt::format("{} {}", key, wrong));
    } else {
      reading.given.insert(std::string(key));
    }
    if (problems.size() == kMaxProblems) return;
  }
}

// Waiting has two fields; one of them is enough to mean it.
void settle_waiting(Reading& r, std::vector<std::string>& problems) {
  auto& w = r.request;
  const bool how = r.given.contains("on_unavailable"), how_long = r.given.contains("wait_s");
  if (!how && how_long && w.wait.count() > 0) w.on_unavailable = OnUnavailable::wait;
  if (w.on_unavailable == OnUnavailable::wait && !how_long) w.wait = Seconds(kDefaultWait_s);
  if (how && w.on_unavailable != OnUnavailable::wait && w.wait.count() > 0)
    problems.push_back(fmt::format("wait_s is given, but on_unavailable is {}; only \"wait\" waits",
                                   to_string(w.on_unavailable)));
}

}  // namespace

LeaseRequest lease_request_from_json(std::string_view body, const BrokerConfig& config) {
  const auto json = parse(body);
  std::vector<std::string> problems;
  Reading reading{{}, config, {}};
  reading.request.ttl = Seconds(config.default_ttl_s);
  read_all(json, reading, problems);
  if (!json.contains("agent"))
    problems.push_back("agent is missing: it names the requesting agent");
  settle_waiting(reading, problems);
  if (!problems.empty()) refuse_all(fmt::format("{}", fmt::join(problems, "; ")));
  auto checked = reading.request;  // without memory_gb the broker's settings may know it
  if (checked.bytes == 0) checked.bytes = std::max<std::uint64_t>(1, checked.min_bytes);
  check(checked);
  return std::move(reading.request);
}

}  // namespace sluice::broker
