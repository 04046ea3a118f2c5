// Sessions on the GPU: with too little memory, through failures and recovery, from many threads,
// and whether the batch changes the bits of a row.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <iostream>
#include <thread>

#include "compute/device_pools.h"
#include "device/cuda/device_buffer.h"
#include "engine/encoder_for_tests.h"
#include "engine/exec/cuda/cuda_program.h"
#include "engine/exec/cuda/program_for_gpu_tests.h"

namespace sluice::engine {
namespace {

constexpr std::int64_t kIn = 64;

// [batch, 64] to [batch, wide] and back; the intermediates take 4 * wide bytes a row, twice.
Graph wide_layers(std::int64_t wide, unsigned seed = 1) {
  GraphBuilder b;
  const ValueId x = b.input("x");
  const ValueId up = b.node("MatMul", {x, b.constant(weights({kIn, wide}, kIn, seed))});
  const ValueId chances = b.node("Softmax", {up}, {{"axis", std::int64_t{-1}}});
  Graph graph =
      b.output(b.node("MatMul", {chances, b.constant(varied({wide, 16}, seed + 1))})).take();
  graph[x].dims = {{-1, "batch"}, {kIn, ""}};
  return graph;
}

Tensor run(const Session& session, const Tensor& x) {
  const Datum given(x);
  return session.run(std::span(&given, 1))[0].tensor;
}

// CUDA, with runs that fail on request.
class Flaky final : public Gpu {
 public:
  explicit Flaky(std::shared_ptr<cuda::Context> context)
      : gpu_(make_cuda_gpu(std::move(context))) {}

  std::shared_ptr<const Program> compile(Graph graph,
                                         const std::shared_ptr<cpu::Context>& host) override {
    return std::make_shared<Run>(gpu_->compile(std::move(graph), host), *this);
  }
  void revive() override {
    ++revivals;
    gpu_->revive();
  }
  Choices choices() const override { return gpu_->choices(); }

  std::atomic<int> faults{0}, runs{0}, revivals{0};

 private:
  struct Run final : Program {
    Run(std::shared_ptr<const Program> real, Flaky& gpu) : program(std::move(real)), of(gpu) {}
    const Graph& graph() const noexcept override { return program->graph(); }
    const Schedule& schedule() const noexcept override { return program->schedule(); }
    std::vector<Tensor> run(std::span<const Tensor> inputs,
                            std::vector<StepTime>* times) const override {
      if (of.faults.fetch_sub(1) > 0) throw Error(Code::internal, "scripted failure");
      of.faults = 0;
      ++of.runs;
      return program->run(inputs, times);
    }
    std::shared_ptr<const Program> program;
    Flaky& of;
  };

