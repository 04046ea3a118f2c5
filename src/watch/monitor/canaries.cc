#include "watch/monitor/canaries.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace sluice::watch {

namespace {

Canaries::Result result_of(const std::string& uuid, const std::string& line) {
  const auto j = Json::parse(line, nullptr, false);
  if (!j.is_object() || !j.contains("passed") || !j["passed"].is_boolean())
    return {uuid, false, "its output is invalid"};
  return {uuid, j["passed"].get<bool>(), j.value("note", "")};
}

}  // namespace

void Canaries::start(const std::string& uuid, Instant now) {
  constexpr std::ptrdiff_t kMaxEnding = 4;
  if (running_.contains(uuid)) return;
  if (std::ranges::count(ending_, uuid, &Ending::uuid) >= kMaxEnding) {
    failed_to_start_.push_back(
        {uuid, false, "earlier canaries hang in the driver and cannot be ended"});
    return;
  }
  std::vector<std::string> arguments{"canary", "--uuid", uuid, "--fd", std::to_string(Child::kFd)};
  if (!options_.demo.empty())
    arguments.insert(arguments.end(),
                     {"--demo", options_.demo, "--epoch", std::to_string(options_.demo_epoch_ns)});
  try {
    running_.emplace(uuid, Run{std::make_unique<Child>(options_.program, arguments), now});
  } catch (const Error& e) {
    failed_to_start_.push_back({uuid, false, e.what()});
  }
}

void Canaries::cancel(const std::string& uuid, Instant now) {
  const auto found = running_.find(uuid);
  if (found == running_.end()) return;
  found->second.child->end(now, 1);
  ending_.push_back({uuid, std::move(found->second.child)});
  running_.erase(found);
}

std::vector<Canaries::Result> Canaries::advance(Instant now) {
  auto results = std::exchange(failed_to_start_, {});
  for (auto at = running_.begin(); at != running_.end();) {
    auto& [uuid, run] = *at;
    const auto lines = run.child->lines();
    const bool late = seconds_between(run.started, now) >= options_.limit_s;
    if (!lines.empty())
      results.push_back(result_of(uuid, lines.front()));
    else if (run.child->closed() && run.child->has_ended())
      results.push_back({uuid, false, "it ended with " + run.child->how_it_ended()});
    else if (late)
      results.push_back({uuid, false, fmt::format("no answer within {:.0f} s", options_.limit_s)});
    else {
      ++at;
      continue;
    }
    run.child->end(now, 1);
    ending_.push_back({uuid, std::move(run.child)});
    at = running_.erase(at);
  }
  for (const auto& ending : ending_) ending.child->advance(now);
  std::erase_if(ending_, [](const auto& ending) { return ending.child->has_ended(); });
  return results;
}

std::vector<int> Canaries::fds() const {
  std::vector<int> all;
  for (const auto& [uuid, run] : running_)
    if (!run.child->closed()) all.push_back(run.child->fd());
  return all;
}

}  // namespace sluice::watch
