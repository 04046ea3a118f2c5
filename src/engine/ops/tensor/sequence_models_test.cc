// Attention, signals, losses and optimizers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/ops/one_op_for_tests.h"

namespace sluice::engine {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

TEST(AttentionTest, LastQueryWithAPastMatchesFullAttention) {
  const Tensor q = varied({1, 1, 3, 4}), k = varied({1, 1, 3, 4}, 2), v = varied({1, 1, 3, 4}, 3);
  const auto rows = [](const Tensor& t, int from, int count) {
    const auto all = list_of<float>(t);
    return tensor_of<float>({1, 1, count, 4},
                            {all.begin() + from * 4, all.begin() + (from + count) * 4});
  };
  OneOp op("Attention", 23);
  op.set("is_causal", std::int64_t{1});
  const auto whole = list_of<float>(op.run({q, k, v})[0]);
  const auto step = op.run(
      {rows(q, 2, 1), rows(k, 2, 1), rows(v, 2, 1), Tensor(), rows(k, 0, 2), rows(v, 0, 2)}, 3);
  EXPECT_THAT(list_of<float>(step[0]),
              Pointwise(FloatNear(1e-6f), std::vector<float>(whole.end() - 4, whole.end())));
  EXPECT_EQ(list_of<float>(step[1]), list_of<float>(k));
}

TEST(AttentionTest, ShortMasksHideTrailingKeysSinceOpset24) {
  const Tensor q = varied({1, 1, 1, 2}), k = varied({1, 1, 2, 2}, 2);
  const Tensor v = tensor_of<float>({1, 1, 2, 1}, {3, 100});
  const Tensor mask = tensor_of<float>({1, 1}, {0});
  EXPECT_THAT(list_of<float>(OneOp("Attention", 24).run({q, k, v, mask})[0]), ElementsAre(3));
  EXPECT_GT(OneOp("Attention", 23).run({q, k, v, mask})[0].values<float>()[0], 3.5f);
}

TEST(AttentionTest, MismatchedHeadsAreRejected) {
  const Tensor q = varied({1, 3, 2, 4}), kv = varied({1, 2, 2, 4});
  EXPECT_THAT(OneOp("Attention", 23).refusal({q, kv, kv}), HasSubstr("3 heads of queries for 2"));
  EXPECT_THAT(OneOp("Attention", 23).refusal({varied({1, 2, 8}), kv, kv}), HasSubstr("in 0 heads"));
  EXPECT_THAT(OneOp("Attention", 23).refusal({kv, kv, kv, varied({3, 2})}), HasSubstr("a mask of"));
}

TEST(RotaryTest, PositionsOutsideTheCacheAreRejected) {
  const Tensor x = varied({1, 1, 1, 4}), angles = varied({3, 2});
  EXPECT_THAT(OneOp("RotaryEmbedding", 23)
                  .refusal({x, angles, angles, tensor_of<std::int64_t>({1, 1}, {3})}),
              HasSubstr("position 3 of 3"));
}

class DftTest : public ::testing::TestWithParam<int> {};

TEST_P(DftTest, InverseRestoresTheSignal) {
  const int n = GetParam();
  const Tensor x = varied({2, n, 1}), length = tensor_of<std::int64_t>({}, {n});
  for (const int one_sided : {0, 1}) {
    OneOp there("DFT", 20), back("DFT", 20);
    there.set("onesided", std::int64_t{one_sided});
    back.set("onesided", std::int64_t{one_sided}).set("inverse", std::int64_t{1});
    const Tensor spectrum = there.run({x})[0];
    ASSERT_EQ(spectrum.shape(), Shape({2, one_sided == 1 ? n / 2 + 1 : n, 2}));
    const Tensor again = back.run({spectrum, length})[0];
    const auto values = list_of<float>(again), from = list_of<float>(x);
    const std::size_t parts = one_sided == 1 ? 1 : 2;
    for (std::size_t i = 0; i < from.size(); ++i)
      EXPECT_NEAR(values[i * parts], from[i], 1e-6) << n << " at " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, DftTest, ::testing::Values(1, 2, 7, 12, 64, 90, 101));

TEST(DftTest, InvalidSettingsAreRejected) {
  const Tensor x = varied({1, 4, 2});
  EXPECT_THAT(OneOp("DFT", 20).set("onesided", std::int64_t{1}).refusal({x}),
              HasSubstr("only a real signal"));
  EXPECT_THAT(OneOp("DFT", 17).set("axis", std::int64_t{2}).refusal({x}), HasSubstr("last axis"));
  EXPECT_THAT(OneOp("DFT", 20).refusal({x, tensor_of<std::int64_t>({}, {-1})}),
              HasSubstr("length -1"));
  EXPECT_THAT(OneOp("STFT", 17)
                  .refusal({varied({1, 4, 1}), tensor_of<std::int64_t>({}, {0}), Tensor(),
                            tensor_of<std::int64_t>({}, {2})}),
              HasSubstr("each 0"));
}

TEST(WindowTest, SymmetricWindowsEndAsTheyBegin) {
  const Tensor size = tensor_of<std::int64_t>({}, {5});
  for (const char* name : {"HannWindow", "HammingWindow", "BlackmanWindow"}) {
    const auto values =
        list_of<float>(OneOp(name, 17).set("periodic", std::int64_t{0}).run({size})[0]);
    EXPECT_NEAR(values[0], values[4], 1e-7) << name;
    EXPECT_NEAR(values[2], 1, 1e-6) << name;
  }
}

TEST(LossTest, InvalidTargetsAreRejectedUnlessIgnored) {
  const Tensor x = varied({1, 3}), target = tensor_of<std::int64_t>({1}, {3});
  EXPECT_THAT(OneOp("SoftmaxCrossEntropyLoss", 13).refusal({x, target}),
              HasSubstr("target 3 of 3 classes"));
  OneOp op("SoftmaxCrossEntropyLoss", 13);
  op.set("ignore_index", std::int64_t{3}).set("reduction", std::string("sum"));
  EXPECT_THAT(list_of<float>(op.run({x, target})[0]), ElementsAre(0));
}

TEST(TrainingTest, FirstMomentumStepUsesTheFullGradient) {
  const Tensor one = tensor_of<float>({1}, {1}), zero = tensor_of<float>({1}, {0});
  OneOp op("Momentum", 1, "ai.onnx.preview.training");
  op.set("alpha", 0.5f).set("beta", 0.25f).set("mode", std::string("standard"));
  const auto at = [&](std::int64_t steps) {
    return op
        .run({tensor_of<float>({}, {1}), tensor_of<std::int64_t>({}, {steps}), one, one, zero},
             2)[1]
        .values<float>()[0];
  };
  EXPECT_EQ(at(0), 1.0f);
  EXPECT_EQ(at(1), 0.25f);
}

}  // namespace
}  // namespace sluice::engine
