#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <random>

#include "engine/exec/cpu/backend.h"
#include "engine/graph/graph_editor.h"
#include "engine/ops/op.h"
#include "kernels/gemm/int8_tile_cpu.h"

namespace sluice::engine::cpu {
namespace {

using Ints = std::vector<std::int64_t>;

template <class T>
Tensor random_tensor(const Shape& shape, unsigned seed, int low, int high, float by = 1) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> value(low, high);
  const Tensor tensor(kDTypeOf<T>, shape);
  for (T& x : tensor.values<T>())
    if constexpr (std::is_same_v<T, float>)
      x = static_cast<float>(value(random)) * by;
    else
      x = static_cast<T>(value(random));
  return tensor;
}

Tensor random_bytes(DType type, const Shape& shape, unsigned seed) {
  return type == DType::u8 ? random_tensor<std::uint8_t>(shape, seed, 0, 255)
                           : random_tensor<std::int8_t>(shape, seed, -128, 127);
}

// Runs one node by its operator and by its kernel; all inputs but x and the residual are constants.
struct Case {
  Node node;
  std::vector<Tensor> inputs;
  int threads = 2;

  Tensor expected() const {
    class NoSubgraphs final : public SubgraphRunner {
      std::vector<Datum> run(const Graph&, std::span<const Datum>) override { return {}; }
    } subgraphs;
    std::vector<Datum> given, outputs(1);
    for (const Tensor& input : inputs) given.push_back(input ? Datum(input) : Datum());
    Node of = node;
    of.outputs = {0};
    compute::Workers workers(2);
    OpCall call(of, given, outputs, workers, subgraphs);
    op_of(of).run(call);
    return outputs[0].tensor;
  }

