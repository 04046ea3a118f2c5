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
  bool intraday = false;  // several bars may be of one day

  std::size_t size() const noexcept { return close.size(); }
};

// Throws invalid_argument, naming the ticker and the bar: arrays of different lengths, a
// price that is not a positive number, a high under the low, days that do not rise (intraday:
// that fall).
void validate(const PriceHistory& history);

// Returns the history with all arrays. Missing highs and lows become the higher and lower of open
// and close. A missing open becomes the close, or, when there are highs and lows, the close before,
// limited to them: stops see it first.
PriceHistory completed(PriceHistory history);

// Converts "2020-02-29", "2020/02/29" or "20200229" to days since 1970-01-01, and back. Throws
// invalid_argument.
std::int32_t day_from(std::string_view date);
std::string to_date(std::int32_t day);

// A date, optionally followed by a time: "2020-02-29T09:30", "20200229 09:30:00".
struct Stamp {
  std::int32_t day;
  bool timed;
};
bool looks_dated(std::string_view text) noexcept;
Stamp stamp_from(std::string_view text);  // throws invalid_argument

struct Month {
  int year, month;  // 1 to 12
  friend bool operator==(const Month&, const Month&) = default;
};
Month month_of(std::int32_t day);

}  // namespace sluice::market
