#include <gmock/gmock.h>

#include "engine/passes/model_for_tests.h"
#include "engine/quantize/quantize_weights.h"

namespace sluice::engine {
namespace {

using testing::ElementsAre;
using Ints = Attributes::Integers;

// A model whose products are between QuantizeLinear and DequantizeLinear.
class SmallModel : public Model {
 public:
  ValueId small(ValueId x, float scale = 0.01f, std::uint8_t zero = 100) {
    return op("QuantizeLinear", {x, number(scale), constant(Tensor::of(zero))});
  }
  ValueId wide(ValueId q, float scale = 0.01f, std::uint8_t zero = 100) {
    return op("DequantizeLinear", {q, number(scale), constant(Tensor::of(zero))});
  }
  ValueId rounded(ValueId x) { return wide(small(x)); }
  ValueId small_weights(const Shape& shape, int axis) {
    const SmallWeights made = int8_weights(varied(shape, ++seed_), axis);
    return op("DequantizeLinear", {constant(made.values), constant(made.scales)},
              {{"axis", std::int64_t{axis}}});
  }

 private:
  unsigned seed_ = 7;
};

TEST(QuantizedPassTest, AProductWithBiasAndActivationAndStepsIsOneNode) {
  SmallModel m;
  const ValueId x = m.input(varied({4, 16}));
  const ValueId product = m.op("MatMul", {m.rounded(x), m.small_weights({16, 8}, 1)});
  const ValueId sum = m.op("Add", {product, m.weights({8})});
  m.output(m.rounded(m.op("Relu", {sum})));
  Graph made;
  EXPECT_THAT(optimized_ops(m, &made),
              ElementsAre("QuantizeLinear", "sluice.QuantizedLinear", "DequantizeLinear"));
  EXPECT_EQ(made.nodes[1].attributes.string("activation", ""), "relu");
  EXPECT_EQ(type_of(made[made.nodes[1].outputs[0]]).dtype, DType::u8);
}

TEST(QuantizedPassTest, StepsOfNoUsefulScaleAreMadeApart) {
  for (const float scale : {-0.01f, 1e-44f}) {
    SmallModel m;
    const ValueId x = m.input(varied({4, 16}));
    const ValueId product = m.op("MatMul", {m.rounded(x), m.small_weights({16, 8}, 1)});
    m.output(m.wide(m.small(product, scale), scale));
    EXPECT_THAT(optimized_ops(m), ElementsAre("QuantizeLinear", "sluice.QuantizedLinear",
                                              "QuantizeLinear", "DequantizeLinear"));
  }
}

TEST(QuantizedPassTest, AGemmWithTurnedWeightsAndBiasIsOneNode) {
  SmallModel m;
  const ValueId x = m.input(varied({4, 16}));
  m.output(m.op("Gemm", {m.rounded(x), m.small_weights({8, 16}, 0), m.weights({8})},
                {{"transB", std::int64_t{1}}, {"alpha", 0.5f}, {"beta", 2.0f}}));
  EXPECT_THAT(optimized_ops(m), ElementsAre("QuantizeLinear", "sluice.QuantizedLinear"));
}

TEST(QuantizedPassTest, AResidualThatIsUsedAsFloatsStaysWide) {
  SmallModel m;
  const ValueId x = m.input(varied({4, 16}));
  const ValueId product = m.op("MatMul", {m.rounded(x), m.small_weights({16, 16}, 1)});
  m.output(m.op("Add", {x, product}));
  Graph made;
  EXPECT_THAT(optimized_ops(m, &made), ElementsAre("QuantizeLinear", "sluice.QuantizedLinear"));
  EXPECT_EQ(type_of(made[made.nodes[1].inputs[3]]).dtype, DType::f32);
}

TEST(QuantizedPassTest, ABlockOfConvolutionsStaysInBytes) {
  SmallModel m;
  const ValueId x = m.input(varied({2, 8, 6, 6}));
  const Model::Settings padded{{"pads", Ints{1, 1, 1, 1}}};
  const ValueId in =
      m.rounded(m.op("Conv", {m.rounded(x), m.small_weights({8, 8, 3, 3}, 0)}, padded));
  const ValueId first =
      m.op("Relu", {m.op("Conv", {in, m.small_weights({8, 8, 3, 3}, 0), m.weights({8})}, padded)});
  const ValueId second = m.op("Conv", {m.rounded(first), m.small_weights({8, 8, 1, 1}, 0)});
  m.output(m.rounded(m.op("Relu", {m.op("Add", {second, in})})));
  Graph made;
  EXPECT_THAT(
      optimized_ops(m, &made),
      ElementsAre("QuantizeLinear", "Transpose", "sluice.QuantizedConv", "sluice.QuantizedConv",
                  "sluice.QuantizedConv", "DequantizeLinear", "Transpose"));
  EXPECT_EQ(type_of(made[made.nodes[4].inputs[3]]).dtype, DType::u8);
  EXPECT_EQ(type_of(made[made.nodes[4].outputs[0]]).dtype, DType::u8);
}

TEST(QuantizedPassTest, APoolOfBytesKeepsThemWithChannelsLast) {
  SmallModel m;
  const ValueId x = m.input(varied({2, 8, 6, 6}));
  const ValueId in = m.small(m.op("Conv", {m.rounded(x), m.small_weights({8, 8, 3, 3}, 0)}));
  const ValueId most = m.op("MaxPool", {in}, {{"kernel_shape", Ints{2, 2}}});
  m.output(m.op("Conv", {m.wide(most), m.small_weights({8, 8, 1, 1}, 0)}));
  Graph made;
  EXPECT_THAT(optimized_ops(m, &made),
              ElementsAre("QuantizeLinear", "Transpose", "sluice.QuantizedConv", "sluice.MaxPool",
                          "sluice.QuantizedConv", "Transpose"));
  EXPECT_EQ(type_of(made[made.nodes[3].outputs[0]]).dtype, DType::u8);
}

// A pool with padding between two convolutions, its result in steps, on CUDA.
class PoolOfSteps : public testing::Test {
 protected:
  ValueId input() { return m.small(m.input(varied({2, 8, 9, 8}))); }
  ValueId conv(ValueId small, std::int64_t side) {
    return m.op("Conv", {m.wide(small), m.small_weights({8, 8, side, side}, 0)});
  }
  ValueId pool(ValueId x, std::int64_t ceil = 0) {
    return m.op("MaxPool", {x},
                {{"kernel_shape", Ints{3, 3}},
                 {"strides", Ints{2, 2}},
                 {"pads", Ints{1, 1, 1, 1}},
                 {"ceil_mode", ceil}});
  }
  std::vector<std::string> ops(ValueId result) {
    m.output(result);
    return optimized_ops(m, &made, Backend::cuda);
  }

