// Starts itself as a worker, which computes on the CPU and dies, hangs or runs short of
// memory as its parameters say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "base/clock.h"
#include "compute/accelerator_for_tests.h"
#include "compute/compute.h"
#include "compute/worker/worker.h"
#include "memory/pool/pools.h"

namespace sluice::compute {
namespace {

using testing::HasSubstr;

struct Plan {
  double addend = 1;
  enum What { compute, die, hang, fault, exhausted, refused } what = compute;
};

bool in_worker = false;

void plus(const Call& call, Workers&) {
  const Plan plan = call.with<Plan>();
  if (in_worker) {
    if (plan.what == Plan::die) raise(SIGKILL);
    if (plan.what == Plan::hang) pause();
    if (plan.what == Plan::fault) throw DeviceFault("illegal address");
    if (plan.what == Plan::refused) throw DeviceRefusal("does not compile");
    if (plan.what == Plan::exhausted && call.items > 10)
      throw Error(Code::exhausted, "out of memory");
  }
  for (std::size_t i = 0; i < call.items; ++i)
    call.output<double>(0)[i] = call.input<double>(0)[i] + plan.addend;
}
void unused(const Call&, LaunchContext&) {}
constexpr Operation kPlus{"plus", plus, unused};
constexpr Operation kUnknown{"unknown", plus, unused};

std::string self;

class WorkerTest : public testing::Test {
 protected:
  explicit WorkerTest(std::vector<std::string> arguments = {"worker"})
      : gpu(make_worker_accelerator({.program = self,
                                     .arguments = std::move(arguments),
                                     .timeout_s = 0.3,
                                     .first_pause_s = 0.05,
                                     .longest_pause_s = 0.2})),
        compute({.threads = 1, .accelerator = gpu}) {}

