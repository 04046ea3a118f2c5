#include "market/indicators/plan/segments.h"

#include <algorithm>

namespace sluice::market {
namespace {

constexpr std::int64_t kShortest = 1024;  // bars of a segment; shorter ones are not worth it
constexpr std::int64_t kMany = 64;        // series fill the lanes without being cut
constexpr std::int64_t kLanes = 64;       // a multiple of segments leaves no lane idle

std::int64_t reach(const Plan& plan) { return plan.halo + plan.lookback + plan.align; }

}  // namespace

std::int64_t segment_count(const Plan& plan, std::int64_t bars, std::int64_t series,
                           std::int64_t overhead) {
  if (plan.halo == kEndless || (plan.align > 0 && series >= kMany)) return 1;
  const std::int64_t parts = bars / std::max(overhead * reach(plan), kShortest);
  return parts > kLanes ? parts - parts % kLanes : std::max<std::int64_t>(parts, 1);
}

}  // namespace sluice::market
