// Against TA-Lib's own values.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "market/indicators/batch.h"
#include "market/indicators/indicator.h"
#include "market/indicators/stream.h"

namespace sluice::market {
namespace {

using Columns = std::map<std::string, std::vector<double>>;

Columns read_golden() {
  Columns columns;
  std::ifstream file(SLUICE_TEST_DATA "/market/talib_0.8.1_sref252.csv");
  std::string line, cell;
  std::vector<std::string> names;
  std::getline(file, line);
  for (std::istringstream row(line); std::getline(row, cell, ',');) names.push_back(cell);
  while (std::getline(file, line)) {
    std::size_t i = 0;
    for (std::istringstream row(line); std::getline(row, cell, ',');)
      columns[names.at(i++)].push_back(std::stod(cell));
  }
  return columns;
}

struct Case {
  std::string_view name;
  std::vector<double> values;
  std::vector<std::string> expected;
};

void PrintTo(const Case& c, std::ostream* os) { *os << c.name << c.expected[0]; }

std::vector<std::vector<double>> compute_all(const Indicator& one, const Plan& plan,
                                             const Columns& golden) {
  compute::Compute compute({.threads = 1});
  Arrays<const double> in;
  for (const Input input : one.inputs) in.push_back(golden.at(std::string(to_string(input))));
  std::vector<std::vector<double>> made(one.outputs.size(), std::vector<double>(in[0].size(), -1));
  run(compute, plan, in, Arrays<double>(made.begin(), made.end()));
  return made;
}

std::vector<std::vector<double>> stream_all(const Indicator& one, const Plan& plan,
                                            const Columns& golden) {
  Stream stream(plan);
  const std::size_t bars = golden.at("close").size();
  std::vector<std::vector<double>> made(one.outputs.size(), std::vector<double>(bars));
  for (std::size_t t = 0; t < bars; ++t) {
    std::vector<double> bar, out(one.outputs.size());
    for (const Input input : one.inputs) bar.push_back(golden.at(std::string(to_string(input)))[t]);
    stream.update(bar, out);
    for (std::size_t k = 0; k < out.size(); ++k) made[k][t] = out[k];
  }
  return made;
}

// Relative to the larger of both and, for differences of near numbers, a price.
bool near(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::fabs(a - b) <= 1e-9 * std::max({std::fabs(a), std::fabs(b), 1.0});
}

class Golden : public testing::TestWithParam<Case> {};

TEST_P(Golden, BatchAndStreamAgreeWithTaLib) {
  const Columns golden = read_golden();
  if (golden.empty()) GTEST_SKIP() << "no reference values at " SLUICE_TEST_DATA;
  const Indicator& one = indicator(GetParam().name);
  const Plan plan = one.plan(GetParam().values);
  const auto batch = compute_all(one, plan, golden), stream = stream_all(one, plan, golden);
  for (std::size_t k = 0; k < one.outputs.size(); ++k) {
    const auto& expected_values = golden.at(GetParam().expected[k]);
    for (std::size_t t = 0; t < expected_values.size(); ++t) {
      ASSERT_TRUE(near(batch[k][t], expected_values[t]))
          << GetParam().expected[k] << '[' << t << "] " << batch[k][t] << " for "
          << expected_values[t];
      ASSERT_TRUE(near(stream[k][t], expected_values[t]))
          << "stream " << GetParam().expected[k] << '[' << t << "] " << stream[k][t];
    }
  }
}

const std::vector<Case> kCases = {
    {"SMA", {30}, {"SMA_30"}},
    {"SMA", {2}, {"SMA_2"}},
    {"EMA", {30}, {"EMA_30"}},
    {"EMA", {12}, {"EMA_12"}},
    {"EMA", {26}, {"EMA_26"}},
    {"WMA", {30}, {"WMA_30"}},
    {"RSI", {14}, {"RSI_14"}},
    {"RSI", {2}, {"RSI_2"}},
    {"MOM", {10}, {"MOM_10"}},
    {"ROC", {10}, {"ROC_10"}},
    {"ROCP", {10}, {"ROCP_10"}},
    {"ROCR", {10}, {"ROCR_10"}},
    {"STDDEV", {5, 1}, {"STDDEV_5_1"}},
    {"STDDEV", {20, 1}, {"STDDEV_20_1"}},
    {"VAR", {5}, {"VAR_5"}},
    {"ATR", {14}, {"ATR_14"}},
    {"NATR", {14}, {"NATR_14"}},
    {"TRANGE", {}, {"TRANGE"}},
    {"WILLR", {14}, {"WILLR_14"}},
    {"CCI", {14}, {"CCI_14"}},
    {"ADX", {14}, {"ADX_14"}},
    {"MAX", {30}, {"MAX_30"}},
    {"MIN", {30}, {"MIN_30"}},
    {"OBV", {}, {"OBV"}},
    {"BBANDS", {20, 2, 2}, {"BB20_U", "BB20_M", "BB20_L"}},
    {"BBANDS", {5, 2, 2}, {"BB5_U", "BB5_M", "BB5_L"}},
    {"MACD", {12, 26, 9}, {"MACD", "MACDSIG", "MACDHIST"}},
    {"MACD", {26, 12, 9}, {"MACD", "MACDSIG", "MACDHIST"}},
    {"MACDFIX", {9}, {"MACDFIX", "MACDFIXSIG", "MACDFIXHIST"}},
    {"STOCH", {5, 3, 0, 3, 0}, {"STOCH5_K", "STOCH5_D"}},
    {"STOCH", {14, 3, 0, 3, 0}, {"STOCH14_K", "STOCH14_D"}},
    {"STOCHF", {5, 3, 0}, {"STOCHF5_K", "STOCHF5_D"}},
    {"STOCHRSI", {14, 5, 3, 0}, {"STOCHRSI_K", "STOCHRSI_D"}},
};
INSTANTIATE_TEST_SUITE_P(TaLib, Golden, testing::ValuesIn(kCases));

}  // namespace
}  // namespace sluice::market
