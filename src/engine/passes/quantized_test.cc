#include <gmock/gmock.h>

#include "engine/passes/model_for_tests.h"
#include "engine/quantize/quantize_weights.h"

namespace sluice::engine {
namespace {

using testing::ElementsAre;
using Ints = Attributes::Integers;

// A model whose GEMMs are surrounded by QuantizeLinear and DequantizeLinear.
class QuantizedModel : public Model {
 public:
  ValueId quantize(ValueId x, float scale = 0.01f, std::uint8_t zero = 100) {
    return op("QuantizeLinear", {x, number(scale), constant(Tensor::of(zero))});
  }
  ValueId dequantize(ValueId q, float scale = 0.01f, std::uint8_t zero = 100) {
    return op("DequantizeLinear", {q, number(scale), constant(Tensor::of(zero))});
  }
  ValueId quantize_dequantize(ValueId x) { return dequantize(quantize(x)); }
  ValueId int8_weights_of(const Shape& shape, int axis) {
    const QuantizedWeights made = int8_weights(varied(shape, ++seed_), axis);
    return op("DequantizeLinear", {constant(made.values), constant(made.scales)},
              {{"axis", std::int64_t{axis}}});
  }

 private:
  unsigned seed_ = 7;
};

TEST(QuantizedPassTest, GemmWithBiasActivationAndQuantizeIsFused) {
  QuantizedModel m;
  const ValueId x = m.input(varied({4, 16}));
  const ValueId matmul = m.op("MatMul", {m.quantize_dequantize(x), m.int8_weights_of({16, 8}, 1)});
  const ValueId sum = m.op("Add", {matmul, m.weights({8})});
  m.output(m.quantize_dequantize(m.op("Relu", {sum})));
  Graph made;
  EXPECT_THAT(optimized_ops(m, &made),
              ElementsAre("QuantizeLinear", "sluice.QuantizedLinear", "DequantizeLinear"));
  EXPECT_EQ(made.nodes[1].attributes.string("activation", ""), "relu");
  EXPECT_EQ(type_of(made[made.nodes[1].outputs[0]]).dtype, DType::u8);
}

TEST(QuantizedPassTest, QuantizeWithInvalidScaleIsNotFused) {
  for (const float scale : {-0.01f, 1e-44f}) {
    QuantizedModel m;
    const ValueId x = m.input(varied({4, 16}));
    const ValueId matmul =
        m.op("MatMul", {m.quantize_dequantize(x), m.int8_weights_of({16, 8}, 1)});
    m.output(m.dequantize(m.quantize(matmul, scale), scale));
    EXPECT_THAT(optimized_ops(m), ElementsAre("QuantizeLinear", "sluice.QuantizedLinear",
                                              "QuantizeLinear", "DequantizeLinear"));
  }
}

TEST(QuantizedPassTest, GemmWithTransposedWeightsAndBiasIsFused) {
  QuantizedModel m;
  const ValueId x = m.input(varied({4, 16}));
  m.output(m.op("Gemm", {m.quantize_dequantize(x), m.int8_weights_of({8, 16}, 0), m.weights({8})},
                {{"transB", std::int64_t{1}}, {"alpha", 0.5f}, {"beta", 2.0f}}));
  EXPECT_THAT(optimized_ops(m), ElementsAre("QuantizeLinear", "sluice.QuantizedLinear"));
}

TEST(QuantizedPassTest, ResidualsUsedAsFloatsStayDequantized) {
  QuantizedModel m;
  const ValueId x = m.input(varied({4, 16}));
  const ValueId matmul = m.op("MatMul", {m.quantize_dequantize(x), m.int8_weights_of({16, 16}, 1)});
  m.output(m.op("Add", {x, matmul}));
  Graph made;
  EXPECT_THAT(optimized_ops(m, &made), ElementsAre("QuantizeLinear", "sluice.QuantizedLinear"));
  EXPECT_EQ(type_of(made[made.nodes[1].inputs[3]]).dtype, DType::f32);
}

TEST(QuantizedPassTest, ConvolutionBlocksStayQuantized) {
  QuantizedModel m;
  const ValueId x = m.input(varied({2, 8, 6, 6}));
  const Model::Settings padded{{"pads", Ints{1, 1, 1, 1}}};
  const ValueId in = m.quantize_dequantize(
      m.op("Conv", {m.quantize_dequantize(x), m.int8_weights_of({8, 8, 3, 3}, 0)}, padded));
  const ValueId first = m.op(
      "Relu", {m.op("Conv", {in, m.int8_weights_of({8, 8, 3, 3}, 0), m.weights({8})}, padded)});
  const ValueId second =
      m.op("Conv", {m.quantize_dequantize(first), m.int8_weights_of({8, 8, 1, 1}, 0)});
  m.output(m.quantize_dequantize(m.op("Relu", {m.op("Add", {second, in})})));
  Graph made;
  EXPECT_THAT(
      optimized_ops(m, &made),
      ElementsAre("QuantizeLinear", "Transpose", "sluice.QuantizedConv", "sluice.QuantizedConv",
                  "sluice.QuantizedConv", "DequantizeLinear", "Transpose"));
  EXPECT_EQ(type_of(made[made.nodes[4].inputs[3]]).dtype, DType::u8);
  EXPECT_EQ(type_of(made[made.nodes[4].outputs[0]]).dtype, DType::u8);
}

TEST(QuantizedPassTest, Int8PoolsStayQuantizedWithChannelsLast) {
  QuantizedModel m;
  const ValueId x = m.input(varied({2, 8, 6, 6}));
  const ValueId in =
      m.quantize(m.op("Conv", {m.quantize_dequantize(x), m.int8_weights_of({8, 8, 3, 3}, 0)}));
  const ValueId max = m.op("MaxPool", {in}, {{"kernel_shape", Ints{2, 2}}});
  m.output(m.op("Conv", {m.dequantize(max), m.int8_weights_of({8, 8, 1, 1}, 0)}));
  Graph made;
  EXPECT_THAT(optimized_ops(m, &made),
              ElementsAre("QuantizeLinear", "Transpose", "sluice.QuantizedConv", "sluice.MaxPool",
                          "sluice.QuantizedConv", "Transpose"));
  EXPECT_EQ(type_of(made[made.nodes[3].outputs[0]]).dtype, DType::u8);
}

// A padded pool between two convolutions with a quantized result, on CUDA.
class QuantizedPoolTest : public testing::Test {
 protected:
  ValueId input() { return m.quantize(m.input(varied({2, 8, 9, 8}))); }
  ValueId conv(ValueId quantized, std::int64_t side) {
    return m.op("Conv", {m.dequantize(quantized), m.int8_weights_of({8, 8, side, side}, 0)});
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

  QuantizedModel m;
  Graph made;
};

TEST_F(QuantizedPoolTest, PrecedingConvolutionQuantizesItsOutput) {
  for (const std::int64_t ceil : {0, 1}) {
    m = QuantizedModel();
    const ValueId max = pool(m.op("Relu", {conv(input(), 3)}), ceil);
    EXPECT_THAT(ops(conv(m.quantize(max, 0.02f, 7), 1)),
                ElementsAre("QuantizeLinear", "Transpose", "sluice.QuantizedConv", "sluice.MaxPool",
                            "sluice.QuantizedConv", "Transpose"));
    EXPECT_EQ(type_of(made[made.nodes[3].inputs[0]]).dtype, DType::u8);
    EXPECT_EQ(type_of(made[made.nodes[3].outputs[0]]).dtype, DType::u8);
  }
}

TEST_F(QuantizedPoolTest, EquallyQuantizedInputIsPooledDirectly) {
  const ValueId before = m.quantize(conv(input(), 3), 0.03f, 50);
  const ValueId after = m.quantize(pool(m.dequantize(before, 0.03f, 50)), 0.03f, 50);
  EXPECT_THAT(ops(conv(after, 1)),
              ElementsAre("QuantizeLinear", "Transpose", "sluice.QuantizedConv", "sluice.MaxPool",
                          "sluice.QuantizedConv", "Transpose"));
}

TEST_F(QuantizedPoolTest, DifferentlyQuantizedInputIsDequantized) {
  const ValueId before = m.quantize(conv(input(), 3), 0.03f, 50);
  const ValueId after = m.quantize(pool(m.dequantize(before, 0.03f, 50)), 0.02f, 50);
  EXPECT_THAT(ops(conv(after, 1)), testing::Contains("DequantizeLinear"));
}

TEST_F(QuantizedPoolTest, ValuesWithOtherUsersAreNotPooledQuantized) {
  const ValueId image = conv(input(), 3), max = pool(image);
  m.output(conv(m.quantize(max), 1));
  ops(m.op("Tanh", {image}));
  const auto pools = std::find_if(made.nodes.begin(), made.nodes.end(),
                                  [](const Node& node) { return node.op == "MaxPool"; });
  ASSERT_NE(pools, made.nodes.end());
  EXPECT_EQ(type_of(made[pools->outputs[0]]).dtype, DType::f32);
}

TEST_F(QuantizedPoolTest, CpuPoolsFloats) {
  m.output(conv(m.quantize(pool(conv(input(), 3))), 1));
  EXPECT_THAT(optimized_ops(m),
              ElementsAre("QuantizeLinear", "Transpose", "sluice.QuantizedConv", "sluice.MaxPool",
                          "QuantizeLinear", "sluice.QuantizedConv", "Transpose"));
}

// A norm whose result is used by an Add and by a quantized GEMM.
QuantizedModel norm_of_nodes() {
  QuantizedModel m;
  const ValueId x = m.input(varied({4, 16})), more = m.input(varied({4, 16}, 5));
  const ValueId y =
      m.op("LayerNormalization", {m.op("Add", {x, more}), m.weights({16}), m.weights({16})});
  const ValueId matmul = m.op("MatMul", {m.quantize_dequantize(y), m.int8_weights_of({16, 16}, 1)});
  m.output(m.op("Add", {y, matmul}));
  return m;
}

TEST(QuantizedPassTest, NormQuantizesItsOutputOnCuda) {
  Graph made;
  EXPECT_THAT(optimized_ops(norm_of_nodes(), &made, Backend::cuda),
              ElementsAre("sluice.Norm", "sluice.QuantizedLinear"));
  EXPECT_EQ(type_of(made[made.nodes[0].outputs[0]]).dtype, DType::f32);
  EXPECT_EQ(type_of(made[made.nodes[0].outputs[1]]).dtype, DType::u8);
  EXPECT_EQ(made.nodes[1].inputs[0], made.nodes[0].outputs[1]);
  EXPECT_EQ(made.nodes[1].inputs[3], made.nodes[0].outputs[0]);
}

TEST(QuantizedPassTest, HalfPrecisionNormQuantizesHalfPrecisionValues) {
  const QuantizedModel m = norm_of_nodes();
  Graph made;
  optimized_ops(m, &made, Backend::cuda);
  const Tensor want = run_plainly(made, m.given)[0];
  GraphEditor edit(made);
  to_precision(edit, DType::f16);
  edit.finish();
  const auto norm = std::find_if(made.nodes.begin(), made.nodes.end(),
                                 [](const Node& node) { return node.op == "Norm"; });
  ASSERT_NE(norm, made.nodes.end());
  EXPECT_EQ(type_of(made[norm->outputs[0]]).dtype, DType::f16);
  EXPECT_EQ(type_of(made[norm->outputs[1]]).dtype, DType::u8);
  expect_near(run_plainly(made, m.given)[0], want, 0.03f);
}

TEST(QuantizedPassTest, CpuNormHasOneFloatOutput) {
  EXPECT_THAT(optimized_ops(norm_of_nodes()),
              ElementsAre("sluice.Norm", "QuantizeLinear", "sluice.QuantizedLinear"));
}

TEST(QuantizedPassTest, NodesAroundQuantizedGemmsMayBeHalfPrecision) {
  QuantizedModel m;
  const ValueId x = m.input(varied({4, 16}));
  const ValueId matmul = m.op("MatMul", {m.quantize_dequantize(x), m.int8_weights_of({16, 16}, 1)});
  m.output(m.op("Tanh", {m.op("Add", {x, m.op("Add", {matmul, m.weights({16})})})}));
  Graph made;
  optimized_ops(m, &made);
  const Tensor want = run_plainly(made, m.given)[0];
  GraphEditor edit(made);
  to_precision(edit, DType::f16);
  edit.finish();
  const auto gemm_node = std::find_if(made.nodes.begin(), made.nodes.end(), [](const Node& node) {
    return node.op == "QuantizedLinear";
  });
  ASSERT_NE(gemm_node, made.nodes.end());
  EXPECT_EQ(type_of(made[gemm_node->outputs[0]]).dtype, DType::f16);
  EXPECT_EQ(type_of(made[gemm_node->inputs[3]]).dtype, DType::f16);
  EXPECT_EQ(type_of(made[gemm_node->inputs[4]]).dtype, DType::f32);
  expect_near(run_plainly(made, m.given)[0], want, 0.02f);
}

TEST(QuantizedPassTest, WeightOnlyQuantizationIsDequantizedOnce) {
  QuantizedModel m;
  const ValueId x = m.input(varied({4, 16}));
  m.output(m.op("MatMul", {x, m.int8_weights_of({16, 8}, 1)}));
  EXPECT_THAT(optimized_ops(m), ElementsAre("sluice.Linear"));
}

TEST(QuantizedPassTest, GraphsWithoutQuantizedGemmsAreUnchanged) {
  QuantizedModel m;
  const ValueId x = m.input(varied({4, 16}));
  m.output(m.op("Softmax", {m.quantize_dequantize(x)}));
  EXPECT_THAT(optimized_ops(m), ElementsAre("QuantizeLinear", "DequantizeLinear", "Softmax"));
}

}  // namespace
}  // namespace sluice::engine
