// Case mapping of UTF-8 text.
#pragma once

#include <string>
#include <string_view>

namespace sluice::engine {

// Simple case mapping for all of Unicode: one code point to one, independent of the locale, as
// ONNX Runtime does with towlower and towupper. Mappings to several code points and
// context-dependent ones are not applied: "ß" stays "ß" instead of "SS", final sigma becomes "Σ",
// and "Σ" always becomes "σ". Throws invalid_argument if the text is not UTF-8.
std::string lower(std::string_view text);
std::string upper(std::string_view text);

}  // namespace sluice::engine
