// Checks of what callers pass, with errors that name the argument and its range.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::market {

inline constexpr int kMaxBars = 100000;  // a period may span, as in TA-Lib

// Throws invalid_argument: "timeperiod is 0; it may be 1 to 100000".
void require_range(std::string_view name, int value, int min, int max = kMaxBars);
void require_range(std::string_view name, double value, double min, double max);

// Makes an untrusted name fit for a message: printable and not too long.
std::string short_name(std::string_view name);

// Throws invalid_argument unless all arrays are as long as the first.
void require_length(std::string_view name, std::size_t length, std::size_t expected);

}  // namespace sluice::market
