// Grapheme clusters: what people take for one character (Unicode Annex 29, extended).
#pragma once

#include <cstddef>
#include <string_view>

namespace sluice::text {

// The end of the cluster that begins at `at`, which is less than the text's size.
std::size_t grapheme_end(std::string_view text, std::size_t at) noexcept;

}  // namespace sluice::text
