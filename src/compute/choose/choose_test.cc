#include "compute/choose/choose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::compute {
namespace {

using testing::HasSubstr;

Costs known(double cpu_s, double gpu_s, int runs = 10) {
  Costs costs;
  for (int i = 0; i < runs; ++i) {
    costs.note("ema", Processor::cpu, 1000, cpu_s);
    costs.note("ema", Processor::gpu, 1000, gpu_s);
  }
  return costs;
}

ChoiceQuery query_of(std::size_t bytes = 0) {
  return {.operation = "ema", .work = 1000, .bytes_in = bytes};
}

TEST(Choose, TakesTheFasterProcessor) {
  EXPECT_EQ(choose(query_of(), known(1e-3, 1e-4)).on, Processor::gpu);
  EXPECT_EQ(choose(query_of(), known(1e-4, 1e-3)).on, Processor::cpu);
}

TEST(Choose, TakesTheCpuWhenCopiesCostMoreThanTheGain) {
  Costs costs = known(1e-3, 1e-4);
  costs.note(kCopyIn, Processor::gpu, 1 << 20, 2e-3);
  const Choice choice = choose(query_of(1 << 20), costs);
  EXPECT_EQ(choice.on, Processor::cpu);
  EXPECT_DOUBLE_EQ(*choice.gpu_s, 2.1e-3);
  EXPECT_EQ(choose(query_of(0), costs).on, Processor::gpu) << "the data lies there already";
}

TEST(Choose, FollowsTheCallersPreference) {
  ChoiceQuery query = query_of();
  query.preference = DevicePreference::cpu;
  EXPECT_EQ(choose(query, known(1, 1e-4)).on, Processor::cpu);
  query.preference = DevicePreference::gpu;
  EXPECT_EQ(choose(query, known(1e-4, 1)).on, Processor::gpu);
}

TEST(Choose, TakesTheCpuWithTheReasonWhenNoGpuIsUsable) {
  ChoiceQuery query = query_of();
  query.gpu_unusable = "GPU 0 is lost";
  for (const DevicePreference preference : {DevicePreference::automatic, DevicePreference::gpu}) {
    query.preference = preference;
    const Choice choice = choose(query, known(1, 1e-4));
    EXPECT_EQ(choice.on, Processor::cpu);
    EXPECT_EQ(choice.reason, "GPU 0 is lost");
  }
}

TEST(Choose, TriesAProcessorThatIsNotMeasuredYet) {
  Costs costs;
  EXPECT_EQ(choose(query_of(), costs).on, Processor::cpu);
  costs.note("ema", Processor::cpu, 1000, 1e-3);
  EXPECT_EQ(choose(query_of(), costs).on, Processor::gpu);
  const Choice choice = choose(query_of(std::size_t{1} << 30), costs);
  EXPECT_EQ(choice.on, Processor::cpu);
  EXPECT_THAT(choice.reason, HasSubstr("copying"));
}

TEST(Choose, RetriesACloseLoserWithFewRuns) {
  EXPECT_EQ(choose(query_of(), known(1e-3, 2e-3, 1)).on, Processor::gpu);
  EXPECT_EQ(choose(query_of(), known(1e-3, 2e-3, kTries)).on, Processor::cpu);
  EXPECT_EQ(choose(query_of(), known(1e-3, 2e-2, 1)).on, Processor::cpu) << "far behind";
}

}  // namespace
}  // namespace sluice::compute
