#include "base/units.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Units, BytesUseBinaryPrefixes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(150'754'820'096), "140.4 GiB");
}

TEST(Units, RatesUseDecimalPrefixesAndThreeDigits) {
  EXPECT_EQ(human_rate(4.312e12, "B"), "4.31 TB/s");
  EXPECT_EQ(human_rate(790e12, "FLOP"), "790 TFLOP/s");
  EXPECT_EQ(human_rate(0, "B"), "0.00 B/s");
}

TEST(Units, DurationsNameTheTwoUnitsThatMatter) {
  EXPECT_EQ(human_duration(0.00035), "350.0 us");
  EXPECT_EQ(human_duration(59.94), "59.9 s");
  EXPECT_EQ(human_duration(125), "2 min 5 s");
  EXPECT_EQ(human_duration(11040), "3 h 4 min");
  EXPECT_EQ(human_duration(183600), "2 d 3 h");
}

}  // namespace
}  // namespace sluice
