#include "market/portfolio/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "market/input/require.h"

namespace sluice::market {
namespace {

double at(const std::vector<double>& values, std::size_t i) {
  return values.size() == 1 ? values[0] : values[i];
}

std::string asset_name(std::span<const std::string> names, std::size_t i) {
  return i < names.size() ? short_name(names[i]) : fmt::format("asset {}", i);
}

void add_weights(std::span<const std::string> names, const PortfolioLimits& limits, std::size_t n,
                 LimitRows& out) {
  for (std::size_t i = 0; i < n; ++i) {
    const double low = at(limits.lower, i), high = at(limits.upper, i);
    require(!std::isnan(low) && !std::isnan(high), "a limit of a weight is not a number");
    if (low > high)
      throw Error(Code::invalid_argument,
                  fmt::format("the weight of {} must be at least {} and at most {}",
                              asset_name(names, i), low, high));
    // There are two rows, so that a conflict names the limit that takes part in it.
    if (low == high) {
      out.rows.push_back(
          {{{i, 1.0}}, low, low, fmt::format("the weight of {} is {}", asset_name(names, i), low)});
      continue;
    }
    if (low > -kNoLimit)
      out.rows.push_back(
          {{{i, 1.0}},
           low,
           kNoLimit,
           fmt::format("the weight of {} is at least {}", asset_name(names, i), low)});
    if (high < kNoLimit)
      out.rows.push_back(
          {{{i, 1.0}},
           -kNoLimit,
           high,
           fmt::format("the weight of {} is at most {}", asset_name(names, i), high)});
  }
}

// Messages are formatted only on failure, since there may be millions of assets in all sectors.
[[noreturn]] void refuse_sector(const std::string& message) {
  throw Error(Code::invalid_argument, message);
}

void add_sectors(const PortfolioLimits& limits, std::size_t n, LimitRows& out) {
  for (const SectorLimit& sector : limits.sectors) {
    QpRow row;
    const std::string name = short_name(sector.name);
    require(!sector.assets.empty(), fmt::format("sector {} has no assets", name));
    std::vector<bool> has(n);
    for (const std::size_t i : sector.assets) {
      if (i >= n) refuse_sector(fmt::format("sector {} has an asset {} of {}", name, i, n));
      if (has[i]) refuse_sector(fmt::format("sector {} has an asset twice", name));
      has[i] = true;
      row.terms.emplace_back(i, 1.0);
    }
    require(sector.min <= sector.max, fmt::format("sector {} must be at least {} and at most {}",
                                                  name, sector.min, sector.max));
    if (sector.min > -kNoLimit)
      out.rows.push_back({row.terms, sector.min, kNoLimit,
                          fmt::format("sector {} is at least {}", name, sector.min)});
    if (sector.max < kNoLimit)
      out.rows.push_back({row.terms, -kNoLimit, sector.max,
                          fmt::format("sector {} is at most {}", name, sector.max)});
  }
}

// Adds sum of |weight - from| <= limit, by a variable above each distance.
void add_distance(std::size_t n, const std::vector<double>& from, double limit, const char* what,
                  LimitRows& out) {
  require(limit >= 0, fmt::format("{} is {}; it must be 0 or more", what, limit));
  QpRow total{{}, -kNoLimit, limit, fmt::format("{} is at most {}", what, limit)};
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t d = out.variables++;
    const double c = from.empty() ? 0 : from[i];
    out.rows.push_back({{{d, 1.0}, {i, -1.0}}, -c, kNoLimit, ""});
    out.rows.push_back({{{d, 1.0}, {i, 1.0}}, c, kNoLimit, ""});
    total.terms.emplace_back(d, 1.0);
  }
  out.rows.push_back(std::move(total));
}

}  // namespace

FreeAssets free_assets(std::size_t n, std::span<const double> mean, const PortfolioLimits& limits) {
  FreeAssets out{std::vector<bool>(n), std::vector<bool>(n)};
  double low = kNoLimit, high = -kNoLimit;
  for (std::size_t i = 0; i < n; ++i) {
    out.fixed[i] = at(limits.lower, i) == at(limits.upper, i);
    out.excluded[i] = out.fixed[i] && at(limits.lower, i) == 0;
    if (out.fixed[i] || mean.empty()) continue;
    low = std::min(low, mean[i]);
    high = std::max(high, mean[i]);
  }
  if (low > high) return out;
  out.middle = low / 2 + high / 2;
  out.spread = std::max(high - out.middle, out.middle - low);
  return out;
}

QpRow return_row(std::span<const double> mean, double target, std::string name) {
  double largest = 0;
  for (const double m : mean) largest = std::max(largest, std::abs(m));
  const double unit = largest > 0 ? largest : 1;
  QpRow row{{}, target / unit, kNoLimit, std::move(name)};
  for (std::size_t i = 0; i < mean.size(); ++i) row.terms.emplace_back(i, mean[i] / unit);
  return row;
}

std::vector<double> rewards_of(std::span<const double> mean, const FreeAssets& free) {
  std::vector<double> rewards(mean.begin(), mean.end());
  for (std::size_t i = 0; i < mean.size(); ++i)
    rewards[i] = free.fixed[i] ? 0 : mean[i] - free.middle;
  return rewards;
}

LimitRows limit_rows(std::size_t n, std::span<const std::string> names,
                     const PortfolioLimits& limits) {
  for (const auto* side : {&limits.lower, &limits.upper})
    require(side->size() == 1 || side->size() == n,
            fmt::format("{} limits for {} weights", side->size(), n));
  require(limits.held.empty() || limits.held.size() == n,
          fmt::format("{} held weights for {} assets", limits.held.size(), n));
  LimitRows out{n, {}};
  QpRow budget{{}, limits.sum, limits.sum, fmt::format("the weights sum to {}", limits.sum)};
  for (std::size_t i = 0; i < n; ++i) budget.terms.emplace_back(i, 1.0);
  out.rows.push_back(std::move(budget));
  add_weights(names, limits, n, out);
  add_sectors(limits, n, out);
  if (limits.turnover) add_distance(n, limits.held, *limits.turnover, "turnover", out);
  if (limits.leverage) add_distance(n, {}, *limits.leverage, "leverage", out);
  return out;
}

LimitRows scaled(const LimitRows& limits) {
  const std::size_t scale = limits.variables;
  LimitRows out{scale + 1, {}};
  const auto add = [&](const QpRow& row, double limit, double lower, double upper) {
    QpRow copy{row.terms, lower, upper, row.name};
    if (limit != 0) copy.terms.emplace_back(scale, -limit);
    out.rows.push_back(std::move(copy));
  };
  for (const QpRow& row : limits.rows) {
    if (row.lower == row.upper) {
      add(row, row.lower, 0, 0);
      continue;
    }
    if (row.lower > -kNoLimit) add(row, row.lower, 0, kNoLimit);
    if (row.upper < kNoLimit) add(row, row.upper, -kNoLimit, 0);
  }
  out.rows.push_back({{{scale, 1.0}}, 0, kNoLimit, "the scale is not negative"});
  return out;
}

}  // namespace sluice::market
