#include "engine/exec/cpu/gemm_for_tests.h"
#include "engine/exec/cpu/kernel_for_tests.h"

namespace sluice::engine::cpu {
namespace {

using Integer = std::int64_t;

TEST(NormKernelTest, MatchesTheOperatorForAnyLengthResidualAndBias) {
  for (const Integer n : {1, 3, 16, 31, 64, 384, 769}) {
    const Tensor x = varied({3, 5, n}), r = varied({3, 5, n}, 2), scale = varied({n}, 3);
    const Tensor bias = varied({n}, 4);
    for (const auto& inputs : std::vector<std::vector<Tensor>>{
             {x, r, scale, bias}, {x, Tensor(), scale, bias}, {x, r, scale}}) {
      for_each_target([&] {
        const KernelTest test(fused_node("Norm", {{"epsilon", 1e-3f}}), inputs);
        EXPECT_EQ(test.kernel().name().substr(0, 10), "layer norm");
        EXPECT_LT(test.difference(), 2e-5) << n;
        EXPECT_LT(KernelTest::difference(test.run(true), test.expected()), 2e-5) << n;
      });
    }
  }
}

TEST(NormKernelTest, SmallDifferencesOnLargeValuesAreKept) {
  const Tensor x = varied({2, 100});
  for (float& value : x.values<float>()) value = value / 16 + 1000;
  const Tensor scale = varied({100}, 2);
  EXPECT_LT(KernelTest(fused_node("Norm", {}), {x, Tensor(), scale}).difference(), 1e-2);
}

TEST(NormKernelTest, LayerNormalizationNormalizesFromItsAxisOn) {
  const Tensor x = varied({4, 3, 7}), scale = varied({3, 7}, 2), bias = varied({3, 7}, 3);
  const KernelTest test(onnx_node("LayerNormalization", 17, {{"axis", Integer{1}}}),
                        {x, scale, bias});
  EXPECT_EQ(test.kernel().name(), "layer norm");
  EXPECT_LT(test.difference(), 2e-5);
}

TEST(NormKernelTest, SoftmaxMatchesTheOperatorAlongTheLastAxes) {
  for (const Integer n : {1, 2, 15, 17, 48, 1000}) {
    const Tensor x = varied({2, 3, n}, 9);
    for (float& value : x.values<float>()) value *= 40;
    for_each_target([&] {
      const KernelTest last(onnx_node("Softmax", 13), {x});
      EXPECT_EQ(last.kernel().name(), "softmax");
      EXPECT_LT(last.difference(), 1e-6) << n;
      EXPECT_LT(KernelTest::difference(last.run(true), last.expected()), 1e-6) << n;
    });
    const KernelTest flat(onnx_node("Softmax", 11), {x});
    EXPECT_EQ(flat.kernel().name(), "softmax");
    EXPECT_LT(flat.difference(), 1e-6) << n;
  }
  EXPECT_EQ(KernelTest(onnx_node("Softmax", 13, {{"axis", Integer{1}}}), {varied({2, 3, 4})})
                .kernel()
                .name(),
            "operator");
}

}  // namespace
}  // namespace sluice::engine::cpu
