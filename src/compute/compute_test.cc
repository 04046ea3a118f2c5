#include "compute/compute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "compute/accelerator_for_tests.h"

namespace sluice::compute {
namespace {

using testing::HasSubstr;
using Trouble = FakeAccelerator::Trouble;

struct Plus {
  double addend;
};

void plus_on_cpu(const Call& call, Workers& workers) {
  const double addend = call.with<Plus>().addend;
  workers.each(call.items, 4, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      call.output<double>(0)[i] = call.input<double>(0)[i] + addend;
  });
}
void never_called(const Call&, LaunchContext&) { FAIL() << "the fake runs the CPU's function"; }

constexpr Operation kPlus{"plus", plus_on_cpu, never_called};
constexpr std::size_t kItems = 100;

class ComputeTest : public testing::Test {
 protected:
  ComputeTest() { std::iota(in.begin(), in.end(), 0.0); }

  Call call() {
    return {.in = {{in.data(), sizeof(double)}},
            .out = {{out.data(), sizeof(double)}},
            .parameters = &plus,
            .parameters_bytes = sizeof plus,
            .items = kItems};
  }
  Outcome run(DevicePreference where = DevicePreference::gpu) {
    out.assign(kItems, -1);
    const Outcome outcome = compute.run(kPlus, call(), where);
    for (std::size_t i = 0; i < kItems; ++i) EXPECT_EQ(out[i], static_cast<double>(i) + 1) << i;
    return outcome;
  }

