// UTF-8, as far as reading and showing text from outside needs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

// The offset of the first byte that is not part of a well-formed sequence
// (overlong forms, surrogates and values past U+10FFFF are not well-formed).
std::optional<std::size_t> first_invalid_utf8(std::string_view text) noexcept;

// Appends one code point, which must be valid.
void append_utf8(std::string& text, std::uint32_t code_point);

}  // namespace sluice
