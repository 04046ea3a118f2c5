// Quotes words for a POSIX shell.
#pragma once

#include <string>
#include <string_view>

namespace sluice::cli {

// Encloses `text` in single quotes: one word, whatever it holds.
std::string shell_quote(std::string_view text);

// The same, but returns words without special characters as they are.
std::string shell_quote_if_needed(std::string_view text);

}  // namespace sluice::cli
