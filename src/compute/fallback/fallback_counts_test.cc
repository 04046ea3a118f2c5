#include "compute/fallback/fallback_counts.h"

#include <gmock/gmock.h>

#include <vector>

namespace sluice::compute {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Instant at(double seconds) {
  return Instant() + std::chrono::duration_cast<Steady::duration>(Seconds(seconds));
}

TEST(Fallbacks, AreCountedByReasonForTheSessionAndTheProcess) {
  const auto before = process_fallbacks();
  Fallbacks fallbacks([](const std::string&) {});
  EXPECT_EQ(describe(fallbacks.counts()), "");
  fallbacks.note(Fallback::out_of_memory, "no memory", at(0));
  fallbacks.note(Fallback::out_of_memory, "no memory", at(1));
  fallbacks.note(Fallback::lost, "fell off the bus", at(2));
  const FallbackCounts counts = fallbacks.counts();
  EXPECT_EQ(counts.total(), 3u);
  EXPECT_EQ(counts.of(Fallback::out_of_memory), 2u);
  EXPECT_EQ(describe(counts),
            "3 calls for the GPU ran on the CPU (out_of_memory 2, lost 1): fell off the bus");
  EXPECT_EQ(process_fallbacks()[0], before[0] + 2);
  EXPECT_EQ(process_fallbacks()[2], before[2] + 1);
}

TEST(Fallbacks, AreLoggedOnceAMinuteForEachReason) {
  std::vector<std::string> warnings;
  Fallbacks fallbacks([&](const std::string& text) { warnings.push_back(text); });
  for (int i = 0; i < 1000; ++i) fallbacks.note(Fallback::out_of_memory, "no memory", at(i * 0.05));
  ASSERT_THAT(warnings, ElementsAre(HasSubstr("(out_of_memory): no memory")));
  fallbacks.note(Fallback::transient, "busy", at(50));
  EXPECT_THAT(warnings, SizeIs(2));
  fallbacks.note(Fallback::out_of_memory, "no memory at all", at(61));
  EXPECT_THAT(warnings, SizeIs(3));
  EXPECT_THAT(warnings.back(), HasSubstr("1000 calls"));
  EXPECT_THAT(warnings.back(), HasSubstr("no memory at all"));
}

TEST(Fallbacks, EachStatusOfTheGpuHasItsReason) {
  EXPECT_EQ(fallback_of(device::GpuStatus::out_of_memory), Fallback::out_of_memory);
  EXPECT_EQ(fallback_of(device::GpuStatus::transient), Fallback::transient);
  EXPECT_EQ(fallback_of(device::GpuStatus::lost), Fallback::lost);
  EXPECT_EQ(fallback_of(device::GpuStatus::refused), Fallback::unsupported);
}

}  // namespace
}  // namespace sluice::compute
