// The prices of one ticker that a backtest trades on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::market {

// Bars in order of time. `close` is needed; the others may be empty: without `open` fills
// are at closes, without `high` and `low` stops see opens and closes only.
struct PriceHistory {
  std::string ticker{};
  std::vector<std::int32_t> days{};  // since 1970-01-01; may be empty
  std::vector<double> open{}, high{}, low{}, close{};

  std::size_t size() const noexcept { return close.size(); }
};

// Throws invalid_argument, naming the ticker and the bar: arrays of different lengths, a
// price that is not a positive number, a high under the low, days that do not rise.
void validate(const PriceHistory& history);

// The same with all arrays: a missing open is the close; missing highs and lows are the
// higher and lower of open and close.
PriceHistory completed(PriceHistory history);

// "2020-02-29" as days since 1970-01-01 and back. Throws invalid_argument.
std::int32_t day_from(std::string_view date);
std::string to_date(std::int32_t day);

struct Month {
  int year, month;  // 1 to 12
  friend bool operator==(const Month&, const Month&) = default;
};
Month month_of(std::int32_t day);

}  // namespace sluice::market
