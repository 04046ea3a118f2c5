#include "base/duration.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Duration, ReadsEveryUnitAndTheirSums) {
  EXPECT_EQ(parse_duration("5m"), Duration{300});
  EXPECT_EQ(parse_duration("30s"), Duration{30});
  EXPECT_EQ(parse_duration("1h30m"), Duration{5400});
  EXPECT_EQ(parse_duration("250ms"), Duration{0.25});
  EXPECT_EQ(parse_duration("1.5h"), Duration{5400});
  EXPECT_EQ(parse_duration("1d2h3m4s5ms"), Duration{93784.005});
  EXPECT_EQ(parse_duration("0s"), Duration{0});
}

TEST(Duration, RefusesInvalidText) {
  for (const auto* text :
       {"",     "5",    "m",   "5 m",  " 5m",  "5m ",  "-5m", "+5m",       "5x",   "5mm", "30m1h",
        "5m5m", "1e3s", "..s", "nans", "infs", "1,5h", "5M",  "99999999d", "1s1m", "0x5s"})
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
}

TEST(Duration, RoundTripsThroughText) {
  for (const double seconds :
       {0.0, 0.001, 0.3, 1.0 / 3, 1.5, 60.0, 61.0, 5400.0, 86400.0, 93784.005, 1e-7, 123456.789})
    EXPECT_EQ(parse_duration(to_string(Duration{seconds})), Duration{seconds})
        << to_string(Duration{seconds});
  EXPECT_EQ(to_string(Duration{5400}), "1h30m");
  EXPECT_EQ(to_string(Duration{0}), "0s");
  EXPECT_EQ(to_string(Duration{300}), "5m");
}

}  // namespace
}  // namespace sluice
