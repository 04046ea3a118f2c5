#include "broker/enforce/driver_limits.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace sluice::broker {

namespace {

constexpr double kPatience_s = 10;
constexpr std::size_t kMaxConcurrentCommands =
    16;  // of processes; more than that hang in the driver

std::string wrong_with(const std::string& line) {
  const auto json = Json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("stands") || !json["stands"].is_boolean())
    return "its output is invalid";
  if (json["stands"].get<bool>()) return "";
  const auto why = json.value("why_not", "");
  return why.empty() ? "the limit does not stand" : why;
}

}  // namespace

void DriverLimits::start(const Lease& lease, const std::string& group, Instant now) {
  if (running_.contains(lease.id)) return;
  if (running_.size() + ending_.size() >= kMaxConcurrentCommands) {
    failed_to_start_.push_back({lease.id, "earlier ones hang in the driver"});
    return;
  }
  const auto min_bytes = std::ranges::min(lease.parts, {}, &Part::bytes).bytes;
  std::vector<std::string> arguments{"gpu-limit",
                                     "--group",
                                     group,
                                     "--bytes",
                                     std::to_string(min_bytes),
                                     "--fd",
                                     std::to_string(Child::kFd)};
  for (const auto& part : lease.parts)
    arguments.insert(arguments.end(), {std::string("--uuid"), part.uuid});
  try {
    running_.emplace(lease.id, Run{std::make_unique<Child>(program_, arguments), now});
  } catch (const Error& e) {
    failed_to_start_.push_back({lease.id, std::string(e.reason())});
  }
}

std::vector<DriverLimits::Result> DriverLimits::advance(Instant now) {
  auto results = std::exchange(failed_to_start_, {});
  for (auto at = running_.begin(); at != running_.end();) {
    auto& [lease, run] = *at;
    const auto lines = run.child->lines();
    if (!lines.empty()) {
      results.push_back({lease, wrong_with(lines.front())});
    } else if (run.child->closed() && run.child->has_ended()) {
      results.push_back({lease, "it ended with " + run.child->how_it_ended()});
    } else if (seconds_between(run.started, now) >= kPatience_s) {
      results.push_back({lease, "the driver did not answer"});
    } else {
      ++at;
      continue;
    }
    run.child->end(now, 1);
    ending_.push_back(std::move(run.child));
    at = running_.erase(at);
  }
  for (const auto& child : ending_) child->advance(now);
  std::erase_if(ending_, [](const auto& child) { return child->has_ended(); });
  return results;
}

}  // namespace sluice::broker
