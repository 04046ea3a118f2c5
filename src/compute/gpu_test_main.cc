// Real kernels through Compute: in this process, and in a worker (this program again)
// whose CUDA context a bad kernel ends. The last test ends CUDA for this process too.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <thread>

#include "base/clock.h"
#include "compute/compute.h"
#include "compute/kernels_for_tests.h"
#include "compute/worker/worker.h"

namespace sluice::compute {
namespace {

using testing::HasSubstr;

std::string self;

Outcome run(Compute& compute, const Operation& operation, std::size_t items,
            DevicePreference where = DevicePreference::gpu) {
  static std::mt19937_64 random(std::random_device{}());
  std::uniform_real_distribution<double> any(-1e6, 1e6);
  std::vector<double> in(items), out(items, 0.5);
  for (double& x : in) x = any(random);
  const PlusParameters plus{any(random)};
  const Call call{.in = {{in.data(), sizeof(double)}},
                  .out = {{out.data(), sizeof(double)}},
                  .parameters = &plus,
                  .parameters_bytes = sizeof plus,
                  .items = items};
  Outcome outcome = compute.run(operation, call, where);
  for (std::size_t i = 0; i < items; ++i) EXPECT_EQ(out[i], in[i] + plus.addend) << i;
  return outcome;
}

TEST(ComputeOnGpu, CopiesInRunsAndCopiesOut) {
  Compute compute({.accelerator = make_cuda_accelerator({})});
  for (const std::size_t items : {1u, 1000u, 1234567u})
    EXPECT_EQ(run(compute, kPlusOnGpu, items).items_on_gpu, items);
}

TEST(ComputeOnGpu, ManyThreadsShareIt) {
  Compute compute({.accelerator = make_cuda_accelerator({})});
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i)
        EXPECT_EQ(run(compute, kPlusOnGpu, 10000 + static_cast<std::size_t>(i)).items_on_cpu, 0u);
    });
  for (auto& thread : threads) thread.join();
}

TEST(ComputeOnGpu, SplitsWhatItsMemoryCannotHold) {
  Compute compute({.accelerator = make_cuda_accelerator({.memory = 256 << 20})});
  const Outcome outcome = run(compute, kGreedyOnGpu, 1000);  // wants 1000 MiB
  EXPECT_EQ(outcome.items_on_gpu, 1000u);
  EXPECT_GT(outcome.batches, 3u);
}

TEST(ComputeOnGpu, LearnsWhereSmallAndLargeCallsBelong) {
  Compute compute({.accelerator = make_cuda_accelerator({})});
  for (int i = 0; i < 12; ++i) run(compute, kPlusOnGpu, 100, DevicePreference::automatic);
  EXPECT_EQ(run(compute, kPlusOnGpu, 100, DevicePreference::automatic).choice.on, Processor::cpu);
}

class WorkerOnGpu : public testing::Test {
 protected:
  void wait_until_well() {
    const Instant start = Steady::now();
    while (!gpu->why_not().empty()) {
      ASSERT_LT(seconds_between(start, Steady::now()), 60) << gpu->why_not();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    std::printf("worker ready after %.2f s\n", seconds_between(start, Steady::now()));
  }
  std::shared_ptr<Accelerator> gpu =
      make_worker_accelerator({.program = self, .arguments = {"worker"}, .first_pause_s = 0.1});
  Compute compute{{.accelerator = gpu}};
};

TEST_F(WorkerOnGpu, AKernelThatFaultsLosesNoCall) {
  for (int i = 0; i < 3; ++i) {
    wait_until_well();
    EXPECT_EQ(run(compute, kPlusOnGpu, 100000).items_on_gpu, 100000u);
    const Outcome outcome = run(compute, kFaultOnGpu, 100000);
    EXPECT_EQ(outcome.items_on_cpu, 100000u);
    EXPECT_THAT(outcome.fallback, HasSubstr("llegal"));
    EXPECT_EQ(run(compute, kPlusOnGpu, 1000).choice.on, Processor::cpu);
  }
  wait_until_well();
  EXPECT_EQ(run(compute, kPlusOnGpu, 100000).items_on_gpu, 100000u);
}

TEST_F(WorkerOnGpu, TheSwitchCostsLessThanAMillisecond) {
  double best = 1;
  for (int i = 0; i < 5; ++i) {
    wait_until_well();
    run(compute, kPlusOnGpu, 1000);
    const double cpu = run(compute, kPlusOnGpu, 1000, DevicePreference::cpu).seconds;
    const double switched = run(compute, kFaultOnGpu, 1000).seconds;
    const double straight = run(compute, kPlusOnGpu, 1000).seconds;
    std::printf("CPU %.0f us, the call that faults %.0f us, the next %.0f us\n", cpu * 1e6,
                switched * 1e6, straight * 1e6);
    best = std::min(best, straight - cpu);
  }
  EXPECT_LT(best, 1e-3);
}

TEST(ComputeOnGpuLast, AFaultInThisProcessEndsCudaForItButNoCall) {
  Compute compute({.accelerator = make_cuda_accelerator({})});
  EXPECT_THAT(run(compute, kFaultOnGpu, 1000).fallback, HasSubstr("llegal"));
  const Outcome next = run(compute, kPlusOnGpu, 1000);
  EXPECT_EQ(next.items_on_cpu, 1000u);
  EXPECT_THAT(next.choice.reason, HasSubstr("cannot be used"));
}

int serve_as_worker() {
  static const Operation* const kOperations[] = {&kPlusOnGpu, &kFaultOnGpu, &kGreedyOnGpu};
  return serve_calls([] { return make_cuda_accelerator({}); }, kOperations);
}

}  // namespace
}  // namespace sluice::compute

int main(int argc, char** argv) {
  using namespace sluice::compute;
  if (argc > 1 && std::string(argv[1]) == "worker") return serve_as_worker();
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::puts("SKIPPED: no CUDA GPU");
    return 77;
  }
  self = argv[0];
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
