// Names of value-parameterised tests, which are made of letters and digits.
#pragma once

#include <cctype>
#include <string>
#include <string_view>

namespace sluice::engine {

// "Resize linear" becomes "ResizeLinear".
inline std::string case_name(std::string_view text) {
  std::string name;
  bool starts_word = false;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool belongs = std::isalnum(byte) != 0;
    if (belongs) name += starts_word ? static_cast<char>(std::toupper(byte)) : c;
    starts_word = !belongs;
  }
  return name;
}

}  // namespace sluice::engine
