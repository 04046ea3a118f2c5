// What all requests share, and the function that answers each kind.
#pragma once

#include <array>

#include "base/json_numbers.h"
#include "base/memory_budget.h"
#include "market/request/fields.h"
#include "market/request/request.h"

namespace sluice::market {

inline constexpr std::array<std::string_view, 2> kOptionKinds{"call", "put"};  // as OptionKind

struct Asking {
  compute::Compute& compute;
  const RequestLimits& limits;
  Fields fields;
  compute::Where where;
  bool explain;

  // Throws TooMuchWork when it is more than the limits allow, by the fields that make it so.
  void check_work(double work, std::string_view fields) const;
  // Before so much memory is taken. Throws NoRoom when there is no room for it now, and
  // invalid_argument when there never is.
  void charge(double bytes, std::string_view fields) const;
  // Adds "ran" to the answer, where it was asked for.
  void tell(Json& answer, const compute::Outcome& outcome) const;
};

// A number of the answer: its value, and what its text takes.
inline constexpr double kNumberBytes = 8, kNumberWork = 130;

Json answer_indicator(Asking& asking, std::string_view name);
Json answer_option(Asking& asking);
Json answer_risk(Asking& asking);
Json answer_portfolio(Asking& asking);
Json answer_montecarlo(Asking& asking);
Json answer_backtest(Asking& asking);

// A packed list (json_numbers.h).
Json list_of(std::span<const double> values);
Json number_or_null(double value);

}  // namespace sluice::market
