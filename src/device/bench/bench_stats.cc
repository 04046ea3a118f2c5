#include "device/bench/bench_stats.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/clock.h"

namespace sluice::device {

std::optional<double> BenchRow::percent() const {
  if (!value || !peak || *peak <= 0) return std::nullopt;
  return 100 * *value / *peak;
}

bool BenchOptions::wants(std::string_view name) const {
  return only.empty() || std::ranges::any_of(only, [&](const std::string& prefix) {
           return name.starts_with(prefix);
         });
}

namespace {

BenchRow named_row(BenchName what, std::string unit) {
  BenchRow row;
  row.name = what.name;
  row.title = what.title;
  row.unit = std::move(unit);
  return row;
}

}  // namespace

BenchRow timed_row(BenchName what, std::string unit, std::optional<double> work,
                   std::vector<double> seconds) {
  auto row = named_row(what, std::move(unit));
  row.samples = seconds.size();
  const double median = quantile(seconds, 0.5);
  if (median <= 0) {
    row.detail = "the clock is too coarse for this figure";
    return row;
  }
  row.spread = (quantile(seconds, 0.9) - quantile(seconds, 0.1)) / median;
  row.value = work ? *work / median : median;
  return row;
}

BenchRow missing_row(BenchName what, std::string unit, std::string why) {
  auto row = named_row(what, std::move(unit));
  row.detail = std::move(why);
  return row;
}

double timed(const std::function<void()>& work) {
  const auto from = Steady::now();
  work();
  return seconds_between(from, Steady::now());
}

double relative_error(std::span<const double> got, std::span<const double> want) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  const double error = std::sqrt(difference / size);
  return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

std::optional<double> pcie_rate(std::string_view speed, std::string_view width) {
  const double transfers = std::strtod(std::string(speed).c_str(), nullptr) * 1e9;
  const double lanes = std::strtod(std::string(width).c_str(), nullptr);
  if (transfers <= 0 || lanes <= 0 || lanes > 64) return std::nullopt;
  const double coding = transfers < 8e9 ? 8.0 / 10 : 128.0 / 130;  // generations 1 and 2; 3 on
  return transfers * coding * lanes / 8;
}

Json to_json(const BenchRow& row) {
  Json json{{"name", row.name}, {"title", row.title}, {"unit", row.unit}};
  json["value"] = row.value ? Json(*row.value) : Json();
  json["peak"] = row.peak ? Json(*row.peak) : Json();
  json["percent_of_peak"] = row.percent() ? Json(*row.percent()) : Json();
  json["samples"] = row.samples;
  json["spread"] = row.spread;
  json["detail"] = row.detail;
  for (const auto& peer : row.peers)
    json["peers"].push_back({{"name", peer.name}, {"value", peer.value}});
  return json;
}

}  // namespace sluice::device
