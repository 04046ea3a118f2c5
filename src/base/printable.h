// Text from outside, fit for a terminal and for a message.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// Control characters and bytes that are not UTF-8 are escaped.
std::string printable(std::string_view text);
// The same in quotes and not too long.
std::string in_quotes(std::string_view text);

}  // namespace sluice
