#include "watch/trend.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "watch/alert.h"

namespace sluice::watch {

namespace {

constexpr double kMinSlopeSeconds = 300;  // seconds; over less, a wave looks like a rise
constexpr std::size_t kMinPoints = 8;
constexpr std::size_t kMaxPoints = 256;
constexpr double kBucket_s = 10, kBaseline_s = 3600, kRecent_s = 60;
constexpr std::size_t kMinBuckets = 24;  // of the 30 in five minutes: a few may be missing

// Returns at most kMaxPoints evenly spaced points, always including the last.
std::vector<Point> thinned(std::span<const Point> series) {
  if (series.size() <= kMaxPoints) return {series.begin(), series.end()};
  std::vector<Point> few;
  for (std::size_t i = 0; i < kMaxPoints; ++i)
    few.push_back(series[i * (series.size() - 1) / (kMaxPoints - 1)]);
  return few;
}

double sum_of_absolute(std::span<const Point> points, double level) {
  double sum = 0;
  for (const auto& p : points) sum += std::abs(p.value - level);
  return sum;
}

double median_of(std::span<const Point> points) {
  std::vector<double> values;
  for (const auto& p : points) values.push_back(p.value);
  return median(std::move(values));
}

// The residual of a linear fit, as a sum of absolute distances.
double line_error(std::span<const Point> points) {
  const auto line = slope(points);
  if (!line) return sum_of_absolute(points, median_of(points));
  double sum = 0;
  for (const auto& p : points)
    sum += std::abs(p.value - (line->level + line->per_s * (p.t - points.back().t)));
  return sum;
}

// The cut that leaves the least unexplained, with at least kMinPoints / 2 points on
// either side. Squares instead of medians: O(n), and the medians judge it after.
std::size_t best_cut(std::span<const Point> points) {
  double left = 0, right = 0;
  for (const auto& p : points) right += p.value;
  const double n = static_cast<double>(points.size());
  double best = -1;
  std::size_t cut = 0;
  for (std::size_t i = 1; i < points.size(); ++i) {
    left += points[i - 1].value;
    right -= points[i - 1].value;
    if (i < kMinPoints / 2 || points.size() - i < kMinPoints / 2) continue;
    const double k = static_cast<double>(i);
    const double between = left * left / k + right * right / (n - k);  // larger: better apart
    if (cut == 0 || between > best) best = between, cut = i;
  }
  return cut;
}

}  // namespace

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

std::optional<Slope> slope(std::span<const Point> series) {
  if (series.size() < kMinPoints) return std::nullopt;
  const auto points = thinned(series);
  std::vector<double> slopes;
  slopes.reserve(points.size() * (points.size() - 1) / 2);
  for (std::size_t j = 1; j < points.size(); ++j)
    for (std::size_t i = 0; i < j; ++i)
      if (points[j].t > points[i].t)
        slopes.push_back((points[j].value - points[i].value) / (points[j].t - points[i].t));
  if (slopes.empty()) return std::nullopt;
  std::ranges::sort(slopes);

  // Kendall's variance of the number of concordant pairs gives the ranks of the
  // 95 % interval (Sen 1968).
  const double n = static_cast<double>(points.size()), pairs = static_cast<double>(slopes.size());
  const double half = 1.96 * std::sqrt(n * (n - 1) * (2 * n + 5) / 18);
  const auto at = [&](double rank) {
    return slopes[static_cast<std::size_t>(std::clamp(rank, 0.0, pairs - 1))];
  };
  const double middle = median(slopes);
  const double low = at((pairs - half) / 2 - 1), high = at((pairs + half) / 2);
  std::vector<double> levels;
  for (const auto& p : points) levels.push_back(p.value - middle * (p.t - points.back().t));
  return Slope{middle, low, high, median(std::move(levels)), low > 0 || high < 0};
}

std::optional<Shift> level_shift(std::span<const Point> series) {
  if (series.size() < 2 * kMinPoints) return std::nullopt;
  const auto points = thinned(series);
  const std::span<const Point> all(points);
  const std::size_t cut = best_cut(all);
  const auto left = all.first(cut), right = all.subspan(cut);
  const double before = median_of(left), after = median_of(right);

  std::vector<double> deviations;
  for (const auto& p : left) deviations.push_back(std::abs(p.value - before));
  for (const auto& p : right) deviations.push_back(std::abs(p.value - after));
  const double noise = 1.4826 * median(std::move(deviations));
  const double error = sum_of_absolute(left, before) + sum_of_absolute(right, after);
  const double scale = std::max(std::abs(before), std::abs(after));
  const double jump = std::abs(after - before);
  if (jump <= 4 * noise || jump <= 1e-9 * scale || 2 * error >= line_error(all))
    return std::nullopt;
  return Shift{points[cut].t, before, after, before == 0 ? 0 : 100 * (after - before) / before};
}

void Baseline::add(double t, double value) {
  const double start = std::floor(t / kBucket_s) * kBucket_s;
  if (buckets_.empty() || buckets_.back().t != start) buckets_.push_back({start, 0, 0});
  buckets_.back().sum += value;
  ++buckets_.back().n;
  while (buckets_.front().t < start - kBaseline_s) buckets_.pop_front();
}

std::optional<double> Baseline::reference(double now) const {
  std::vector<double> means;
  for (const auto& b : buckets_)
    if (b.t + kBucket_s <= now - kRecent_s && b.t >= now - kBaseline_s)
      means.push_back(b.sum / b.n);
  if (means.size() < kMinBuckets) return std::nullopt;
  return median(std::move(means));
}

namespace {

std::string rate_text(double per_hour, std::string_view unit) {
  return with_unit(std::abs(per_hour), unit) + "/h";
}

std::optional<Trend> slope_trend(std::string_view metric, std::string_view unit,
                                 std::span<const Point> series, std::optional<double> limit) {
  const auto line = slope(series);
  if (!line || !line->significant) return std::nullopt;
  const double extent = series.back().t - series.front().t;
  if (extent < kMinSlopeSeconds) return std::nullopt;
  const double moved = std::abs(line->per_s) * extent;
  const double worth = limit ? 0.02 * *limit : 0.05 * std::abs(line->level);
  if (moved < worth || moved == 0) return std::nullopt;

  Trend trend{std::string(metric),
              std::string(unit),
              line->per_s > 0 ? "growing" : "falling",
              line->per_s * 3600,
              {},
              {},
              {},
              {}};
  trend.text = fmt::format("{} {} {}", metric, line->per_s > 0 ? "grows" : "falls",
                           rate_text(trend.per_hour, unit));
  if (limit && line->per_s > 0) {
    trend.limit = limit;
    trend.limit_in_s = std::max(0.0, (*limit - line->level) / line->per_s);
    trend.text += fmt::format(": {} {} in {}", unit == "bytes" ? "full at" : "reaches",
                              with_unit(*limit, unit), human_duration(*trend.limit_in_s));
  }
  return trend;
}

std::optional<Trend> shift_trend(std::string_view metric, std::string_view unit,
                                 std::span<const Point> series) {
  const auto shift = level_shift(series);
  if (!shift || std::abs(shift->percent) < 10) return std::nullopt;
  Trend trend{std::string(metric),
              std::string(unit),
              shift->percent > 0 ? "jumped" : "dropped",
              0,
              {},
              {},
              shift,
              {}};
  trend.text =
      fmt::format("{} {} from {} to {} {} ago", metric, trend.kind, with_unit(shift->before, unit),
                  with_unit(shift->after, unit), human_duration(series.back().t - shift->at));
  return trend;
}

}  // namespace

std::vector<Trend> trends_of(std::string_view metric, std::string_view unit,
                             std::span<const Point> series, std::optional<double> limit) {
  if (auto jump = shift_trend(metric, unit, series)) return {std::move(*jump)};
  if (auto line = slope_trend(metric, unit, series, limit)) return {std::move(*line)};
  return {};
}

Json to_json(const Trend& t) {
  Json json{{"metric", t.metric}, {"unit", t.unit}, {"kind", t.kind}, {"text", t.text}};
  if (t.shift) {
    json["at_ms"] = static_cast<std::int64_t>(t.shift->at * 1000);
    json["before"] = t.shift->before;
    json["after"] = t.shift->after;
    json["percent"] = t.shift->percent;
  } else {
    json["per_hour"] = t.per_hour;
  }
  if (t.limit) json["limit"] = *t.limit;
  if (t.limit_in_s) json["limit_in_s"] = *t.limit_in_s;
  return json;
}

}  // namespace sluice::watch