  SmallModel m;
  Graph made;
};

TEST_F(PoolOfSteps, TheConvolutionBeforeItMakesTheSteps) {
  for (const std::int64_t ceil : {0, 1}) {
    m = SmallModel();
    const ValueId most = pool(m.op("Relu", {conv(input(), 3)}), ceil);
    EXPECT_THAT(ops(conv(m.small(most, 0.02f, 7), 1)),
                ElementsAre("QuantizeLinear", "Transpose", "sluice.QuantizedConv", "sluice.MaxPool",
                            "sluice.QuantizedConv", "Transpose"));
    EXPECT_EQ(type_of(made[made.nodes[3].inputs[0]]).dtype, DType::u8);
    EXPECT_EQ(type_of(made[made.nodes[3].outputs[0]]).dtype, DType::u8);
  }
}

TEST_F(PoolOfSteps, TheSameStepsBeforeItArePooledAsTheyAre) {
  const ValueId before = m.small(conv(input(), 3), 0.03f, 50);
  const ValueId after = m.small(pool(m.wide(before, 0.03f, 50)), 0.03f, 50);
  EXPECT_THAT(ops(conv(after, 1)),
              ElementsAre("QuantizeLinear", "Transpose", "sluice.QuantizedConv", "sluice.MaxPool",
                          "sluice.QuantizedConv", "Transpose"));
}

TEST_F(PoolOfSteps, OtherStepsBeforeItAreMadeWide) {
  const ValueId before = m.small(conv(input(), 3), 0.03f, 50);
  const ValueId after = m.small(pool(m.wide(before, 0.03f, 50)), 0.02f, 50);
  EXPECT_THAT(ops(conv(after, 1)), testing::Contains("DequantizeLinear"));
}

TEST_F(PoolOfSteps, WhatIsUsedElsewhereIsNotPooledInSteps) {
  const ValueId image = conv(input(), 3), most = pool(image);
  m.output(conv(m.small(most), 1));
  ops(m.op("Tanh", {image}));
  const auto pools = std::find_if(made.nodes.begin(), made.nodes.end(),
                                  [](const Node& node) { return node.op == "MaxPool"; });
  ASSERT_NE(pools, made.nodes.end());
  EXPECT_EQ(type_of(made[pools->outputs[0]]).dtype, DType::f32);
}

TEST_F(PoolOfSteps, OnTheCpuItIsOfNumbers) {
  m.output(conv(m.small(pool(conv(input(), 3))), 1));
  EXPECT_THAT(optimized_ops(m),
              ElementsAre("QuantizeLinear", "Transpose", "sluice.QuantizedConv", "sluice.MaxPool",
                          "QuantizeLinear", "sluice.QuantizedConv", "Transpose"));
}

// A norm whose result is added and multiplied, the latter in steps.
SmallModel norm_in_steps() {
  SmallModel m;
  const ValueId x = m.input(varied({4, 16})), more = m.input(varied({4, 16}, 5));
  const ValueId y =
      m.op("LayerNormalization", {m.op("Add", {x, more}), m.weights({16}), m.weights({16})});
  const ValueId product = m.op("MatMul", {m.rounded(y), m.small_weights({16, 16}, 1)});
  m.output(m.op("Add", {y, product}));
  return m;
}

TEST(QuantizedPassTest, ANormMakesItsStepsOnCuda) {
  Graph made;
  EXPECT_THAT(optimized_ops(norm_in_steps(), &made, Backend::cuda),
              ElementsAre("sluice.Norm", "sluice.QuantizedLinear"));
  EXPECT_EQ(type_of(made[made.nodes[0].outputs[0]]).dtype, DType::f32);
  EXPECT_EQ(type_of(made[made.nodes[0].outputs[1]]).dtype, DType::u8);
  EXPECT_EQ(made.nodes[1].inputs[0], made.nodes[0].outputs[1]);
  EXPECT_EQ(made.nodes[1].inputs[3], made.nodes[0].outputs[0]);
}

TEST(QuantizedPassTest, ANormThatIsNarrowMakesStepsOfNarrowNumbers) {
  const SmallModel m = norm_in_steps();
  Graph made;
  optimized_ops(m, &made, Backend::cuda);
  const Tensor want = run_plainly(made, m.given)[0];
  Editor edit(made);
  to_precision(edit, DType::f16);
  edit.finish();
  const auto norm = std::find_if(made.nodes.begin(), made.nodes.end(),
                                 [](const Node& node) { return node.op == "Norm"; });
  ASSERT_NE(norm, made.nodes.end());
  EXPECT_EQ(type_of(made[norm->outputs[0]]).dtype, DType::f16);
  EXPECT_EQ(type_of(made[norm->outputs[1]]).dtype, DType::u8);
  expect_near(run_plainly(made, m.given)[0], want, 0.03f);
}

TEST(QuantizedPassTest, OnTheCpuANormMakesNumbersAlone) {
  EXPECT_THAT(optimized_ops(norm_in_steps()),
              ElementsAre("sluice.Norm", "QuantizeLinear", "sluice.QuantizedLinear"));
}

TEST(QuantizedPassTest, WhatIsAroundSmallProductsMayBeNarrow) {
  SmallModel m;
  const ValueId x = m.input(varied({4, 16}));
  const ValueId product = m.op("MatMul", {m.rounded(x), m.small_weights({16, 16}, 1)});
  m.output(m.op("Tanh", {m.op("Add", {x, m.op("Add", {product, m.weights({16})})})}));
  Graph made;
  optimized_ops(m, &made);
  const Tensor want = run_plainly(made, m.given)[0];
  Editor edit(made);
  to_precision(edit, DType::f16);
  edit.finish();
  const auto product_node =
      std::find_if(made.nodes.begin(), made.nodes.end(),
                   [](const Node& node) { return node.op == "QuantizedLinear"; });
  ASSERT_NE(product_node, made.nodes.end());
  EXPECT_EQ(type_of(made[product_node->outputs[0]]).dtype, DType::f16);
  EXPECT_EQ(type_of(made[product_node->inputs[3]]).dtype, DType::f16);
  EXPECT_EQ(type_of(made[product_node->inputs[4]]).dtype, DType::f32);
  expect_near(run_plainly(made, m.given)[0], want, 0.02f);
}

TEST(QuantizedPassTest, WeightsAloneBecomeWideOnceAndForAll) {
  SmallModel m;
  const ValueId x = m.input(varied({4, 16}));
  m.output(m.op("MatMul", {x, m.small_weights({16, 8}, 1)}));
  EXPECT_THAT(optimized_ops(m), ElementsAre("sluice.Linear"));
}

TEST(QuantizedPassTest, WhatHasNoSmallProductRunsAsItIs) {
  SmallModel m;
  const ValueId x = m.input(varied({4, 16}));
  m.output(m.op("Softmax", {m.rounded(x)}));
  EXPECT_THAT(optimized_ops(m), ElementsAre("QuantizeLinear", "DequantizeLinear", "Softmax"));
}

}  // namespace
}  // namespace sluice::engine
