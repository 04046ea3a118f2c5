// {"close": [...], "timeperiod": 14}, with a list of lists for many series, or
// {"series": {"AAPL": [...]}}, {"series": {"AAPL": {"high": [...], ...}}}.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/cancellation.h"
#include "base/error.h"
#include "market/indicators/indicator.h"
#include "market/indicators/run_series.h"
#include "market/input/require.h"
#include "market/request/dimension.h"
#include "market/request/request_context.h"

namespace sluice::market {

namespace {

Plan plan_of(RequestContext& context, const Indicator& one) {
  Arguments arguments;
  for (const Parameter& parameter : one.parameters)
    if (context.fields.has(parameter.name))
      arguments[std::string(parameter.name)] = context.fields.number(parameter.name, 0);
    else
      context.fields.find(parameter.name);
  return one.plan(arguments);
}

void check_lengths(const IndicatorSeries& series, const Indicator& one, const std::string& path) {
  if (series.in.size() < 2) return;
  Dimension bars("values");
  for (std::size_t i = 0; i < series.in.size(); ++i)
    bars.agree(path + std::string(to_string(one.inputs[i])), series.in[i].size());
}

IndicatorSeries named_series(const Indicator& one, const std::string& name, const Json& json) {
  throw_if_cancelled();
  const std::string path = "series." + short_name(name);
  IndicatorSeries series{name, {}, {}};
  if (one.inputs.size() == 1 && is_list(json)) {
    series.in.push_back(numbers_of(json, path));
    return series;
  }
  Fields fields(json, path);
  for (const Input input : one.inputs)
    series.in.push_back(numbers_of(fields.need(to_string(input), "a list of numbers"),
                                   fields.path(to_string(input))));
  check_lengths(series, one, path + ".");
  return series;
}

// The field that holds an input: its name, or "real" where any price will do.
std::string field_of(RequestContext& context, const Indicator& one, Input input) {
  return one.any_price && context.fields.has("real") ? "real" : std::string(to_string(input));
}

std::vector<IndicatorSeries> plain_series(RequestContext& context, const Indicator& one,
                                          bool& many) {
  std::vector<IndicatorSeries> all;
  Dimension count("series");
  for (const Input input : one.inputs) {
    const std::string field = field_of(context, one, input);
    const Json& json = context.fields.need(field, "a list of numbers, oldest first");
    many = is_list_of_lists(json);
    count.agree(field, many ? json.size() : 1);
    all.resize(count.size());
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i].in.push_back(many ? numbers_of(json[i], fmt::format("{}[{}]", field, i))
                               : numbers_of(json, field));
  }
  for (const IndicatorSeries& series : all) check_lengths(series, one, "");
  return all;
}

// Returns the work units of a bar, its reading aside. Only those of CCI grow with its period: each
// bar reads its window twice, and each sum waits for the one before it, which takes 3 ns for each
// bar of the window, and more where that does not fit the cache.
double work_of_bar(const Plan& plan) {
  return plan.rule == IndicatorRule::cci ? 4.0 * plan.n[0] : 0;
}

// Input numbers are there as given, as series and as batches; output numbers twice, and as text.
void check_cost(RequestContext& context, const Plan& plan,
                const std::vector<IndicatorSeries>& all) {
  double in = 0;
  for (const IndicatorSeries& series : all)
    in += static_cast<double>(series.bars() * series.in.size());
  const double out = in / plan.inputs * plan.outputs, count = static_cast<double>(all.size());
  constexpr double kSeriesBytes = 1000, kSeriesWork = 2000;
  context.charge(16 * in + (16 + kNumberBytes) * out + kSeriesBytes * count, "so many bars");
  const double bars = in / plan.inputs;
  context.check_work(
      20 * in + work_of_bar(plan) * bars + kNumberWork * out + kSeriesWork * count,
      plan.rule == IndicatorRule::cci ? "so many bars of this 'timeperiod'" : "so many bars");
}

// Gives each column back as soon as it is part of the answer.
Json taken(std::vector<double>& column) {
  Json list = list_of(column);
  column = {};
  return list;
}

Json outputs_of(const Indicator& one, IndicatorSeries& series) {
  throw_if_cancelled();
  Json outputs = Json::object();
  for (std::size_t i = 0; i < one.outputs.size(); ++i)
    append_member(outputs, output_name(one, i), taken(series.out[i]));
  return outputs;
}

}  // namespace

std::string output_name(const Indicator& one, std::size_t i) {
  return std::string(one.outputs.size() == 1 ? one.name : one.outputs[i]);
}

Json answer_indicator(RequestContext& context, std::string_view name) {
  const Indicator& one = indicator(name);
  const Plan plan = plan_of(context, one);
  std::vector<IndicatorSeries> all;
  bool many = false;
  const Json* named = context.fields.find("series");
  if (named != nullptr && !named->is_object()) {
    if (!one.any_price) refuse_field("series", "an object of series by name", *named);
    refuse_field("series", "an object of series by name; a single one is 'close'", *named);
  }
  if (named != nullptr)
    for (const auto& item : named->items())
      all.push_back(named_series(one, item.key(), item.value()));
  else
    all = plain_series(context, one, many);
  context.fields.finish();
  check_cost(context, plan, all);
  const auto outcomes = run_series(context.compute, plan, all, context.device);
  Json answer = {{"indicator", one.name}, {"lookback", plan.lookback}};
  if (named != nullptr) {
    answer["series"] = Json::object();
    for (IndicatorSeries& series : all)
      append_member(answer["series"], series.name, outputs_of(one, series));
  } else if (!many) {
    answer["outputs"] = outputs_of(one, all[0]);
  } else {
    for (std::size_t i = 0; i < one.outputs.size(); ++i)
      for (IndicatorSeries& series : all)
        answer["outputs"][output_name(one, i)].push_back(taken(series.out[i]));
  }
  context.report_run(answer, outcomes.empty() ? compute::Outcome() : outcomes.back());
  return answer;
}

}  // namespace sluice::market
