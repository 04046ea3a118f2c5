// Code points of UTF-8 text and the case of letters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::engine {

// Throws invalid_argument where the text is not UTF-8.
std::vector<std::uint32_t> code_points(std::string_view text);

// One letter for one, in the Latin, Greek, Cyrillic and Armenian alphabets; others stay.
std::uint32_t to_lower(std::uint32_t letter) noexcept;
std::uint32_t to_upper(std::uint32_t letter) noexcept;

std::string lower(std::string_view text);
std::string upper(std::string_view text);

}  // namespace sluice::engine
