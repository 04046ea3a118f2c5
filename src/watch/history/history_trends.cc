// Trends of the last hour, for every device.
#include <nlohmann/json.hpp>
#include <optional>

#include "watch/alerts/alert_subject.h"
#include "watch/history/history.h"
#include "watch/snapshot.h"

namespace sluice::watch {

namespace {

using device::Metric;
using device::Scope;

constexpr double kWindow_s = 3600;

struct Watched {
  Metric metric;
  std::optional<double> (*limit)(const device::Readings&);
};

std::optional<double> none(const device::Readings&) { return std::nullopt; }

// The slowdown temperature: the present temperature plus its margin.
std::optional<double> slowdown(const device::Readings& r) {
  const auto now = r.value(Metric::temperature), left = r.value(Metric::temperature_margin);
  return now && left ? std::optional(*now + *left) : std::nullopt;
}

constexpr Watched kWatched[] = {
    {Metric::memory_used, [](const device::Readings& r) { return r.value(Metric::memory_total); }},
    {Metric::temperature, slowdown},
    {Metric::power, none},
    {Metric::clock_ratio, none},
    {Metric::ecc_corrected, none},
    {Metric::pcie_replays, none},
    {Metric::host_memory_used,
     [](const device::Readings& r) { return r.value(Metric::host_memory_total); }},
    {Metric::request_p50, none},
    {Metric::request_p99, none},
};

}  // namespace

Json trends_json(const History& history, const Snapshot& snapshot) {
  Json all = Json::object();
  for (const auto& subject : subjects_of(snapshot)) {
    Json list = Json::array();
    for (const auto& [metric, limit] : kWatched) {
      const auto& info = device::info(metric);
      if (info.scope != subject.scope) continue;
      const auto series = history.series(subject.id, metric, snapshot.wall, kWindow_s);
      for (const auto& trend : trends_of(info.name, info.unit, series, limit(*subject.readings)))
        list.push_back(to_json(trend));
    }
    all[subject.id] = std::move(list);
  }
  return all;
}

}  // namespace sluice::watch
