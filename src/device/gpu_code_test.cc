#include "device/gpu_code.h"

#include <gtest/gtest.h>

#include <utility>

namespace sluice::device {
namespace {

const GpuCode kDefault = parse_gpu_code("90 ptx90", 1300);
const GpuCode kAll = parse_gpu_code("75 80 86 89 90 100 110 120 ptx120", 1300);
const GpuCode kPtxAlone = parse_gpu_code("ptx75", 1300);

TEST(GpuCode, MachineCodeRunsOnTheSameMajorVersionFromItsMinorVersionOn) {
  const std::pair<int, int> code_of_card[] = {{75, 75},   {80, 80},   {86, 86},   {87, 86},
                                              {89, 89},   {90, 90},   {100, 100}, {103, 100},
                                              {110, 110}, {120, 120}, {121, 120}};
  for (const auto& [card, code] : code_of_card) EXPECT_EQ(code_for(kAll, card), code) << card;
  EXPECT_FALSE(needs_jit(kAll, 103));
}

TEST(GpuCode, CardsOlderThanTheCodeHaveNone) {
  EXPECT_EQ(code_for(kDefault, 75), 0);
  EXPECT_EQ(code_for(kDefault, 89), 0);
  EXPECT_EQ(code_for(kAll, 70), 0);
  EXPECT_EQ(code_for(kPtxAlone, 61), 0);
  EXPECT_EQ(code_for(GpuCode{}, 90), 0);
  EXPECT_FALSE(needs_jit(kDefault, 75));
}

TEST(GpuCode, PtxRunsOnEveryLaterCard) {
  EXPECT_EQ(code_for(kDefault, 100), 90);
  EXPECT_TRUE(needs_jit(kDefault, 100));
  EXPECT_EQ(code_for(kPtxAlone, 90), 75);
  EXPECT_TRUE(needs_jit(kPtxAlone, 75));
}

TEST(GpuCode, MachineCodeIsPreferredToPtx) {
  const GpuCode both = parse_gpu_code("80 ptx75", 1300);
  EXPECT_EQ(code_for(both, 86), 80);
  EXPECT_EQ(code_for(both, 90), 75);
}

TEST(GpuCode, IsDescribedInVersions) {
  EXPECT_EQ(describe(kDefault), "9.0, and PTX of 9.0");
  EXPECT_EQ(describe(kPtxAlone), "PTX of 7.5");
  EXPECT_EQ(describe(parse_gpu_code("75 120", 1300)), "7.5, 12.0");
  EXPECT_EQ(describe(GpuCode{}), "no GPU code");
}

}  // namespace
}  // namespace sluice::device