  Tensor made(const TensorType& type, bool in_place = false) const {
    Graph graph;
    Node of = node;
    const auto add = [&](const TensorType& is, const Tensor& constant) {
      Value value{.name = std::to_string(graph.values.size()), .dtype = is.dtype};
      value.dims.emplace();
      for (const std::int64_t size : is.shape) value.dims->push_back({size, ""});
      value.constant = constant;
      graph.values.push_back(std::move(value));
      return static_cast<ValueId>(graph.values.size() - 1);
    };
    for (std::size_t i = 0; i < inputs.size(); ++i)
      of.inputs.push_back(!inputs[i] ? kNoValue
                                     : add({inputs[i].dtype(), inputs[i].shape()},
                                           i == 0 || i == 3 ? Tensor() : inputs[i]));
    of.outputs = {add(type, Tensor())};
    compute::Workers workers(threads);
    Context context(workers);
    const auto kernel = make_kernel(graph, of, context);
    EXPECT_NE(kernel->name(), "operator");
    const Tensor out(type.dtype, type.shape);
    const Tensor scratch(DType::u8, {static_cast<std::int64_t>(kernel->scratch())});
    std::vector<void*> from;
    for (const Tensor& input : inputs) from.push_back(input.data());
    if (in_place) {
      const auto at = static_cast<std::size_t>(kernel->in_place());
      std::memcpy(out.data(), inputs[at].data(), out.bytes());
      from[at] = out.data();
    }
    void* to[] = {out.data()};
    kernel->run({.inputs = from, .outputs = to, .scratch = scratch.data()});
    return out;
  }
};

void expect_same(const Case& of, bool in_place = false) {
  const Tensor want = of.expected();
  const Tensor got = of.made({want.dtype(), want.shape()}, in_place);
  for (std::size_t i = 0; i < static_cast<std::size_t>(want.size()); ++i) {
    if (want.dtype() == DType::f32) {
      const float should = want.values<float>()[i];
      ASSERT_NEAR(got.values<float>()[i], should, 1e-5f * std::max(1.0f, std::abs(should))) << i;
    } else if (want.dtype() == DType::u8) {  // ties may round either way
      ASSERT_NEAR(got.values<std::uint8_t>()[i], want.values<std::uint8_t>()[i], 1) << i;
    } else {
      ASSERT_NEAR(got.values<std::int8_t>()[i], want.values<std::int8_t>()[i], 1) << i;
    }
  }
}

void set_output_quantization(Node& node, DType to) {
  if (to == DType::f32) return;
  node.attributes.set("to_scale", 0.02f);
  node.attributes.set("to_zero", std::int64_t{to == DType::u8 ? 100 : -7});
  node.attributes.set("to_type", static_cast<std::int64_t>(to));
}

struct Int8Case {
  DType x = DType::u8, residual = DType::none, to = DType::f32;
  const char* activation = "none";
};

void set(Node& node, const Int8Case& setup) {
  node.attributes.set("zero", std::int64_t{setup.x == DType::u8 ? 117 : -3});
  node.attributes.set("activation", std::string(setup.activation));
  set_output_quantization(node, setup.to);
  if (setup.residual == DType::none || setup.residual == DType::f32) return;
  node.attributes.set("residual_scale", 0.03f);
  node.attributes.set("residual_zero", std::int64_t{5});
}

Tensor residual_of(const Int8Case& setup, const Shape& shape) {
  if (setup.residual == DType::none) return {};
  return setup.residual == DType::f32 ? random_tensor<float>(shape, 4, -100, 100, 0.01f)
                                      : random_bytes(setup.residual, shape, 4);
}

Case linear(std::int64_t m, std::int64_t n, std::int64_t k, const Int8Case& setup) {
  Case of{.node = fused("QuantizedLinear", "", {}, {}), .inputs = {}};
  set(of.node, setup);
  of.inputs = {random_bytes(setup.x, {m, k}, 1), random_tensor<std::int8_t>({k, n}, 2, -127, 127),
               random_tensor<float>({n}, 3, -100, 100, 0.01f), residual_of(setup, {m, n}),
               random_tensor<float>({n}, 5, 1, 100, 1e-6f)};
  return of;
}

template <class Body>
void for_each_target(const Body& body) {
  for (const std::int64_t target : {HWY_AVX3_DL, HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_SCALAR}) {
    if ((hwy::SupportedTargets() & target) == 0) continue;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
}

TEST(Int8LinearTest, AllShapesAreRightOnAllInstructionSets) {
  for_each_target([] {
    for (const std::int64_t m : {1, 5, 13, 130})
      for (const std::int64_t n : {1, 16, 33, 200})
        for (const std::int64_t k : {1, 7, 64, 129}) {
          SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k);
          expect_same(linear(m, n, k, {}));
          expect_same(linear(m, n, k, {.x = DType::i8}));
        }
  });
}

TEST(Int8LinearTest, EveryActivationResidualAndResultIsRight) {
  for_each_target([] {
    for (const char* activation : {"none", "relu", "gelu", "tanh"})
      for (const DType residual : {DType::none, DType::f32, DType::u8, DType::i8})
        for (const DType to : {DType::f32, DType::u8, DType::i8}) {
          SCOPED_TRACE(testing::Message()
                       << activation << " " << to_string(residual) << " " << to_string(to));
          expect_same(linear(14, 70, 32, {DType::u8, residual, to, activation}));
        }
  });
}

TEST(Int8LinearTest, LargestValuesDoNotOverflow) {
  for_each_target([] {
    Case of = linear(7, 20, 4096, {});
    std::ranges::fill(of.inputs[0].values<std::uint8_t>(), std::uint8_t{255});
    std::ranges::fill(of.inputs[1].values<std::int8_t>(), std::int8_t{127});
    of.node.attributes.set("zero", std::int64_t{0});
    expect_same(of);
  });
}

TEST(Int8LinearTest, ResultMayOverwriteTheResidual) {
  expect_same(linear(30, 50, 64, {.residual = DType::f32}), true);
  expect_same(linear(30, 50, 64, {.residual = DType::u8, .to = DType::u8}), true);
}

TEST(Int8LinearTest, RowDoesNotDependOnTheBatchOrTheThreads) {
  Case all = linear(100, 90, 256, {.residual = DType::f32, .activation = "gelu"});
  all.threads = 3;
  const Tensor made = all.made({DType::f32, {100, 90}});
  Case one = all;
  one.threads = 1;
  one.inputs[0] = Tensor(DType::u8, {1, 256});
  one.inputs[3] = Tensor(DType::f32, {1, 90});
  for (const std::size_t row : {0u, 47u, 99u}) {
    std::copy_n(
        all.inputs[0].values<std::uint8_t>().begin() + static_cast<std::ptrdiff_t>(row * 256), 256,
        one.inputs[0].values<std::uint8_t>().begin());
    std::copy_n(all.inputs[3].values<float>().begin() + static_cast<std::ptrdiff_t>(row * 90), 90,
                one.inputs[3].values<float>().begin());
    const Tensor alone = one.made({DType::f32, {1, 90}});
    EXPECT_EQ(std::memcmp(alone.data(), made.values<float>().data() + row * 90, alone.bytes()), 0);
  }
}

struct Geometry {
  std::int64_t batch, high, wide, in, out;
  Ints kernel, strides, dilations, pads;
};

Case conv(const Geometry& g, const Int8Case& setup) {
  Case of{.node = fused("QuantizedConv", "", {}, {}), .inputs = {}};
  set(of.node, setup);
  of.node.attributes.set("strides", g.strides);
  of.node.attributes.set("dilations", g.dilations);
  of.node.attributes.set("pads", g.pads);
  const auto size = [&](std::size_t i, std::int64_t from) {
    return (from + g.pads[i] + g.pads[i + 2] - (g.kernel[i] - 1) * g.dilations[i] - 1) /
               g.strides[i] +
           1;
  };
  const Shape result{g.batch, size(0, g.high), size(1, g.wide), g.out};
  of.inputs = {random_bytes(setup.x, {g.batch, g.high, g.wide, g.in}, 1),
               random_tensor<std::int8_t>({g.out, g.in, g.kernel[0], g.kernel[1]}, 2, -127, 127),
               random_tensor<float>({g.out}, 3, -100, 100, 0.01f), residual_of(setup, result),
               random_tensor<float>({g.out}, 5, 1, 100, 1e-6f)};
  return of;
}

TEST(Int8ConvTest, EveryGeometryIsRightOnAllInstructionSets) {
  const Geometry all[] = {
      {2, 9, 11, 3, 20, {7, 7}, {2, 2}, {1, 1}, {3, 3, 3, 3}},
      {1, 8, 8, 64, 70, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
      {2, 8, 8, 16, 33, {1, 1}, {2, 2}, {1, 1}, {0, 0, 0, 0}},
      {2, 7, 6, 12, 64, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
      {1, 9, 9, 5, 8, {3, 2}, {1, 2}, {2, 3}, {1, 2, 0, 3}},
      {1, 9, 9, 8, 8, {3, 3}, {1, 1}, {2, 2}, {2, 2, 2, 2}},
  };
  for_each_target([&] {
    for (const Geometry& g : all)
      for (const DType x : {DType::u8, DType::i8}) {
        SCOPED_TRACE(testing::Message() << g.in << " -> " << g.out << ", " << g.kernel[0] << " x "
                                        << g.kernel[1] << " of " << to_string(x));
        expect_same(conv(g, {.x = x}));
        expect_same(conv(g, {x, DType::u8, DType::u8, "relu"}));
      }
  });
}

// A row of the kernel may have a multiple of 4 bytes where a pixel has none.
TEST(Int8ConvTest, FewChannelsWithKernelsOfAnyWidthAreRight) {
  for_each_target([] {
    for (const std::int64_t channels : {1, 2, 3, 6})
      for (const std::int64_t width : {2, 3, 4, 8, 16})
        for (const std::int64_t stride : {std::int64_t{1}, width})
          for (const std::int64_t pad : {0, 1}) {
            SCOPED_TRACE(testing::Message() << channels << " channels, " << width
                                            << " wide, stride " << stride << ", padding " << pad);
            const Geometry g{2,          5,           33,     channels,          18,
                             {3, width}, {1, stride}, {1, 1}, {pad, pad, 0, pad}};
            expect_same(conv(g, {}));
            expect_same(conv(g, {.to = DType::u8}));
          }
  });
}

TEST(Fp8LinearTest, MatchesItsOperator) {
  for (const bool setup : {false, true}) {
    Case of{.node = fused("QuantizedLinear", "", {}, {}), .inputs = {}};
    of.node.attributes.set("activation", std::string("relu"));
    if (setup) {
      of.node.attributes.set("to_scale", 0.02f);
      of.node.attributes.set("to_type", static_cast<std::int64_t>(DType::f8e4m3fn));
    }
    const auto fp8 = [](const Shape& shape, unsigned seed) {
      const Tensor wide = random_tensor<float>(shape, seed, -100, 100, 0.01f);
      const Tensor made(DType::f8e4m3fn, shape);
      for (std::size_t i = 0; i < wide.values<float>().size(); ++i)
        made.values<Float8E4M3FN>()[i] = wide.values<float>()[i];
      return made;
    };
    of.inputs = {fp8({7, 40}, 1), fp8({40, 33}, 2), random_tensor<float>({33}, 3, -9, 9, 0.1f),
                 random_tensor<float>({7, 33}, 4, -9, 9, 0.1f),
                 random_tensor<float>({33}, 5, 1, 9)};
    const Tensor want = of.expected(), got = of.made({want.dtype(), want.shape()});
    for (std::size_t i = 0; i < 7 * 33; ++i) {
      const float should = setup ? float(want.values<Float8E4M3FN>()[i]) : want.values<float>()[i];
      const float is = setup ? float(got.values<Float8E4M3FN>()[i]) : got.values<float>()[i];
      ASSERT_NEAR(is, should, (setup ? 0.13f : 1e-5f) * std::max(1.0f, std::abs(should))) << i;
    }
  }
}

TEST(Fp8LinearTest, BiasOfAnotherTypeIsLeftToTheOperator) {
  Graph graph;
  const auto add = [&](const Tensor& constant, DType dtype, const Shape& shape) {
    Value value{.name = std::to_string(graph.values.size()), .dtype = dtype};
    value.dims.emplace();
    for (const std::int64_t size : shape) value.dims->push_back({size, ""});
    value.constant = constant;
    graph.values.push_back(std::move(value));
    return static_cast<ValueId>(graph.values.size() - 1);
  };
  const auto constant = [&](DType dtype, const Shape& shape) {
    const Tensor zeros(dtype, shape);
    std::memset(zeros.data(), 0, zeros.bytes());
    return add(zeros, dtype, shape);
  };
  const ValueId x = add({}, DType::f8e4m3fn, {4, 8}), w = constant(DType::f8e4m3fn, {8, 16});
  const ValueId scale = constant(DType::f32, {16}), y = add({}, DType::f32, {4, 16});
  compute::Workers workers(1);
  Context context(workers);
  for (const auto& [bias, ours] : {std::pair{DType::f32, true}, {DType::f16, false}}) {
    Node node = fused("QuantizedLinear", "", {}, {});
    node.inputs = {x, w, constant(bias, {16}), kNoValue, scale};
    node.outputs = {y};
    EXPECT_EQ(make_kernel(graph, node, context)->name() != "operator", ours) << to_string(bias);
  }
}

TEST(Int8QuantizeTest, QuantizeAndDequantizeMatchTheirOperators) {
  for_each_target([] {
    for (const DType type : {DType::u8, DType::i8}) {
      Case steps{.node = {.name = "", .op = "QuantizeLinear", .domain = "", .version = 13},
                 .inputs = {}};
      const Tensor zero =
          type == DType::u8 ? Tensor::of(std::uint8_t{99}) : Tensor::of(std::int8_t{-9});
      steps.inputs = {random_tensor<float>({3, 71}, 1, -900, 900, 0.01f), Tensor::of(0.037f), zero};
      expect_same(steps);
      for (std::size_t i = 0; i < 213; i += 20) steps.inputs[0].values<float>()[i] = NAN;
      expect_same(steps);
      for (std::size_t i = 1; i < 213; i += 20) steps.inputs[0].values<float>()[i] = 0;
      steps.inputs[1] = Tensor::of(1e-42f);  // its inverse is infinite
      expect_same(steps);
      Case back{.node = {.name = "", .op = "DequantizeLinear", .domain = "", .version = 13},
                .inputs = {random_bytes(type, {3, 71}, 2), Tensor::of(0.037f), zero}};
      expect_same(back);
    }
  });
}

}  // namespace
}  // namespace sluice::engine::cpu
