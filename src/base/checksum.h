// A checksum of 64 bits against damage, not against an attacker: FNV-1a over words of 8 bytes.
// Values that differ in one word never have the same checksum.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace sluice {

class Checksum {
 public:
  void add(std::uint64_t word) noexcept {
    value_ = (value_ ^ word) * 0x100000001b3ULL;
    value_ ^= value_ >> 32;  // so that high bits reach the low ones
  }
  // With its length: "a" and "bc" differ from "ab" and "c".
  void add(std::string_view text) noexcept {
    add(std::uint64_t{text.size()});
    for (; !text.empty(); text.remove_prefix(std::min(text.size(), sizeof(std::uint64_t)))) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data(), std::min(text.size(), sizeof word));
      add(word);
    }
  }
  std::uint64_t value() const noexcept { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

}  // namespace sluice
