// Whole graphs on the GPU against the operators on the CPU, and the execution of programs.
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstring>
#include <iostream>
#include <thread>

#include "device/cuda/device_buffer.h"
#include "engine/exec/cuda/cuda_program.h"
#include "engine/exec/cuda/program_for_gpu_tests.h"

namespace sluice::engine {
namespace {

// ---- whole graphs -----------------------------------------------------------------------------

// An encoder layer as exporters write it, with a mask of 0 and 1.
Graph encoder_layer(std::int64_t batch, std::int64_t length, std::int64_t heads,
                    std::int64_t size) {
  GraphBuilder b;
  const std::int64_t width = heads * size;
  const ValueId x = b.input("x"), mask = b.input("mask", DType::i64);
  const auto dense = [&](ValueId from, std::int64_t k, std::int64_t n, unsigned seed) {
    return b.node("Add", {b.node("MatMul", {from, b.constant(weights({k, n}, k, seed))}),
                          b.constant(varied({n}, seed + 1))});
  };
  const auto number = [&](float value) { return b.constant(Tensor::of(value)); };
  const auto head = [&](ValueId from, std::vector<std::int64_t> order) {
    const ValueId parts = b.node("Reshape", {from, b.integers({batch, length, heads, size})});
    return b.node("Transpose", {parts}, {{"perm", std::move(order)}});
  };
  const auto norm = [&](ValueId from, unsigned seed) {
    return b.node("LayerNormalization",
                  {from, b.constant(varied({width}, seed)), b.constant(varied({width}, seed + 1))},
                  {{"axis", std::int64_t{-1}}});
  };
  const ValueId q = head(dense(x, width, width, 10), {0, 2, 1, 3}),
                k = head(dense(x, width, width, 12), {0, 2, 3, 1}),
                v = head(dense(x, width, width, 14), {0, 2, 1, 3});
  const ValueId scores =
      b.node("Div", {b.node("MatMul", {q, k}), number(std::sqrt(static_cast<float>(size)))});
  const ValueId shown = b.node("Unsqueeze", {mask, b.integers({1, 2})});
  const ValueId bias =
      b.node("Mul", {b.node("Sub", {number(1), b.node("Cast", {shown}, {{"to", std::int64_t{1}}})}),
                     number(-3.4028235e38f)});
  const ValueId chances =
      b.node("Softmax", {b.node("Add", {scores, bias})}, {{"axis", std::int64_t{-1}}});
  const ValueId mixed = b.node("Transpose", {b.node("MatMul", {chances, v})},
                               {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
  const ValueId back = b.node("Reshape", {mixed, b.integers({batch, length, width})});
  const ValueId first = norm(b.node("Add", {dense(back, width, width, 16), x}), 18);
  const ValueId up = dense(first, width, 4 * width, 20);
  const ValueId curve =
      b.node("Add", {b.node("Erf", {b.node("Div", {up, number(1.41421356f)})}), number(1)});
  const ValueId gelu = b.node("Mul", {b.node("Mul", {up, curve}), number(0.5f)});
  return b.output(norm(b.node("Add", {dense(gelu, 4 * width, width, 22), first}), 24)).take();
}

std::vector<Tensor> encoder_inputs(std::int64_t batch, std::int64_t length, std::int64_t width,
                                   unsigned seed) {
  const Tensor mask(DType::i64, {batch, length});
  for (std::int64_t i = 0; i < mask.size(); ++i)
    mask.values<std::int64_t>()[static_cast<std::size_t>(i)] =
        i % length < length - i / length % 7 ? 1 : 0;
  return {varied({batch, length, width}, seed), mask};
}

TEST_F(CudaProgramTest, EncoderLayerMatchesForOtherInputsToo) {
  const Graph graph = encoder_layer(3, 48, 4, 32);
  for (const Precision precision : kAll) {
    SCOPED_TRACE(name(precision));
    const auto program = compile(graph, encoder_inputs(3, 48, 128, 1), precision);
    std::cout << name(precision) << "\n" << kernels(*program);
    for (unsigned seed = 1; seed < 5; ++seed) {
      const auto inputs = encoder_inputs(3, 48, 128, seed);
      expect_close(*program, program->run(inputs), expected(graph, inputs),
                   3 * tolerance(precision));
    }
    EXPECT_THAT(program->report().on_host, testing::IsEmpty()) << kernels(*program);
    EXPECT_EQ(program->report().not_captured, "");
  }
}

// Bottleneck blocks of a residual network, between its first and last pool.
Graph residual_block() {
  GraphBuilder b;
  using List = std::vector<std::int64_t>;
  const auto conv = [&](ValueId from, std::int64_t in, std::int64_t out, std::int64_t window,
                        std::int64_t stride, unsigned seed) {
    const std::int64_t pad = window / 2;
    return b.node("Conv",
                  {from, b.constant(weights({out, in, window, window}, in * window * window, seed)),
                   b.constant(varied({out}, seed + 1))},
                  {{"kernel_shape", List{window, window}},
                   {"strides", List{stride, stride}},
                   {"pads", List{pad, pad, pad, pad}}});
  };
  const ValueId x = b.node("Relu", {conv(b.input("x"), 3, 64, 7, 2, 1)});
  const ValueId small =
      b.node("MaxPool", {x},
             {{"kernel_shape", List{3, 3}}, {"strides", List{2, 2}}, {"pads", List{1, 1, 1, 1}}});
  const ValueId narrow = b.node("Relu", {conv(small, 64, 64, 1, 1, 3)});
  const ValueId middle = b.node("Relu", {conv(narrow, 64, 64, 3, 1, 5)});
  const ValueId sum = b.node(
      "Relu", {b.node("Add", {conv(middle, 64, 256, 1, 1, 7), conv(small, 64, 256, 1, 1, 9)})});
  const ValueId flat = b.node("Flatten", {b.node("GlobalAveragePool", {sum})});
  return b
      .output(b.node("Gemm",
                     {flat, b.constant(weights({256, 10}, 256, 11)), b.constant(varied({10}, 12))}))
      .take();
}

TEST_F(CudaProgramTest, ResidualBlockMatchesForOtherInputsToo) {
  const Graph graph = residual_block();
  for (const Precision precision : kAll) {
    SCOPED_TRACE(name(precision));
    const auto program = compile(graph, {varied({2, 3, 64, 64}, 1)}, precision);
    std::cout << name(precision) << "\n" << kernels(*program);
    for (unsigned seed = 1; seed < 5; ++seed) {
      const std::vector<Tensor> inputs{varied({2, 3, 64, 64}, seed)};
      expect_close(*program, program->run(inputs), expected(graph, inputs),
                   3 * tolerance(precision));
    }
    EXPECT_THAT(program->report().on_host, testing::IsEmpty()) << kernels(*program);
    EXPECT_EQ(program->report().not_captured, "");
  }
}

// ---- execution of programs --------------------------------------------------------------------

TEST_F(CudaProgramTest, NodeWithoutACudaKernelRunsOnTheCpu) {
  GraphBuilder b;
  const ValueId x = b.input("x");
  const ValueId made = b.node("MatMul", {x, b.constant(weights({4, 4}, 4, 2))});
  const ValueId sized = b.node("Unsqueeze", {b.node("Det", {made}), b.integers({1})});
  const Graph graph = b.output(b.node("MatMul", {sized, b.constant(varied({1, 5}, 3))})).take();
  const auto program = compile(graph, {varied({6, 4, 4}, 1)}, Precision::f32);
  ASSERT_EQ(program->report().on_host.size(), 1u) << kernels(*program);
  EXPECT_THAT(program->report().on_host[0].node, testing::HasSubstr("Det"));
  EXPECT_EQ(program->report().on_host[0].bytes, (6u * 16 + 6) * 4);
  for (unsigned seed = 1; seed < 5; ++seed) {
    const std::vector<Tensor> inputs{varied({6, 4, 4}, seed)};
    expect_close(*program, program->run(inputs), expected(graph, inputs), 1e-4);
  }
}

TEST_F(CudaProgramTest, SeveralThreadsRunAProgramAtOnce) {
  const Graph graph = encoder_layer(2, 32, 4, 32);
  const auto program = compile(graph, encoder_inputs(2, 32, 128, 1), Precision::f16);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const auto inputs = encoder_inputs(2, 32, 128, t + 1);
      const Tensor want = expected(graph, inputs)[0];
      for (int i = 0; i < 20; ++i)
        if (!(distance(program->run(inputs)[0], want) < 3 * tolerance(Precision::f16))) ++wrong;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(CudaProgramTest, InputsAndOutputsOnTheDeviceAreNotCopied) {
  const Graph graph = linear(96, 64, "gelu", true, false);
  const Tensor x = varied({40, 96}, 5);
  const auto program = compile(graph, {x}, Precision::f32);
  const auto from = device::device_buffer(x.bytes()), to = device::device_buffer(40 * 64 * 4);
  device::check(cudaMemcpy(from.get(), x.data(), x.bytes(), cudaMemcpyHostToDevice));
  const Tensor got(DType::f32, {40, 64});
  void *const inputs[] = {from.get()}, *const outputs[] = {to.get()};
  for (int i = 0; i < 3; ++i) {
    device::check(cudaMemset(to.get(), 0xff, 40 * 64 * 4));
    device::check(cudaDeviceSynchronize());  // the program's stream does not wait for it
    EXPECT_GT(program->run_on_device(inputs, outputs, 5), 0);
    device::check(cudaMemcpy(got.data(), to.get(), got.bytes(), cudaMemcpyDeviceToHost));
    expect_close(*program, {got}, expected(graph, {x}), tolerance(Precision::f32));
  }
}

TEST_F(CudaProgramTest, TimesNameEveryStep) {
  const Graph graph = encoder_layer(2, 32, 4, 32);
  const auto inputs = encoder_inputs(2, 32, 128, 1);
  const auto program = compile(graph, inputs, Precision::f16);
  std::vector<StepTime> times;
  expect_close(*program, program->run(inputs, &times), expected(graph, inputs),
               3 * tolerance(Precision::f16));
  ASSERT_EQ(times.size(), program->schedule().steps.size() + 2);
  for (const StepTime& time : times) {
    EXPECT_GE(time.us, 0) << time.kernel;
    EXPECT_EQ(time.node == nullptr, time.track == StepTime::Track::copies) << time.kernel;
  }
}

TEST_F(CudaProgramTest, ChosenAlgorithmsAreNotMeasuredAgain) {
  const Graph graph = residual_block();
  const std::vector<Tensor> inputs{varied({2, 3, 64, 64}, 1)};
  const auto program = compile(graph, inputs, Precision::f16);
  const auto before = context(Precision::f16)->choices();
  EXPECT_FALSE(before.empty());
  const auto again = compile(graph, inputs, Precision::f16);
  EXPECT_EQ(context(Precision::f16)->choices(), before);
  EXPECT_EQ(kernels(*again), kernels(*program));
  const Tensor a = program->run(inputs)[0], b = again->run(inputs)[0];
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.bytes()), 0);
}

TEST_F(CudaProgramTest, EqualWeightsShareDeviceMemory) {
  const auto one =
      compile(linear(512, 512, "none", true, false), {varied({4, 512}, 1)}, Precision::f32);
  const std::size_t bytes = context(Precision::f32)->constant_bytes();
  EXPECT_GE(bytes, 512u * 512 * 4);
  const auto two =
      compile(linear(512, 512, "none", true, false), {varied({8, 512}, 1)}, Precision::f32);
  EXPECT_EQ(context(Precision::f32)->constant_bytes(), bytes);
}

TEST_F(CudaProgramTest, InputsOfAnotherShapeAreRefused) {
  const auto program =
      compile(linear(96, 64, "none", true, false), {varied({4, 96}, 1)}, Precision::f32);
  EXPECT_THROW(program->run(std::vector<Tensor>{varied({5, 96}, 1)}), Error);
  EXPECT_THROW(program->run(std::vector<Tensor>{}), Error);
}

}  // namespace
}  // namespace sluice::engine
