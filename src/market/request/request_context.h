// The context that all requests share, and the function that answers each kind.
#pragma once

#include <array>

#include "base/json_numbers.h"
#include "base/memory_budget.h"
#include "market/request/fields.h"
#include "market/request/request.h"

namespace sluice::market {

inline constexpr std::array<std::string_view, 2> kOptionKinds{"call", "put"};  // as OptionKind

struct RequestContext {
  compute::Compute& compute;
  const RequestLimits& limits;
  Fields fields;
  compute::DevicePreference device;
  bool explain;

  // Throws TooMuchWork, naming `fields`, when `work` is more than the limits allow.
  void check_work(double work, std::string_view fields) const;
  // Reserves memory before it is allocated. Throws BudgetExhausted when there is not enough free
  // now, and invalid_argument when there never is.
  void charge(double bytes, std::string_view fields) const;
  // Adds "ran" to the answer if it was requested.
  void report_run(Json& answer, const compute::Outcome& outcome) const;
};

// The bytes of a number of the answer, and the work units to format it.
inline constexpr double kNumberBytes = 8, kNumberWork = 130;

Json answer_indicator(RequestContext& context, std::string_view name);
Json answer_option(RequestContext& context);
Json answer_risk(RequestContext& context);
Json answer_portfolio(RequestContext& context);
Json answer_montecarlo(RequestContext& context);
Json answer_backtest(RequestContext& context);

// A packed list (json_numbers.h).
Json list_of(std::span<const double> values);
Json number_or_null(double value);

}  // namespace sluice::market
