#include "compute/choose/costs.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace sluice::compute {
namespace {

constexpr double kNewest = 0.25;                 // share of the newest run in a mean of many
constexpr int kMaxRuns = 1000;                   // counted; more change nothing
constexpr int kMinPower = -64, kMaxPower = 128;  // powers of two that are sizes at all

int size_of(double work) { return std::ilogb(work); }

}  // namespace

std::string_view to_string(Processor processor) noexcept {
  return processor == Processor::cpu ? "cpu" : "gpu";
}

void Costs::note(std::string_view operation, Processor on, double work, double seconds) {
  auto& all = seen_[static_cast<int>(on)];
  auto found = all.find(operation);
  if (found == all.end()) found = all.emplace(operation, BySize{}).first;
  Seen& seen = found->second[size_of(work)];
  seen.runs = std::min(seen.runs + 1, kMaxRuns);
  const double share = std::max(kNewest, 1.0 / seen.runs);
  seen.work += share * (work - seen.work);
  seen.seconds += share * (seconds - seen.seconds);
}

std::optional<Estimate> Costs::estimate(std::string_view operation, Processor on,
                                        double work) const {
  const auto& all = seen_[static_cast<int>(on)];
  const auto found = all.find(operation);
  if (found == all.end()) return std::nullopt;
  const BySize& sizes = found->second;
  const auto above = std::find_if(sizes.begin(), sizes.end(),
                                  [&](const auto& size) { return size.second.work >= work; });
  if (above == sizes.end()) {
    const Seen& largest = sizes.rbegin()->second;
    return Estimate{largest.seconds * work / largest.work, largest.runs};
  }
  const Seen& high = above->second;
  if (above == sizes.begin()) return Estimate{high.seconds, high.runs};
  const Seen& low = std::prev(above)->second;
  const double share = (work - low.work) / (high.work - low.work);
  return Estimate{low.seconds + share * (high.seconds - low.seconds),
                  std::min(low.runs, high.runs)};
}

nlohmann::json Costs::to_json() const {
  auto json = nlohmann::json::object();
  for (const Processor on : {Processor::cpu, Processor::gpu})
    for (const auto& [operation, sizes] : seen_[static_cast<int>(on)])
      for (const auto& [_, seen] : sizes)
        json[std::string(to_string(on))][operation].push_back({seen.work, seen.seconds, seen.runs});
  return json;
}

Costs Costs::from_json(const nlohmann::json& json) try {
  Costs costs;
  for (const Processor on : {Processor::cpu, Processor::gpu}) {
    const auto part = json.find(to_string(on));
    if (part == json.end()) continue;
    for (const auto& [operation, sizes] : part->items())
      for (const auto& size : sizes) {
        const Seen seen{size.at(0), size.at(1), size.at(2)};
        require(std::isfinite(seen.work) && std::isfinite(seen.seconds) && seen.work > 0 &&
                    seen.seconds > 0 && seen.runs > 0 && seen.runs <= kMaxRuns,
                "a measured cost is not a positive number");
        const int power = size_of(seen.work);
        require(power >= kMinPower && power <= kMaxPower,
                "a measured cost is of an impossible size");
        costs.seen_[static_cast<int>(on)][operation][power] = seen;
      }
  }
  return costs;
} catch (const nlohmann::json::exception& e) {
  throw Error(Code::invalid_argument, std::string("measured costs: ") + e.what());
}

}  // namespace sluice::compute