  void wait_until_well() {
    const Instant start = Steady::now();
    while (!gpu->why_not().empty()) {
      ASSERT_LT(seconds_between(start, Steady::now()), 20) << gpu->why_not();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  Outcome run(Plan plan, std::size_t items = 1000, const Operation& operation = kPlus) {
    std::vector<double> in(items), out(items, -1);
    std::iota(in.begin(), in.end(), 0.0);
    const Call call{.in = {{in.data(), sizeof(double)}},
                    .out = {{out.data(), sizeof(double)}},
                    .parameters = &plan,
                    .parameters_bytes = sizeof plan,
                    .items = items};
    Outcome outcome = compute.run(operation, call, DevicePreference::gpu);
    for (std::size_t i = 0; i < items; ++i) EXPECT_EQ(out[i], in[i] + plan.addend);
    return outcome;
  }

  std::shared_ptr<Accelerator> gpu;
  Compute compute;
};

TEST_F(WorkerTest, ComputesInTheOtherProcess) {
  wait_until_well();
  EXPECT_EQ(gpu->name(), "fake");
  for (const std::size_t items : {1u, 1000u, 100000u, 10u})
    EXPECT_EQ(run({.addend = 2}, items).items_on_gpu, items);
}

class SlowWorker : public WorkerTest {
 protected:
  SlowWorker() : WorkerTest({"worker", "slow"}) {}
};
TEST_F(SlowWorker, RunsOnTheCpuWhileItStarts) {
  EXPECT_EQ(run({}).choice.reason, "the GPU worker is starting");
  wait_until_well();
  EXPECT_EQ(run({}).items_on_gpu, 1000u);
}

TEST_F(WorkerTest, NoCallIsLostWhenItDiesAndTheNextOneTakesOver) {
  for (int i = 0; i < 3; ++i) {
    wait_until_well();
    const Outcome outcome = run({.what = Plan::die});
    EXPECT_EQ(outcome.items_on_cpu, 1000u);
    EXPECT_THAT(outcome.fallback, HasSubstr("signal 9"));
    EXPECT_EQ(run({}).choice.on, Processor::cpu) << "straight to the CPU until it is back";
  }
  wait_until_well();
  EXPECT_EQ(run({}).items_on_gpu, 1000u);
  EXPECT_EQ(compute.stats().faults, 3u);
}

TEST_F(WorkerTest, AHungWorkerIsReplaced) {
  wait_until_well();
  EXPECT_THAT(run({.what = Plan::hang}).fallback, HasSubstr("did not answer for 0.3 s"));
  wait_until_well();
  EXPECT_EQ(run({}).items_on_gpu, 1000u);
}

TEST_F(WorkerTest, AFaultIsReported) {
  wait_until_well();
  EXPECT_THAT(run({.what = Plan::fault}).fallback, HasSubstr("illegal address"));
  wait_until_well();
}

TEST_F(WorkerTest, OutOfMemorySplitsAndHarmsNothing) {
  wait_until_well();
  const Outcome outcome = run({.what = Plan::exhausted}, 100);
  EXPECT_EQ(outcome.items_on_gpu, 100u);
  EXPECT_GT(outcome.batches, 9u);
  EXPECT_EQ(gpu->why_not(), "");
}

TEST_F(WorkerTest, ARefusedCallDoesNotEndIt) {
  wait_until_well();
  for (int i = 0; i < 3; ++i) {
    const Outcome outcome = run({.what = Plan::refused});
    EXPECT_EQ(outcome.items_on_cpu, 1000u);
    EXPECT_THAT(outcome.fallback, HasSubstr("does not compile"));
    EXPECT_EQ(gpu->why_not(), "");
    EXPECT_EQ(run({}).items_on_gpu, 1000u) << "by the same worker, at once";
  }
  EXPECT_EQ(compute.stats().faults, 0u);
}

TEST_F(WorkerTest, AnOperationItDoesNotKnowRunsOnTheCpu) {
  wait_until_well();
  EXPECT_THAT(run({}, 10, kUnknown).fallback, HasSubstr("no operation unknown"));
  EXPECT_EQ(gpu->why_not(), "");
}

class BrokenWorker : public WorkerTest {
 protected:
  BrokenWorker() : WorkerTest({"worker", "broken"}) {}
};
TEST_F(BrokenWorker, OneThatCannotStartSaysWhyAndIsTriedAgain) {
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(run({}).items_on_cpu, 1000u);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_NE(gpu->why_not(), "");
}

// Its scratch memory comes from pools over host memory, made as the CUDA accelerator's are.
class PooledAccelerator final : public Accelerator {
 public:
  explicit PooledAccelerator(const memory::MemoryConfig& config)
      : pools_(config, {.names = {std::begin(kAcceleratorPools), std::end(kAcceleratorPools)}}) {}
  std::string name() const override { return "pooled"; }
  std::string why_not() override { return ""; }
  Taken run(const Operation& operation, const Call& call) override {
    const memory::Buffer scratch(pools_.get("workspace"), call.items << 10);
    operation.cpu(call, workers_);
    return {1e-6, 1e-6, 1e-6};
  }
  std::size_t trim() noexcept override { return pools_.trim(); }
  std::vector<memory::PoolStatistics> pools() const override {
    std::vector<memory::PoolStatistics> all;
    for (auto& report : pools_.report()) all.push_back(std::move(report.pool));
    return all;
  }

 private:
  mutable memory::Pools pools_;
  Workers workers_{1};
};

memory::MemoryConfig small_buddy() {
  memory::MemoryConfig config;
  config.strategy["workspace"] = "buddy";
  config.ceiling_gb["workspace"] = 1.0 / 64;  // 16 MiB
  config.initial_mb["persistent"] = 4;
  return config;
}

class PooledWorker : public WorkerTest {
 protected:
  PooledWorker() : WorkerTest({"worker", "pools", memory::to_json(small_buddy()).dump()}) {}
};
TEST_F(PooledWorker, UsesThePoolSettingsAndReportsTheStatistics) {
  wait_until_well();
  auto pools = gpu->pools();
  ASSERT_EQ(pools.size(), 2u);
  EXPECT_EQ(pools[0].name, "workspace");
  EXPECT_EQ(pools[0].strategy, memory::StrategyKind::buddy);
  EXPECT_EQ(pools[0].ceiling, std::size_t{16} << 20);
  EXPECT_EQ(pools[0].committed, 0u);
  EXPECT_EQ(pools[1].name, "persistent");
  EXPECT_EQ(pools[1].committed, std::size_t{4} << 20);

  const Outcome outcome = run({}, 40'000);  // 40 MiB of scratch memory
  EXPECT_EQ(outcome.items_on_gpu, 40'000u);
  EXPECT_GT(outcome.batches, 2u);
  pools = gpu->pools();
  EXPECT_GT(pools[0].failures, 0u);
  EXPECT_LE(pools[0].peak_committed, std::size_t{16} << 20);
  EXPECT_EQ(pools[0].used, 0u);

  run({.what = Plan::die});
  EXPECT_TRUE(gpu->pools().empty()) << "they ended with the worker";
}

int serve_as_worker(const std::string& how, const std::string& pools) {
  in_worker = true;
  static constexpr const Operation* kOperations[] = {&kPlus};
  return serve_calls(
      [&]() -> std::unique_ptr<Accelerator> {
        if (how == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(300));
        if (how == "broken") throw Error(Code::unavailable, "no device");
        if (how == "pools")
          return std::make_unique<PooledAccelerator>(memory::memory_config_from(pools));
        return std::make_unique<FakeAccelerator>();
      },
      kOperations);
}

}  // namespace
}  // namespace sluice::compute

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "worker")
    return sluice::compute::serve_as_worker(argc > 2 ? argv[2] : "", argc > 3 ? argv[3] : "");
  sluice::compute::self = argv[0];
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
