#include "market/indicators/run_series.h"

#include <map>

#include "market/indicators/batch.h"

namespace sluice::market {

std::vector<compute::Outcome> run_series(compute::Compute& compute, const Plan& plan,
                                         std::span<IndicatorSeries> series,
                                         compute::DevicePreference device) {
  std::map<std::size_t, std::vector<IndicatorSeries*>> by_length;
  for (IndicatorSeries& each : series) by_length[each.bars()].push_back(&each);
  std::vector<compute::Outcome> outcomes;
  const auto outputs = static_cast<std::size_t>(plan.outputs);
  for (const auto& [bars, batch] : by_length) {
    std::vector<std::vector<double>> from(batch[0]->in.size());
    std::vector<std::vector<double>> to(outputs, std::vector<double>(bars * batch.size()));
    for (const IndicatorSeries* each : batch)
      for (std::size_t c = 0; c < from.size(); ++c)
        from[c].insert(from[c].end(), each->in[c].begin(), each->in[c].end());
    if (bars > 0)
      outcomes.push_back(run(compute, plan, Arrays<const double>(from.begin(), from.end()),
                             Arrays<double>(to.begin(), to.end()), bars, device));
    for (std::size_t s = 0; s < batch.size(); ++s)
      for (const auto& column : to) {
        const auto begin = column.begin() + static_cast<std::ptrdiff_t>(s * bars);
        batch[s]->out.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(bars));
      }
  }
  return outcomes;
}

}  // namespace sluice::market
