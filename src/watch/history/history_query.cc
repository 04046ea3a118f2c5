#include "watch/history/history_query.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace sluice::watch {

namespace {

constexpr std::int64_t kDay = 86400;
constexpr std::int64_t kRound[] = {1,   2,   5,    10,   20,   30,    60,    120,   300,
                                   600, 900, 1800, 3600, 7200, 10800, 21600, 43200, kDay};

std::int64_t start_of(std::int64_t t, std::int64_t step) { return t / step * step; }

std::int64_t steps_between(std::int64_t from, std::int64_t to, std::int64_t step) {
  return (start_of(to, step) - start_of(from, step)) / step + 1;
}

// The finest resolution that still has rows from `from`.
std::int64_t finest_reaching(std::int64_t from, std::int64_t now) {
  for (const auto& resolution : kResolutions)
    if (now - from <= kept_for(resolution)) return resolution.seconds;
  return kResolutions.back().seconds;
}

std::int64_t round_step(std::int64_t from, std::int64_t to, std::int64_t points,
                        std::int64_t finest) {
  for (const auto step : kRound)
    if (step >= finest && steps_between(from, to, step) <= points) return step;
  // Days: the fewest that do, tried for some centuries; beyond, so many that the range
  // spans a step less than there are points, which do wherever the steps fall.
  constexpr std::int64_t kTries = 100'000;
  const std::int64_t fewest = std::max<std::int64_t>(2, (to - from) / kDay / points);
  for (std::int64_t days = fewest; days < fewest + kTries; ++days)
    if (steps_between(from, to, days * kDay) <= points) return days * kDay;
  return ((to - from) / (kDay * (points - 1)) + 1) * kDay;
}

// The next round step that is no shorter.
std::int64_t round_up(std::int64_t seconds) {
  const auto* at = std::ranges::lower_bound(kRound, seconds);
  return at != std::end(kRound) ? *at : (seconds + kDay - 1) / kDay * kDay;
}

// Returns one step for the whole range, wherever it begins. It uses rows short enough that the
// parts outside of the range do not matter: a range as long as a round step gets that step, without
// the row in which it begins.
QueryPlan all_in_one(std::int64_t from, std::int64_t to, std::int64_t finest) {
  constexpr std::int64_t kRows = 100;
  std::size_t source = 0;
  for (std::size_t i = 0; i < kResolutions.size(); ++i)
    if (kResolutions[i].seconds <= std::max(finest, (to - from) / kRows)) source = i;
  const std::int64_t unit = kResolutions[source].seconds;
  const std::int64_t step = round_up(std::max(to - from, unit));
  const std::int64_t end = start_of(to, unit) + unit;
  const std::int64_t begin = std::max(start_of(from, unit), end - step);
  return {source, step, begin, begin, end};
}

// Returns the usual distance in steps: the lower quartile, so that many gaps do not change it. A
// metric sampled every 5 s has 5 at a step of 1 s.
double usual_distance(const std::vector<std::size_t>& places) {
  std::vector<std::size_t> distances{1};
  for (std::size_t i = 1; i < places.size(); ++i) distances.push_back(places[i] - places[i - 1]);
  const auto quartile = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 4);
  std::nth_element(distances.begin(), quartile, distances.end());
  return static_cast<double>(*quartile);
}

}  // namespace

QueryPlan plan_query(std::int64_t from_s, std::int64_t to_s, std::int64_t points,
                     std::int64_t now_s) {
  if (points < 2) return all_in_one(from_s, to_s, finest_reaching(from_s, now_s));
  const std::int64_t step = round_step(from_s, to_s, points, finest_reaching(from_s, now_s));
  std::size_t source = 0;
  for (std::size_t i = 0; i < kResolutions.size(); ++i)
    if (step % kResolutions[i].seconds == 0) source = i;
  const std::int64_t last = start_of(to_s, step);
  return {source, step, start_of(from_s, step), last, last + step};
}

Downsampler::Downsampler(const QueryPlan& plan, const MetricSet& selected)
    : plan_(plan), selected_(selected) {}

void Downsampler::add(const Row& row) {
  if (row.t < plan_.from || row.t >= plan_.end) return;
  const auto count = static_cast<std::size_t>((plan_.to - plan_.from) / plan_.step_s + 1);
  const auto place = static_cast<std::size_t>((row.t - plan_.from) / plan_.step_s);
  for (const auto& [id, agg] : row.entries) {
    if (id >= device::kMetricCount || !selected_[id]) continue;
    if (aggs_[id].empty()) aggs_[id].resize(count);
    aggs_[id][place].merge(agg);
  }
}

bool Downsampler::has(device::Metric metric) const {
  return !aggs_[static_cast<std::size_t>(metric)].empty();
}

std::vector<std::size_t> Downsampler::filled(device::Metric metric) const {
  const auto& aggs = aggs_[static_cast<std::size_t>(metric)];
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < aggs.size(); ++i)
    if (aggs[i].n > 0) places.push_back(i);
  return places;
}

Json Downsampler::json(device::Metric metric) const {
  const auto& aggs = aggs_[static_cast<std::size_t>(metric)];
  const auto places = filled(metric);
  const double max_gap = 2.5 * usual_distance(places);
  Json t = Json::array(), mean = Json::array(), min = Json::array(), max = Json::array();
  const auto time = [&](std::size_t place) {
    return (plan_.from + static_cast<std::int64_t>(place) * plan_.step_s) * 1000;
  };
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i > 0 && static_cast<double>(places[i] - places[i - 1]) > max_gap) {
      t.push_back(time(places[i - 1] + 1));
      mean.push_back(nullptr), min.push_back(nullptr), max.push_back(nullptr);
    }
    const Agg& agg = aggs[places[i]];
    t.push_back(time(places[i]));
    mean.push_back(agg.mean()), min.push_back(agg.min), max.push_back(agg.max);
  }
  return Json{{"unit", device::info(metric).unit},
              {"t", std::move(t)},
              {"mean", std::move(mean)},
              {"min", std::move(min)},
              {"max", std::move(max)}};
}

std::vector<Point> Downsampler::points(device::Metric metric) const {
  std::vector<Point> all;
  for (const auto place : filled(metric))
    all.push_back({static_cast<double>(plan_.from) +
                       (static_cast<double>(place) + 0.5) * static_cast<double>(plan_.step_s),
                   aggs_[static_cast<std::size_t>(metric)][place].mean()});
  return all;
}

}  // namespace sluice::watch
