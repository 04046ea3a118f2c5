#include "compute/choose.h"

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

Question question(std::size_t bytes = 0) {
  return {.operation = "ema", .work = 1000, .traffic = {bytes, 0}};
}

TEST(Choose, TheQuicker) {
  EXPECT_EQ(choose(question(), known(1e-3, 1e-4)).on, Processor::gpu);
  EXPECT_EQ(choose(question(), known(1e-4, 1e-3)).on, Processor::cpu);
}

TEST(Choose, TheCpuWhenCopiesEatTheGain) {
  Costs costs = known(1e-3, 1e-4);
  costs.note(kCopyIn, Processor::gpu, 1 << 20, 2e-3);
  const Choice choice = choose(question(1 << 20), costs);
  EXPECT_EQ(choice.on, Processor::cpu);
  EXPECT_DOUBLE_EQ(*choice.gpu_s, 2.1e-3);
  EXPECT_EQ(choose(question(0), costs).on, Processor::gpu) << "the data lies there already";
}

TEST(Choose, WhatTheCallerAsksFor) {
  Question asked = question();
  asked.wanted = Where::cpu;
  EXPECT_EQ(choose(asked, known(1, 1e-4)).on, Processor::cpu);
  asked.wanted = Where::gpu;
  EXPECT_EQ(choose(asked, known(1e-4, 1)).on, Processor::gpu);
}

TEST(Choose, TheCpuWithTheReasonWhenNoGpuCanBeUsed) {
  Question asked = question();
  asked.gpu_unusable = "GPU 0 is lost";
  for (const Where wanted : {Where::automatic, Where::gpu}) {
    asked.wanted = wanted;
    const Choice choice = choose(asked, known(1, 1e-4));
    EXPECT_EQ(choice.on, Processor::cpu);
    EXPECT_EQ(choice.reason, "GPU 0 is lost");
  }
}

TEST(Choose, WhatIsNotKnownYetIsTried) {
  Costs costs;
  EXPECT_EQ(choose(question(), costs).on, Processor::cpu);
  costs.note("ema", Processor::cpu, 1000, 1e-3);
  EXPECT_EQ(choose(question(), costs).on, Processor::gpu);
  const Choice choice = choose(question(std::size_t{1} << 30), costs);
  EXPECT_EQ(choice.on, Processor::cpu);
  EXPECT_THAT(choice.reason, HasSubstr("copying"));
}

TEST(Choose, ANearLoserThatWasTriedLittleIsTriedAgain) {
  EXPECT_EQ(choose(question(), known(1e-3, 2e-3, 1)).on, Processor::gpu);
  EXPECT_EQ(choose(question(), known(1e-3, 2e-3, kTries)).on, Processor::cpu);
  EXPECT_EQ(choose(question(), known(1e-3, 2e-2, 1)).on, Processor::cpu) << "far behind";
}

}  // namespace
}  // namespace sluice::compute
