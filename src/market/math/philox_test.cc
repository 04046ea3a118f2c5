#include "market/math/philox.h"

#include <gmock/gmock.h>

namespace sluice::market::philox {
namespace {

using testing::ElementsAre;

auto words(Words w) { return std::vector<std::uint32_t>{w.x0, w.x1, w.x2, w.x3}; }

// The known answers that come with Random123.
TEST(Philox, PhiloxGivesThePublishedNumbers) {
  EXPECT_THAT(words(random({0, 0, 0, 0}, {0, 0})),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(words(random({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u})),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(
      words(random({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0})),
      ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

static_assert(random({0, 0, 0, 0}, {0, 0}).x0 == 0x6627e8d5, "known before the program runs");

}  // namespace
}  // namespace sluice::market::philox
