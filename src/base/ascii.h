// Letter case of ASCII. Other bytes, those of UTF-8 among them, stay as they are.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace sluice {

inline char ascii_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

inline std::string ascii_lower(std::string_view text) {
  std::string low(text);
  for (char& c : low) c = ascii_lower(c);
  return low;
}

inline bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, {}, [](char c) { return ascii_lower(c); }, [](char c) { return ascii_lower(c); });
}

}  // namespace sluice
