#include <limits>
#include <random>

#include "engine/exec/cpu/gemm_for_tests.h"
#include "engine/exec/cpu/kernel_for_tests.h"
#include "engine/graph/fused_ops.h"

namespace sluice::engine::cpu {
namespace {

using Op = Chain::Op;

Node chain_node(const Chain& chain) {
  Node node = fused_node("Chain", {});
  write(chain, node.attributes);
  return node;
}

Chain random_chain(int inputs, int instructions, std::mt19937& random) {
  // Operators with small results and without discontinuities.
  constexpr Op kSafe[] = {Op::add,  Op::subtract, Op::multiply,  Op::minimum, Op::maximum,
                          Op::tanh, Op::sigmoid,  Op::gelu_tanh, Op::sine,    Op::absolute,
                          Op::relu, Op::constant, Op::gelu,      Op::silu,    Op::error_function};
  Chain chain{inputs, {}};
  for (int i = 0; i < instructions; ++i) {
    const auto any = [&] { return static_cast<int>(random() % static_cast<unsigned>(inputs + i)); };
    const Op op = i + 1 == instructions ? Op::add : kSafe[random() % std::size(kSafe)];
    Chain::Instruction instruction{op};
    if (op == Op::constant) instruction.value = 0.37f * static_cast<float>(random() % 5);
    if (Chain::operands(op) > 0) instruction.a = any();
    if (Chain::operands(op) > 1) instruction.b = any();
    chain.instructions.push_back(instruction);
    if (op == Op::multiply || op == Op::add || op == Op::subtract) {
      chain.instructions.push_back({Op::tanh, inputs + i});
      ++i;
    }
  }
  return chain;
}

TEST(ChainKernelTest, AnyChainWithBroadcastInputsMatchesTheOperator) {
  std::mt19937 random(5);
  const std::vector<std::vector<Shape>> shapes = {
      {{3, 700}, {3, 700}},
      {{2, 5, 1030}, {1030}, {}},
      {{4, 6, 50}, {4, 1, 50}, {6, 1}},
      {{2, 3, 4, 5}, {3, 1, 1}, {2, 1, 1, 5}, {1, 3, 4, 5}},
      {{1}, {}},
      {{1, 7}, {9, 1}},
      {{40000}, {1}},
  };
  for (int round = 0; round < 10; ++round)
    for (const std::vector<Shape>& set : shapes) {
      std::vector<Tensor> inputs;
      for (const Shape& shape : set)
        inputs.push_back(varied(shape, static_cast<unsigned>(random())));
      const Chain chain = random_chain(static_cast<int>(set.size()), 1 + round * 2, random);
      const KernelTest test(chain_node(chain), inputs);
      ASSERT_EQ(test.kernel().name(), "elementwise");
      EXPECT_LT(test.difference(), 1e-5) << to_string(set[0]) << " in round " << round;
      if (test.kernel().in_place() >= 0) {
        EXPECT_LT(KernelTest::difference(test.run(true), test.expected()), 1e-5);
      }
    }
}

TEST(ChainKernelTest, EachStepMatchesItsOperator) {
  const Tensor x = varied({1, 101}), y = varied({101}, 2);
  for (float& value : x.values<float>()) value = std::fabs(value) * 3 + 0.01f;
  for (int op = 1; op <= static_cast<int>(Op::cosine); ++op) {
    Chain chain{2, {{static_cast<Op>(op), 0, -1}}};
    if (Chain::operands(static_cast<Op>(op)) == 2) chain.instructions[0].b = 1;
    for_each_target([&] {
      EXPECT_LT(KernelTest(chain_node(chain), {x, y}).difference(), 2e-6)
          << Chain::name(static_cast<Op>(op));
    });
  }
}

TEST(ChainKernelTest, SmallPowersAreMultiplications) {
  for (const float exponent : {2.0f, 3.0f, 0.5f, -1.0f, 1.7f}) {
    const Tensor x = varied({77});
    for (float& value : x.values<float>()) value = std::fabs(value) + 0.1f;
    const Chain chain{1, {{Op::constant, -1, -1, exponent}, {Op::power, 0, 1}}};
    EXPECT_LT(KernelTest(chain_node(chain), {x}).difference(), 1e-6) << exponent;
  }
}

TEST(ChainKernelTest, SingleOperatorsAreChainsOfOneStep) {
  const Tensor x = varied({5, 60}), y = varied({60}, 3), low = Tensor::of(-0.25f);
  struct Case {
    Node node;
    std::vector<Tensor> inputs;
  };
  const Case cases[] = {
      {onnx_node("Add", 14), {x, y}},
      {onnx_node("Max", 13), {x, y, low}},
      {onnx_node("Pow", 15), {x, Tensor::of(2.0f)}},
      {onnx_node("Clip", 13), {x, low, Tensor::of(0.5f)}},
      {onnx_node("Clip", 13), {x, Tensor(), Tensor::of(0.5f)}},
      {onnx_node("Clip", 6, {{"min", -0.1f}}), {x}},
      {onnx_node("Gelu", 20, {{"approximate", std::string("tanh")}}), {x}},
      {onnx_node("LeakyRelu", 16, {{"alpha", 0.3f}}), {x}},
      {onnx_node("HardSigmoid", 6, {{"alpha", 0.9f}}), {x}},
  };
  for (const Case& c : cases) {
    const KernelTest test(c.node, c.inputs);
    EXPECT_EQ(test.kernel().name(), "elementwise") << c.node.op;
    EXPECT_LT(test.difference(), 1e-6) << c.node.op;
  }
}

TEST(ChainKernelTest, NanStaysNan) {
  const float none = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = tensor_of<float>({2}, {none, 1}), y = tensor_of<float>({2}, {1, none});
  for (const char* op : {"Min", "Max", "Add"}) {
    const Tensor z = KernelTest(onnx_node(op, 14), {x, y}).run();
    EXPECT_TRUE(std::isnan(z.values<float>()[0]) && std::isnan(z.values<float>()[1])) << op;
  }
  for (const char* op : {"Relu", "Tanh", "Exp", "Erf", "Sigmoid", "HardSwish"})
    EXPECT_TRUE(std::isnan(KernelTest(onnx_node(op, 14), {x}).run().values<float>()[0])) << op;
}

TEST(ChainTest, SerializationRoundTripIsExact) {
  const Chain chain{2, {{Op::constant, -1, -1, 0.1f}, {Op::add, 0, 2}, {Op::relu, 3}}};
  Attributes written;
  write(chain, written);
  EXPECT_EQ(written.strings("code"), (Attributes::Strings{"constant 0.1", "add 0 2", "relu 3"}));
  const Chain read = chain_of(written, 2);
  EXPECT_EQ(read.instructions[0].value, 0.1f);
  EXPECT_EQ(read.instructions[1].b, 2);
}

TEST(ChainTest, BrokenCodeIsRefused) {
  for (const char* code : {"add 0", "add 0 1 2", "add 0 9", "fly 0", "relu x", "relu -1",
                           "constant", "constant 1x", "relu 2", ""}) {
    Attributes attributes;
    attributes.set("code", Attributes::Strings{code});
    EXPECT_THROW(chain_of(attributes, 2), Error) << code;
  }
  EXPECT_THROW(chain_of(Attributes(), 2), Error);
}

}  // namespace
}  // namespace sluice::engine::cpu
