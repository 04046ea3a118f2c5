#include "serve/http/subordinate_ids.h"

#include <gtest/gtest.h>

namespace sluice::serve::http {
namespace {

std::optional<std::int64_t> uid_of(const std::string& name) {
  return name == "alice" ? std::optional<std::int64_t>(1000) : std::nullopt;
}

TEST(SubordinateIds, AreTheirOwnersForLimits) {
  const SubordinateIds ids("alice:100000:65536\n1001:165536:65536\n", uid_of);
  EXPECT_EQ(ids.owner(100000), 1000);
  EXPECT_EQ(ids.owner(165535), 1000);
  EXPECT_EQ(ids.owner(165536), 1001);
  EXPECT_EQ(ids.owner(231072), 231072);
  EXPECT_EQ(ids.owner(1000), 1000);
  EXPECT_EQ(ids.owner(0), 0);
}

TEST(SubordinateIds, WrongLinesAreSkipped) {
  const SubordinateIds ids(
      "nobody-known:1:9\nalice:5\nalice::3\n:7:3\nalice:8:x\nalice:-4:3\nalice:20:0\n"
      "alice:9223372036854775807:2\n\nalice:30:1",
      uid_of);
  for (const int uid : {1, 5, 7, 8, 20, 29, 31}) EXPECT_EQ(ids.owner(uid), uid);
  EXPECT_EQ(ids.owner(30), 1000);
}

}  // namespace
}  // namespace sluice::serve::http
