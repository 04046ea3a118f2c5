// Market calculations with JSON in and JSON out: the one entry point of HTTP, Python and the
// command line. Numbers that JSON does not have (NaN, infinity) are null in both directions.
//
//   answer(compute, "rsi", {{"close", {1, 2, 3}}, {"timeperiod", 2}});
//   answer(compute, "option", {{"spot", 100}, {"strike", 95}, {"t", 0.5}, {"vol", 0.2}});
#pragma once

#include <limits>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/memory_budget.h"
#include "compute/compute.h"

namespace sluice::market {

// Limits of the cost of one request, for servers. Every calculation is estimated before it begins,
// including its input and its answer, and throws Cancelled when the caller's CancelScope ends.
struct RequestLimits {
  // Work units: steps of a path, nodes of a tree, bars x parameter sets. 1e9 take about a second on
  // two cores.
  double max_work = std::numeric_limits<double>::infinity();
  MemoryBudget::Charge* memory = nullptr;  // of the request; grows by the work until its end
};
inline constexpr double kWorkUnitsPerSecond = 1e9;

// The estimate is above max_work.
class TooMuchWork : public Error {
 public:
  // `what` names the fields to reduce, for people: "'paths' and 'steps'".
  TooMuchWork(double work, std::string what, double max_work);
  double work() const noexcept { return work_; }
  const std::string& fields() const noexcept { return fields_; }

 private:
  double work_;
  std::string fields_;
};

// `what`: option, risk, portfolio, montecarlo, backtest or an indicator's name. Every
// request may have "device" (auto, cpu, gpu) and "explain" (true: the answer has "ran").
// Throws invalid_argument, naming the field; not_found for another `what`; TooMuchWork, and
// BudgetExhausted when there is no memory for it now.
Json answer(compute::Compute& compute, std::string_view what, const Json& request,
            const RequestLimits& limits = {});

// Answers from text to text, for servers and other languages. Lists of numbers are kept packed
// (json_numbers.h) from the body to the text of the answer.
JsonText answer_body(compute::Compute& compute, std::string_view what, std::string_view body,
                     const RequestLimits& limits = {});
std::string answer_text(compute::Compute& compute, std::string_view what, std::string_view body,
                        const RequestLimits& limits = {});

// Returns the name of an output in tables and answers: a single one is named after the indicator.
struct Indicator;
std::string output_name(const Indicator& one, std::size_t i);

// The table of indicators: name, summary, group, inputs, parameters, outputs.
Json indicator_list();

}  // namespace sluice::market