  const std::unique_ptr<Gpu> gpu_;
};

class CudaSessionTest : public testing::Test {
 protected:
  compute::Workers workers;
};

// ---- memory -----------------------------------------------------------------------------------

TEST_F(CudaSessionTest, BatchThatExceedsItsShareOfThePoolsIsSplit) {
  constexpr std::int64_t kWide = 16384, kRows = 1024;
  constexpr std::size_t kShare = std::size_t{64} << 20;
  const Graph graph = wide_layers(kWide);
  const std::shared_ptr<memory::Pools> pools = compute::make_device_pools(0, {}, {}, kShare);
  const std::shared_ptr<memory::Allocator> memory(pools, &pools->get("default"));
  const Session limited(graph, workers, {.gpu = make_cuda_context({.memory = memory})});
  const Session whole(graph, workers, {.gpu = make_cuda_context({})}), plain(graph, workers);
  const Tensor x = varied({kRows, kIn}, 5);  // 64 MiB of intermediates, and weights
  const Tensor got = run(limited, x);
  EXPECT_LT(distance(got, run(plain, x)), tolerance(Precision::f32));
  EXPECT_LT(distance(got, run(whole, x)), tolerance(Precision::f32));
  EXPECT_EQ(limited.gpu_failure(), "");
  std::size_t used = 0;
  for (const memory::PoolReport& report : pools->report()) used += report.counts.bytes;
  EXPECT_GT(used, std::size_t{5} << 20);  // weights: it ran on the GPU
  EXPECT_LE(used, kShare);
}

TEST_F(CudaSessionTest, BatchIsSplitOnlyWhileOthersHoldTheMemory) {
  constexpr std::int64_t kWide = 65536, kRows = 4096;  // 1 GiB of intermediates
  const Graph graph = wide_layers(kWide);
  auto counted = std::make_unique<Flaky>(make_cuda_context({}));
  Flaky& gpu = *counted;
  const Session session(graph, workers, std::move(counted)), plain(graph, workers);
  const Tensor x = varied({kRows, kIn}, 5), want = run(plain, x);
  run(session, varied({16, kIn}, 5));  // loads weights and libraries
  std::size_t free = 0, total = 0;
  device::check(cudaMemGetInfo(&free, &total));
  {
    const auto hog = device::device_buffer(free - (std::size_t{700} << 20));
    gpu.runs = 0;
    EXPECT_LT(distance(run(session, x), want), tolerance(Precision::f32));
    std::cout << "runs beside the hog: " << gpu.runs << "\n";
    EXPECT_EQ(session.gpu_failure(), "");
    EXPECT_GT(gpu.runs, 1);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // until the full batch is retried
  gpu.runs = 0;
  EXPECT_LT(distance(run(session, x), want), tolerance(Precision::f32));
  EXPECT_EQ(gpu.runs, 1);
}

// ---- failures ---------------------------------------------------------------------------------

TEST_F(CudaSessionTest, SessionReturnsToTheGpuAfterARecoverableFailure) {
  const Graph graph = wide_layers(512);
  auto flaky = std::make_unique<Flaky>(make_cuda_context({}));
  Flaky& gpu = *flaky;
  const Session session(graph, workers, std::move(flaky),
                        {.gpu_return = {.first_backoff_s = 0.01}});
  const Session plain(graph, workers);
  const Tensor x = varied({8, kIn}, 5), want = run(plain, x);
  run(session, x);
  gpu.faults = 1;
  EXPECT_LT(distance(run(session, x), want), 1e-6);  // on the CPU
  EXPECT_THAT(session.gpu_failure(), testing::HasSubstr("scripted failure"));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  gpu.runs = 0;
  EXPECT_LT(distance(run(session, x), want), tolerance(Precision::f32));
  EXPECT_EQ(session.gpu_failure(), "");
  EXPECT_EQ(gpu.revivals, 1);
  EXPECT_EQ(gpu.runs, 1);
}

// Runs in a child process, since CUDA does not survive the fault.
int lose_the_device() {
  compute::Workers workers;
  const Graph graph = wide_layers(512);
  const Session session(graph, workers,
                        {.gpu = make_cuda_context({}), .gpu_return = {.first_backoff_s = 0.01}});
  const Session plain(graph, workers);
  const Tensor x = varied({8, kIn}, 5), want = run(plain, x);
  if (!(distance(run(session, x), want) < tolerance(Precision::f32))) return 2;
  const TensorType type{DType::f32, x.shape()};
  const auto program = session.compiled(std::span(&type, 1)).program;
  void* const nowhere[] = {reinterpret_cast<void*>(std::uintptr_t{256})};
  try {
    dynamic_cast<const CudaProgram&>(*program).run_on_device(nowhere, nowhere);
    return 3;
  } catch (const Error&) {
  }
  for (int i = 0; i < 3; ++i) {
    if (!(distance(run(session, x), want) < 1e-6)) return 4;  // on the CPU
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::fprintf(stderr, "%s\n", session.gpu_failure().c_str());
  return 0;
}

TEST_F(CudaSessionTest, SessionStaysOnTheCpuAfterAStickyCudaErrorAndReportsIt) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(_exit(lose_the_device()), testing::ExitedWithCode(0), "cannot be used in it again");
}

// ---- threads ----------------------------------------------------------------------------------

TEST_F(CudaSessionTest, SixtyFourThreadsShareEightSessions) {
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<std::vector<Tensor>> expected;
  constexpr std::int64_t kBatches[] = {1, 2, 5};
  for (unsigned i = 0; i < 8; ++i) {
    const Graph graph = wide_layers(256 + 64 * i, i + 1);
    sessions.push_back(std::make_unique<Session>(
        graph, workers, SessionOptions{.gpu = make_cuda_context({.measure = false})}));
    const Session plain(graph, workers);
    expected.emplace_back();
    for (const std::int64_t batch : kBatches)
      expected.back().push_back(run(plain, varied({batch, kIn}, i)));
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 64; ++t)
    threads.emplace_back([&, t] {
      for (unsigned k = 0; k < 24; ++k) {
        const unsigned session = (t + k) % 8, shape = (t + k) % 3;
        const Tensor got = run(*sessions[session], varied({kBatches[shape], kIn}, session));
        if (!(distance(got, expected[session][shape]) < tolerance(Precision::f32))) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  for (const auto& session : sessions) EXPECT_EQ(session->gpu_failure(), "");
}

// ---- padding ----------------------------------------------------------------------------------

TEST_F(CudaSessionTest, SkippingPaddingKeepsTokensAndZeroesTheRest) {
  const Graph graph = EncoderForTests(EncoderOutput::all).take();
  const Session plain(graph, workers, {.compile = false});
  const std::pair<DType, Precision> kinds[] = {
      {DType::f32, Precision::f32}, {DType::f16, Precision::f16}, {DType::bf16, Precision::bf16}};
  for (const auto& [precision, limit] : kinds) {
    const Session packed(
        graph, workers,
        {.gpu = make_cuda_context({}), .precision = precision, .skip_padding = true});
    for (const std::vector<std::int64_t>& lengths :
         {std::vector<std::int64_t>{30, 1, 17, 64}, {64, 1, 2, 2}, {20, 21, 22, 23}}) {
      const std::vector<Tensor> inputs = sequences(lengths, 64);
      const std::vector<Datum> given(inputs.begin(), inputs.end());
      const auto ready = packed.ready(inputs);
      const auto& program = dynamic_cast<const CudaProgram&>(*ready.compiled.program);
      EXPECT_THAT(program.report().on_host, testing::IsEmpty());
      EXPECT_GT(ready.inputs.size(), inputs.size());
      const auto want = plain.run(given);
      for (int time = 0; time < 3; ++time) {  // launched one by one, captured, replayed
        const auto got = packed.run(given);
        EXPECT_EQ(packed.gpu_failure(), "");
        for (std::size_t i = 0; i < want.size(); ++i)
          EXPECT_LT(distance(got[i].tensor, without_padding(want[i].tensor, inputs[1])),
                    3 * tolerance(limit))
              << to_string(precision) << " output " << i;
      }
    }
  }
}

// ---- rows and their neighbours ----------------------------------------------------------------

bool same_row(const Tensor& a, std::int64_t i, const Tensor& b, std::int64_t j) {
  const std::size_t row = a.bytes() / static_cast<std::size_t>(a.shape()[0]);
  return std::memcmp(static_cast<const std::byte*>(a.data()) + row * static_cast<std::size_t>(i),
                     static_cast<const std::byte*>(b.data()) + row * static_cast<std::size_t>(j),
                     row) == 0;
}

// A batch with `row` at index `at` among others.
Tensor batch_with(const Tensor& row, std::int64_t rows, std::int64_t at, unsigned seed) {
  Shape shape = row.shape();
  shape[0] = rows;
  const Tensor batch = varied(shape, seed);
  std::memcpy(static_cast<std::byte*>(batch.data()) + row.bytes() * static_cast<std::size_t>(at),
              row.data(), row.bytes());
  return batch;
}

Graph small_network() {
  GraphBuilder b;
  using List = std::vector<std::int64_t>;
  const ValueId x = b.input("x");
  const ValueId conv =
      b.node("Conv", {x, b.constant(weights({32, 8, 3, 3}, 72, 1)), b.constant(varied({32}, 2))},
             {{"pads", List{1, 1, 1, 1}}});
  const ValueId more =
      b.node("Conv", {b.node("Relu", {conv}), b.constant(weights({64, 32, 3, 3}, 288, 3))});
  const ValueId flat = b.node("Flatten", {b.node("GlobalAveragePool", {more})});
  return b.output(b.node("Gemm", {flat, b.constant(weights({64, 10}, 64, 4))})).take();
}

struct RowCase {
  const char* name;
  Graph (*graph)();
  Shape row;
};
std::ostream& operator<<(std::ostream& to, const RowCase& one) { return to << one.name; }

class CudaSessionRowTest : public CudaSessionTest, public testing::WithParamInterface<RowCase> {};

// A shape always runs the same kernels: the other rows of the batch and the position of a row
// change no bit. Another batch size may choose other kernels of cuBLASLt and cuDNN, by measurement,
// with another order of summation; the resulting differences are printed.
TEST_P(CudaSessionRowTest, NeighboursDoNotChangeTheBitsOfARow) {
  const RowCase& one = GetParam();
  const Graph graph = one.graph();
  const Tensor row = varied(one.row, 77);
  for (const DType precision : {DType::f32, DType::f16, DType::bf16}) {
    SCOPED_TRACE(to_string(precision));
    const Session session(graph, workers, {.gpu = make_cuda_context({}), .precision = precision});
    const Tensor first = run(session, batch_with(row, 24, 0, 1));
    for (unsigned seed = 2; seed < 6; ++seed) {
      const std::int64_t at = (seed * 7) % 24;
      const Tensor other = run(session, batch_with(row, 24, at, seed));
      EXPECT_TRUE(same_row(first, 0, other, at)) << "at " << at;
    }
    std::cout << one.name << " in " << to_string(precision) << ": the bits of 24 rows in";
    for (const std::int64_t rows : {1, 2, 3, 8, 16, 32, 100, 257})
      if (same_row(first, 0, run(session, batch_with(row, rows, 0, 9)), 0))
        std::cout << " " << rows;
    std::cout << " rows too\n";
  }
}

Graph gemm_layers() { return wide_layers(1024); }

INSTANTIATE_TEST_SUITE_P(Networks, CudaSessionRowTest,
                         testing::Values(RowCase{"Gemms", gemm_layers, {1, kIn}},
                                         RowCase{"Convolutions", small_network, {1, 8, 14, 14}}),
                         [](const auto& one) { return case_name(one.param.name); });

}  // namespace
}  // namespace sluice::engine
