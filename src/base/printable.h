// Text from outside, fit for a terminal and for a message.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// UTF-8 that a terminal shows as it is: without control characters (C0, C1), those that change the
// direction or the line of what follows, and others that are not seen (Unicode's Cf).
bool is_plain_text(std::string_view text) noexcept;
// Begins or ends with a space of any width.
bool has_outer_spaces(std::string_view text) noexcept;

// Characters that are not plain and bytes that are not UTF-8 are escaped ("\\x1b").
std::string printable(std::string_view text);
// printable() of each line: the ends of lines stay.
std::string printable_lines(std::string_view text);
// printable() in quotes and not too long.
std::string in_quotes(std::string_view text);

}  // namespace sluice