  std::shared_ptr<FakeAccelerator> gpu = std::make_shared<FakeAccelerator>();
  std::string veto;
  Compute compute{{.threads = 2, .accelerator = gpu, .veto = [this] { return veto; }}};
  Plus plus{1};
  std::vector<double> in = std::vector<double>(kItems), out = std::vector<double>(kItems);
};

TEST_F(ComputeTest, RunsOnTheGpuOnRequest) {
  const Outcome outcome = run();
  EXPECT_EQ(outcome.items_on_gpu, kItems);
  EXPECT_EQ(outcome.items_on_cpu, 0u);
  EXPECT_EQ(outcome.batches, 1u);
}

TEST_F(ComputeTest, LearnsWhichIsFaster) {
  gpu->taken = {1e-9, 1e-9, 1e-9};
  run(DevicePreference::gpu);  // its copies are known from now on
  for (int i = 0; i < 20; ++i) run(DevicePreference::automatic);
  EXPECT_EQ(run(DevicePreference::automatic).choice.on, Processor::gpu);
  gpu->taken = {1, 1, 1};
  for (int i = 0; i < 60; ++i) run(DevicePreference::automatic);
  EXPECT_EQ(run(DevicePreference::automatic).choice.on, Processor::cpu);
}

TEST_F(ComputeTest, TrimsBeforeItSplits) {
  gpu->script = {Trouble::exhausted};
  gpu->cached = 1 << 20;
  const Outcome outcome = run();
  EXPECT_EQ(outcome.batches, 1u);
  EXPECT_EQ(gpu->trims, 1);
}

TEST_F(ComputeTest, SplitsWhatDoesNotFit) {
  gpu->max_items = 30;
  const Outcome outcome = run();
  EXPECT_EQ(outcome.items_on_gpu, kItems);
  EXPECT_EQ(outcome.batches, 4u);  // of 25
  EXPECT_TRUE(outcome.fallback.empty());
}

TEST_F(ComputeTest, TakesTheCpuWhenNotEvenOneItemFits) {
  gpu->max_items = 0;
  const Outcome outcome = run();
  EXPECT_EQ(outcome.items_on_cpu, kItems);
  EXPECT_THAT(outcome.fallback, HasSubstr("not enough GPU memory"));
}

TEST_F(ComputeTest, FinishesOnTheCpuWhatAFaultLeft) {
  gpu->max_items = 50;
  gpu->script = {Trouble::none, Trouble::none, Trouble::fault};  // too large, half, half
  const Outcome outcome = run();
  EXPECT_EQ(outcome.items_on_gpu, 50u);
  EXPECT_EQ(outcome.items_on_cpu, 50u);
  EXPECT_THAT(outcome.fallback, HasSubstr("fell off the bus"));
  EXPECT_EQ(compute.stats().faults, 1u);
}

// A client may have every call of its own fall back.
TEST_F(ComputeTest, RepeatedFallbacksAreLoggedOnce) {
  gpu->max_items = 0;
  log::flush();
  testing::internal::CaptureStderr();
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(run().fallback.empty());
  log::flush();
  const std::string captured = testing::internal::GetCapturedStderr();
  EXPECT_EQ(compute.stats().fallbacks, 20u);
  std::size_t lines = 0;
  for (std::size_t at = 0; (at = captured.find("ran on the CPU", at)) != captured.npos; ++at)
    ++lines;
  EXPECT_EQ(lines, 1u) << captured;
}

TEST_F(ComputeTest, ARefusedCallRunsOnTheCpuAndIsNoFault) {
  gpu->script = {Trouble::refused};
  const Outcome outcome = run();
  EXPECT_EQ(outcome.items_on_cpu, kItems);
  EXPECT_THAT(outcome.fallback, HasSubstr("does not compile"));
  EXPECT_EQ(compute.stats().faults, 0u);
  EXPECT_EQ(compute.stats().fallbacks, 1u);
  EXPECT_EQ(run().items_on_gpu, kItems);
}

TEST_F(ComputeTest, LaterCallsGoStraightToTheCpuUntilTheGpuIsBack) {
  gpu->script = {Trouble::fault};
  run();
  const int calls = gpu->calls;
  EXPECT_EQ(run().choice.reason, "fell off the bus");
  EXPECT_EQ(gpu->calls, calls);
  gpu->lost.clear();
  EXPECT_EQ(run().items_on_gpu, kItems);
}

TEST_F(ComputeTest, AVetoKeepsCallsOffTheGpu) {
  veto = "GPU 0 is on probation";
  EXPECT_EQ(run().choice.reason, veto);
  EXPECT_EQ(gpu->calls, 0);
}

// The seeds allow 10 ms; a millisecond beyond the CPU's own work is the promise.
TEST_F(ComputeTest, SwitchingCostsLessThanAMillisecond) {
  double best = 1;
  for (int i = 0; i < 20; ++i) {
    gpu->lost.clear();
    gpu->script = {Trouble::fault};
    const Instant start = Steady::now();
    run(DevicePreference::cpu);
    const Instant between = Steady::now();
    run(DevicePreference::gpu);
    best =
        std::min(best, seconds_between(between, Steady::now()) - seconds_between(start, between));
  }
  EXPECT_LT(best, 1e-3);
}

TEST_F(ComputeTest, LosesNoCallOfManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      std::vector<double> mine(kItems);
      Call own = call();
      own.out[0].data = mine.data();
      for (int i = 0; i < 100; ++i) {
        std::fill(mine.begin(), mine.end(), -1.0);
        compute.run(kPlus, own, i % 2 == 0 ? DevicePreference::cpu : DevicePreference::automatic);
        for (std::size_t k = 0; k < kItems; ++k) ASSERT_EQ(mine[k], static_cast<double>(k) + 1);
      }
    });
  for (auto& thread : threads) thread.join();
}

TEST(Compute, WithoutAGpuSaysWhy) {
  Compute compute({.threads = 1, .no_accelerator = "the driver is too old"});
  const Operation plus{"plus", plus_on_cpu, nullptr};
  EXPECT_EQ(compute.explain(plus, {.items = 1}).reason, "the driver is too old");
}

TEST(Compute, ACallWithoutItemsDoesNothing) {
  Compute compute({.threads = 1});
  EXPECT_EQ(compute.run(kPlus, {}).items_on_cpu, 0u);
}

TEST(Compute, UnknownDeviceNamesAreRefused) { EXPECT_THROW(make_compute("tpu"), Error); }

}  // namespace
}  // namespace sluice::compute
