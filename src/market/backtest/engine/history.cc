#include "market/backtest/engine/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "market/input/require.h"

namespace sluice::market {
namespace {

using std::chrono::sys_days;
using std::chrono::year_month_day;

// Messages are formatted only on failure, since there may be millions of prices.
[[noreturn]] void refuse(const std::string& message) {
  throw Error(Code::invalid_argument, message);
}

[[noreturn]] void refuse_date(std::string_view text) {
  refuse(fmt::format("\"{}\" is no date; it must look like 2020-02-29", short_name(text)));
}

void require_prices(const PriceHistory& history, std::string_view name,
                    const std::vector<double>& prices) {
  if (prices.empty() && name != "close") return;
  require(prices.size() == history.size(),
          fmt::format("{}: {} has {} values, close {}", short_name(history.ticker), name,
                      prices.size(), history.size()));
  for (std::size_t i = 0; i < prices.size(); ++i)
    if (!(std::isfinite(prices[i]) && prices[i] > 0))
      refuse(fmt::format("{}: {} of bar {} is {}; prices must be positive numbers",
                         short_name(history.ticker), name, i, prices[i]));
}

year_month_day date_of(std::int32_t day) {
  return year_month_day(sys_days(std::chrono::days(day)));
}

// Only a time may follow the date.
bool ends_date(std::string_view text, std::size_t at) {
  return text.size() == at || text[at] == ' ' || text[at] == 'T';
}

int date_part(std::string_view text, std::string_view date) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) refuse_date(date);
  return value;
}

}  // namespace

void validate(const PriceHistory& history) {
  require(history.size() >= 2,
          fmt::format("{}: two bars are needed at least", short_name(history.ticker)));
  require_prices(history, "close", history.close);
  require_prices(history, "open", history.open);
  require_prices(history, "high", history.high);
  require_prices(history, "low", history.low);
  require(
      history.high.empty() == history.low.empty(),
      fmt::format("{}: high and low must be given both or not at all", short_name(history.ticker)));
  for (std::size_t i = 0; i < history.high.size(); ++i)
    if (history.high[i] < history.low[i])
      refuse(fmt::format("{}: bar {} has its high under its low", short_name(history.ticker), i));
  if (history.days.empty()) return;
  require_length("days", history.days.size(), history.size());
  const std::int32_t min_step = history.intraday ? 0 : 1;
  for (std::size_t i = 1; i < history.days.size(); ++i)
    if (history.days[i] - history.days[i - 1] < min_step)
      refuse(fmt::format("{}: bar {} ({}) is not after the one before", short_name(history.ticker),
                         i, to_date(history.days[i])));
}

PriceHistory completed(PriceHistory history) {
  const bool opens = !history.open.empty(), ranges = !history.high.empty();
  if (!opens) history.open = history.close;
  for (std::size_t i = 1; !opens && ranges && i < history.size(); ++i)
    history.open[i] = std::clamp(history.close[i - 1], history.low[i], history.high[i]);
  if (ranges) return history;
  history.high = history.low = history.close;
  for (std::size_t i = 0; i < history.size(); ++i) {
    history.high[i] = std::max(history.open[i], history.close[i]);
    history.low[i] = std::min(history.open[i], history.close[i]);
  }
  return history;
}

std::int32_t day_from(std::string_view date) {
  const std::string wrong = fmt::format("\"{}\" is no date; it must look like 2020-02-29", date);
  const bool parted = date.size() == 10 && (date[4] == '-' || date[4] == '/') && date[7] == date[4];
  require(parted || date.size() == 8, wrong);
  const std::size_t gap = parted ? 1 : 0;
  const auto part = [&](std::size_t at, std::size_t size) {
    return date_part(date.substr(at, size), date);
  };
  const year_month_day day{std::chrono::year(part(0, 4)),
                           std::chrono::month(static_cast<unsigned>(part(4 + gap, 2))),
                           std::chrono::day(static_cast<unsigned>(part(6 + 2 * gap, 2)))};
  require(day.ok(), wrong);
  return static_cast<std::int32_t>(sys_days(day).time_since_epoch().count());
}

bool looks_dated(std::string_view text) noexcept {
  const auto digits = [&](std::size_t n) {
    return text.size() >= n &&
           std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n),
                       [](char c) { return c >= '0' && c <= '9'; });
  };
  if (text.size() >= 10 && digits(4) && (text[4] == '-' || text[4] == '/'))
    return text[7] == text[4];
  return digits(8) && (text[0] == '1' || text[0] == '2') && ends_date(text, 8);
}

Stamp stamp_from(std::string_view text) {
  const std::size_t size = text.size() >= 10 && (text[4] == '-' || text[4] == '/') ? 10 : 8;
  if (text.size() < size || !ends_date(text, size)) refuse_date(text);
  return {day_from(text.substr(0, size)), text.size() > size};
}

std::string to_date(std::int32_t day) {
  const year_month_day date = date_of(day);
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
}

Month month_of(std::int32_t day) {
  const year_month_day date = date_of(day);
  return {static_cast<int>(date.year()), static_cast<int>(static_cast<unsigned>(date.month()))};
}

}  // namespace sluice::market
