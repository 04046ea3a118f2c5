// The known word closest to a mistyped one, for error messages.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

// Returns nothing when no candidate is close enough to be a plausible slip.
std::optional<std::string_view> nearest(std::string_view word,
                                        std::span<const std::string_view> candidates);

// "; did you mean 'port'?" or "".
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace sluice
