#include "market/request/returns.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/cancellation.h"
#include "base/error.h"
#include "market/input/require.h"
#include "market/request/dimension.h"
#include "market/risk/metrics.h"

namespace sluice::market {

namespace {

constexpr std::array<std::string_view, 3> kCovariances{"sample", "ledoit_wolf", "ewma"};
constexpr std::size_t kMaxInMatrix = 2000;  // 32 MB, and some ten times that as JSON

// A price of zero or below has no return; NaN is a missing one.
void require_above_zero(std::span<const double> prices, std::string_view field) {
  for (std::size_t i = 0; i < prices.size(); ++i)
    if (prices[i] <= 0)
      throw Error(
          Code::invalid_argument,
          fmt::format("'{}': bar {} is {}; prices must be above zero", field, i, prices[i]));
}

// The first bar has no return and is left out.
Panel returns_of_prices(compute::Workers& workers, const Panel& prices) {
  require(prices.bars >= 2, "'prices' needs two bars or more");
  for (std::size_t i = 0; i < prices.series(); ++i) {
    throw_if_cancelled();
    const bool one = prices.shape == Panel::Shape::one;
    require_above_zero(prices.at(i), one ? "prices" : "prices." + short_name(prices.names[i]));
  }
  std::vector<double> all(prices.values.size());
  returns_of(workers, prices.values, prices.bars, ReturnKind::simple, all);
  Panel returns{prices.shape, prices.names, prices.bars - 1, {}};
  returns.values.reserve(all.size());
  for (std::size_t i = 0; i < prices.series(); ++i) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i * prices.bars);
    returns.values.insert(returns.values.end(), begin + 1,
                          begin + static_cast<std::ptrdiff_t>(prices.bars));
  }
  return returns;
}

}  // namespace

Returns read_returns(RequestContext& context) {
  const Json* returns = context.fields.find("returns");
  const Json* prices = context.fields.find("prices");
  require(returns != nullptr || prices != nullptr,
          "'prices' is missing: a list of numbers, or lists by name; or 'returns'");
  require(returns == nullptr || prices == nullptr, "give 'prices' or 'returns', not both");
  if (returns != nullptr) {
    Panel panel = panel_of(*returns, "returns");
    const std::size_t bars = panel.bars;
    return {std::move(panel), false, bars};
  }
  const Panel panel = panel_of(*prices, "prices");
  return {returns_of_prices(context.compute.workers(), panel), true, panel.bars};
}

std::vector<double> benchmark_returns(const Json& json, const Returns& like) {
  const auto given = numbers_of(json, "benchmark");
  Dimension bars("values");
  bars.agree(like.from_prices ? "prices" : "returns", like.bars_given);
  bars.agree("benchmark", given.size());
  if (!like.from_prices) return given;
  require_above_zero(given, "benchmark");
  std::vector<double> returns;
  for (std::size_t i = 1; i < given.size(); ++i) returns.push_back(given[i] / given[i - 1] - 1);
  return returns;
}

CovarianceOptions read_covariance(RequestContext& context, double periods_per_year) {
  CovarianceOptions options;
  options.kind = static_cast<CovarianceKind>(context.fields.one_of("covariance", kCovariances, 0));
  if (options.kind == CovarianceKind::ewma)
    options.span = context.fields.number("span", 180, 1, 1e9);
  options.periods_per_year = periods_per_year;
  return options;
}

void check_covariance_cost(RequestContext& context, const Panel& returns) {
  const auto n = static_cast<double>(returns.series());
  require(returns.series() <= kMaxInMatrix,
          fmt::format("a covariance of {} series; at most {}", returns.series(), kMaxInMatrix));
  context.check_work(n * n * static_cast<double>(returns.bars), "so many series and bars");
  // The matrix, sums and counts of pairs, and the rows about their means.
  context.charge((3 * 8 + kNumberBytes) * n * n + 16 * static_cast<double>(returns.values.size()),
                 "so many series and bars");
}

std::vector<double> covariance_of(const RequestContext& context, const Panel& returns,
                                  const CovarianceOptions& options) {
  std::vector<double> matrix(returns.series() * returns.series());
  covariance(context.compute, returns.values, returns.series(), returns.bars, matrix, options, {},
             context.device);
  return matrix;
}

Json matrix_json(std::span<const double> square) {
  const auto n =
      static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(square.size()))));
  Json rows = Json::array();
  for (std::size_t i = 0; i < n; ++i) rows.push_back(list_of(square.subspan(i * n, n)));
  return rows;
}

}  // namespace sluice::market
