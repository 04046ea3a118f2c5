#include "base/checksum.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace sluice {
namespace {

std::uint64_t of(std::string_view text) {
  Checksum sum;
  sum.add(text);
  return sum.value();
}

TEST(Checksum, DiffersAfterEachFlippedBit) {
  const std::string text = "eight GPUs and a half";
  std::set<std::uint64_t> all{of(text)};
  for (std::size_t i = 0; i < text.size() * 8; ++i) {
    auto flipped = text;
    flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ (1 << (i % 8)));
    EXPECT_TRUE(all.insert(of(flipped)).second) << i;
  }
}

TEST(Checksum, DependsOnWhereATextEnds) {
  Checksum one, other;
  one.add(std::string_view("ab")), one.add(std::string_view("c"));
  other.add(std::string_view("a")), other.add(std::string_view("bc"));
  EXPECT_NE(one.value(), other.value());
  EXPECT_NE(of(""), of(std::string_view("\0", 1)));
}

}  // namespace
}  // namespace sluice
