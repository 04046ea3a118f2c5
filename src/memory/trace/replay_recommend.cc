#include <fmt/core.h>

#include <algorithm>
#include <cassert>

#include "base/units.h"
#include "memory/trace/replay.h"

namespace sluice::memory {

namespace {

using Candidates = std::vector<const ReplayResult*>;

double memory_of(const ReplayResult* r) { return static_cast<double>(r->figures.peak_committed); }
double remapped_by(const ReplayResult* r) { return static_cast<double>(r->figures.remapped_bytes); }
double refused_by(const ReplayResult* r) { return static_cast<double>(r->figures.failures); }
double time_of(const ReplayResult* r) {
  const auto& roomy = r->roomy_times;
  return roomy ? std::min(roomy->quietest_pair, r->times.quietest_pair) : r->times.quietest_pair;
}

// The candidates whose figure is within `factor` of the minimum.
Candidates near_minimum(const Candidates& all, double (*figure)(const ReplayResult*),
                        double factor) {
  const double min_figure = figure(*std::ranges::min_element(all, {}, figure));
  Candidates kept;
  std::ranges::copy_if(all, std::back_inserter(kept), [&](const ReplayResult* result) {
    return figure(result) <= min_figure * factor;
  });
  return kept;
}

std::string names_but(const Candidates& all, const ReplayResult* one) {
  std::string text;
  for (const auto* result : all)
    if (result != one)
      text += (text.empty() ? "" : " and ") + std::string(to_string(result->strategy));
  return text;
}

std::string reason_of(const ReplayResult& chosen, const Candidates& all, const Candidates& small) {
  const auto& figures = chosen.figures;
  if (figures.failures > 0)
    return fmt::format("it refused {} requests, no more than any other; more memory is needed",
                       figures.failures);
  auto reason = fmt::format("it serves everything in {}, {:.1f} % of which is in use at the peak",
                            human_bytes(figures.peak_committed), figures.efficiency * 100);
  if (small.size() > 1)
    reason += fmt::format("; {} need{} about as much", names_but(small, &chosen),
                          small.size() == 2 ? "s" : "");
  const auto* worst = *std::ranges::max_element(all, {}, memory_of);
  if (worst->figures.failures == 0 && std::ranges::find(small, worst) == small.end())
    reason += fmt::format("; {} takes {}", to_string(worst->strategy),
                          human_bytes(worst->figures.peak_committed));
  return reason;
}

}  // namespace

Recommendation recommend(std::span<const ReplayResult> results) {
  assert(!results.empty());
  Candidates all;
  for (const auto& result : results) all.push_back(&result);
  const auto served = near_minimum(all, refused_by, 1);
  const auto small = near_minimum(served, memory_of, 1.01);
  const auto calm = near_minimum(small, remapped_by, 1.5);
  const auto quick = near_minimum(calm, time_of, 1.5);
  const auto* chosen = *std::ranges::min_element(quick, {}, memory_of);
  return {chosen->strategy, reason_of(*chosen, all, small)};
}

}  // namespace sluice::memory
