// Sessions on the GPU under stress: many shapes, compiling while others run, measuring during other
// work, sources that do not compile, faults that a library reports first.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <atomic>
#include <limits>
#include <random>
#include <thread>

#include "device/cuda/check.h"
#include "engine/exec/cuda/context/nvrtc.h"
#include "engine/exec/cuda/cuda_program.h"
#include "engine/exec/cuda/cudnn/cudnn_fusion.h"
#include "engine/exec/cuda/program_for_gpu_tests.h"
#include "engine/resident_for_tests.h"

namespace sluice::engine {
namespace {

constexpr std::int64_t kIn = 64;

Graph convolutions(unsigned seed = 1) {
  GraphBuilder b;
  using List = std::vector<std::int64_t>;
  const ValueId x = b.input("x");
  const ValueId conv =
      b.node("Conv", {x, b.constant(weights({32, 8, 3, 3}, 72, seed)), b.constant(varied({32}, 2))},
             {{"pads", List{1, 1, 1, 1}}});
  const ValueId more =
      b.node("Conv", {b.node("Relu", {conv}), b.constant(weights({64, 32, 3, 3}, 288, seed + 1))});
  return b.output(b.node("GlobalAveragePool", {b.node("Relu", {more})})).take();
}

Graph layers(std::int64_t wide = 256) {
  GraphBuilder b;
  const ValueId x = b.input("x");
  const ValueId up = b.node("MatMul", {x, b.constant(weights({kIn, wide}, kIn, 1))});
  Graph graph =
      b.output(b.node("MatMul", {b.node("Tanh", {up}), b.constant(weights({wide, 16}, wide, 2))}))
          .take();
  graph[x].dims = {{-1, "batch"}, {kIn, ""}};
  return graph;
}

Tensor run(const Session& session, const Tensor& x) {
  const Datum given(x);
  return session.run(std::span(&given, 1))[0].tensor;
}

class CudaHardeningTest : public testing::Test {
 protected:
  compute::Workers workers;
};

// ---- memory -----------------------------------------------------------------------------------

TEST_F(CudaHardeningTest, HostMemoryDoesNotGrowOverTwoThousandShapes) {
  const Session session(layers(), workers,
                        {.gpu = make_cuda_context({.measure = false}),
                         .precision = DType::f16,
                         .max_loss = std::numeric_limits<double>::infinity()});
  std::mt19937 random(1);
  const auto run_shapes = [&](int count) {
    for (int i = 0; i < count; ++i)
      run(session, varied({1 + static_cast<std::int64_t>(random() % 3000), kIn}, 5));
  };
  run_shapes(200);
  const std::size_t before = resident();
  run_shapes(2000);
  const std::size_t after = resident();
  const double grown = after > before ? static_cast<double>(after - before) / 1e6 : 0;
  std::printf("grown by %.1f MB\n", grown);
  EXPECT_LT(grown, 50);
  EXPECT_EQ(session.gpu_failure(), "");
}

TEST_F(CudaHardeningTest, PinnedMemoryIsCountedAndBounded) {
  const Graph graph = layers();
  const Tensor x = varied({4096, kIn}, 5);  // 1 MiB, which is pinned too
  const Session plain(graph, workers);
  const Session limited(graph, workers,
                        {.memory = 900'000, .gpu = make_cuda_context({.measure = false})});
  EXPECT_LT(distance(run(limited, x), run(plain, x)), tolerance(Precision::f32));  // split
  EXPECT_EQ(limited.gpu_failure(), "");
  const TensorType types[] = {{DType::f32, {4096, kIn}}, {DType::f32, {2048, kIn}}};
  const auto pinned = [&](const Session& of, const TensorType& type) {
    const auto program = of.compiled(std::span(&type, 1)).program;
    return dynamic_cast<const CudaProgram&>(*program).report().pinned;
  };
  EXPECT_GE(pinned(limited, types[0]), 4096u * (kIn + 16) * 4);
  EXPECT_LT(pinned(limited, types[1]), pinned(limited, types[0]));
}

// ---- threads ----------------------------------------------------------------------------------

// New shapes are compiled, with and without measuring, while others run: the handles of cuDNN and
// cuBLASLt and the execution slots have one owner each.
TEST_F(CudaHardeningTest, ProgramsAreCompiledWhileOthersRun) {
  const Graph graph = convolutions();
  const Session plain(graph, workers);
  for (const bool measure : {false, true}) {
    const Session session(graph, workers,
                          {.gpu = make_cuda_context({.slots = 4, .measure = measure})});
    const Tensor x = varied({2, 8, 20, 20}, 7), want = run(plain, x);
    run(session, x);
    std::atomic<bool> building = true;
    std::atomic<int> wrong = 0, runs = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 6; ++t)
      threads.emplace_back([&] {
        while (building) {
          if (!(distance(run(session, x), want) < tolerance(Precision::f32))) ++wrong;
          ++runs;
        }
      });
    for (int b = 0; b < 2; ++b)
      threads.emplace_back([&, b] {
        for (std::int64_t i = 0; i < (measure ? 12 : 40); ++i) {
          const Tensor other = varied({1 + b, 8, 12 + i, 16 + i}, 3);
          if (!(distance(run(session, other), run(plain, other)) < tolerance(Precision::f32)))
            ++wrong;
        }
      });
    for (std::size_t i = threads.size(); i-- > 6;) threads[i].join();
    building = false;
    for (std::size_t i = 0; i < 6; ++i) threads[i].join();
    std::printf("%d runs beside building\n", runs.load());
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(session.gpu_failure(), "");
    EXPECT_EQ(session.fallbacks().total(), 0u) << describe(session.fallbacks());
  }
}

TEST_F(CudaHardeningTest, ChoicesMeasuredDuringOtherWorkAreNotCached) {
  const Graph graph = convolutions();
  const Tensor x = varied({2, 8, 20, 20}, 7);
  const auto busy = make_cuda_context({}), idle = make_cuda_context({});
  {
    const device::GpuActivity::Working call(device::GpuActivity::of(0));
    const Session session(graph, workers, {.gpu = busy});
    run(session, x);
    EXPECT_EQ(session.gpu_failure(), "");
  }
  const auto measured = [](const cuda::Context::Choices& choices) {
    std::vector<std::string> names;
    for (const auto& [of, what] : choices)
      if (!of.starts_with("code of") && what != "none") names.push_back(of + ": " + what);
    return names;
  };
  EXPECT_THAT(measured(busy->choices()), testing::IsEmpty());
  const Session session(graph, workers, {.gpu = idle});
  run(session, x);
  EXPECT_THAT(measured(idle->choices()), testing::Not(testing::IsEmpty()));
}

// ---- failures ---------------------------------------------------------------------------------

TEST_F(CudaHardeningTest, SourceThatDoesNotCompileIsNotAGpuFailure) {
  const auto context = make_cuda_context({});
  const Lock lock(context->making);
  auto& sources = context->part<cuda::NvrtcKernels>();
  if (!sources.available()) GTEST_SKIP() << "NVRTC is not here";
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(sources.get("extern \"C\" __global__ void wrong() { no such thing; }", "wrong"),
              nullptr);
  EXPECT_NE(sources.get("extern \"C\" __global__ void right() {}", "right"), nullptr);
  EXPECT_TRUE(context->choices().size() == 1u);
}

cuda::CudnnFusion small_convolution() {
  return {.dtype = DType::f16, .x = {1, 8, 16, 16}, .w = {32, 8, 3, 3}, .y = {1, 32, 14, 14}};
}

// Runs in a child process, since CUDA does not survive the fault.
int fault_seen_by_cudnn() {
  const auto context = make_cuda_context({.measure = false});
  const Lock lock(context->making);
  const auto plan = cuda::plan_cudnn(*context, small_convolution());
  const auto bad = context->part<cuda::NvrtcKernels>().get(
      "extern \"C\" __global__ void bad(int* at) { *at = 1; }", "bad");
  if (!plan || !bad) return 2;
  const auto memory = context->allocate(std::size_t{64} << 20);
  void* nowhere = reinterpret_cast<void*>(std::uintptr_t{256});
  void* parameters[] = {&nowhere};
  bad->launch(1, 1, parameters, {.inputs = {}, .outputs = {}, .stream = context->stream()});
  (void)cudaDeviceSynchronize();
  try {
    plan->run({memory.get(), memory.get(), nullptr, nullptr, memory.get(), memory.get()},
              context->stream());
    device::check(cudaStreamSynchronize(context->stream()));
    return 3;
  } catch (const device::GpuError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    _exit(error.status() == device::GpuStatus::lost ? 0 : 4);
  }
}

TEST_F(CudaHardeningTest, FaultReportedByCudnnIsAGpuFailure) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(_exit(fault_seen_by_cudnn()), testing::ExitedWithCode(0), "");
}

TEST_F(CudaHardeningTest, InvalidCallDoesNotMarkAHealthyDeviceAsLost) {
  void* made = nullptr;
  try {
    device::check(cudaMalloc(&made, std::size_t{1} << 60));
    ADD_FAILURE();
  } catch (const device::GpuError& error) {
    EXPECT_EQ(error.status(), device::GpuStatus::out_of_memory);
  }
  EXPECT_EQ(device::device_state(), 0);
  try {
    device::check(device::GpuLibrary::cudnn, 5000, "EXECUTION_FAILED");
    ADD_FAILURE();
  } catch (const device::GpuError& error) {
    EXPECT_EQ(error.status(), device::GpuStatus::transient);
  }
}

}  // namespace
}  // namespace sluice::engine
