#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/ops/one_op_for_tests.h"

namespace sluice::engine {
namespace {

using ::testing::Each;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

constexpr int kSteps = 4, kBatch = 2, kInput = 3, kHidden = 2;

struct Kind {
  const char* op;
  int gates;
};
class RecurrentTest : public ::testing::TestWithParam<Kind> {
 protected:
  Tensor weights(int directions, int last, unsigned seed) const {
    return varied({directions, GetParam().gates * kHidden, last}, seed);
  }
  Tensor bias(int directions) const {
    return varied({directions, 2 * GetParam().gates * kHidden}, 8);
  }
  OneOp op(std::string direction) const {
    OneOp made(GetParam().op, 22);
    made.set("direction", std::move(direction));
    return made;
  }
};

// Transposes [a, b, rest] to [b, a, rest].
Tensor swapped(const Tensor& x) {
  const Shape& s = x.shape();
  const std::int64_t rest = s.size(2, s.rank());
  Shape shape = s;
  std::swap(shape[0], shape[1]);
  const Tensor y(DType::f32, shape);
  for (std::int64_t i = 0; i < s[0]; ++i)
    for (std::int64_t j = 0; j < s[1]; ++j)
      std::copy_n(x.values<float>().data() + (i * s[1] + j) * rest, rest,
                  y.values<float>().data() + (j * s[0] + i) * rest);
  return y;
}

Tensor reversed(const Tensor& x) {
  const std::int64_t row = x.shape().size(1, x.rank()), rows = x.shape()[0];
  const Tensor y(DType::f32, x.shape());
  for (std::int64_t i = 0; i < rows; ++i)
    std::copy_n(x.values<float>().data() + i * row, row,
                y.values<float>().data() + (rows - 1 - i) * row);
  return y;
}

TEST_P(RecurrentTest, BackwardEqualsForwardOverTheReversedSequence) {
  const Tensor x = varied({kSteps, kBatch, kInput});
  const std::vector<Tensor> rest = {weights(1, kInput, 2), weights(1, kHidden, 3), bias(1)};
  const auto back = op("reverse").run({x, rest[0], rest[1], rest[2]}, 2);
  const auto forth = op("forward").run({reversed(x), rest[0], rest[1], rest[2]}, 2);
  EXPECT_EQ(list_of<float>(back[0]), list_of<float>(reversed(forth[0])));
  EXPECT_EQ(list_of<float>(back[1]), list_of<float>(forth[1]));
}

TEST_P(RecurrentTest, BidirectionalLayersAreTwoIndependentDirections) {
  const Tensor x = varied({kSteps, kBatch, kInput});
  const Tensor w = weights(2, kInput, 2), r = weights(2, kHidden, 3);
  const auto first = [](const Tensor& t) {
    const auto all = list_of<float>(t);
    Shape shape = t.shape();
    shape[0] = 1;
    return tensor_of<float>(shape, {all.begin(), all.begin() + shape.size()});
  };
  const auto both = list_of<float>(op("bidirectional").run({x, w, r}, 2)[1]);
  const auto one = list_of<float>(op("forward").run({x, first(w), first(r)}, 2)[1]);
  EXPECT_EQ(std::vector<float>(both.begin(), both.begin() + kBatch * kHidden), one);
}

TEST_P(RecurrentTest, ASequenceEndsAtItsLength) {
  const Tensor x = varied({kSteps, kBatch, kInput});
  const Tensor w = weights(1, kInput, 2), r = weights(1, kHidden, 3);
  const Tensor lengths = tensor_of<std::int32_t>({kBatch}, {kSteps, 2});
  const auto y = op("forward").run({x, w, r, Tensor(), lengths}, 2);
  const auto whole = op("forward").run({x, w, r}, 1);
  const auto all = list_of<float>(y[0]), last = list_of<float>(y[1]),
             full = list_of<float>(whole[0]);
  for (int i = 0; i < kHidden; ++i) {
    const auto at = [&](int step) {
      return static_cast<std::size_t>((step * 2 + 1) * kHidden + i);
    };
    EXPECT_EQ(last[static_cast<std::size_t>(kHidden + i)], full[at(1)]);
    EXPECT_EQ(all[at(2)], 0);
  }
}

TEST_P(RecurrentTest, BatchFirstLayoutIsSupported) {
  const Tensor x = varied({kSteps, kBatch, kInput});
  const Tensor w = weights(1, kInput, 2), r = weights(1, kHidden, 3);
  const auto steps_first = op("forward").run({x, w, r}, 2);
  const auto batch_first = op("forward").set("layout", std::int64_t{1}).run({swapped(x), w, r}, 2);
  EXPECT_EQ(batch_first[0].shape(), Shape({kBatch, kSteps, 1, kHidden}));
  EXPECT_EQ(batch_first[1].shape(), Shape({kBatch, 1, kHidden}));
  EXPECT_THAT(list_of<float>(batch_first[1]),
              Pointwise(FloatNear(1e-6f), list_of<float>(steps_first[1])));
}

TEST_P(RecurrentTest, MismatchedShapesAreRejected) {
  const Tensor x = varied({kSteps, kBatch, kInput});
  const Tensor w = weights(1, kInput, 2), r = weights(1, kHidden, 3);
  EXPECT_THAT(op("sideways").refusal({x, w, r}), HasSubstr("'sideways' is not known"));
  EXPECT_THAT(op("bidirectional").refusal({x, w, r}), HasSubstr("W of"));
  EXPECT_THAT(op("forward").refusal({x, w, r, Tensor(), tensor_of<std::int32_t>({2}, {1, 9})}),
              HasSubstr("a length of 9"));
}

INSTANTIATE_TEST_SUITE_P(Layers, RecurrentTest,
                         ::testing::Values(Kind{"RNN", 1}, Kind{"GRU", 3}, Kind{"LSTM", 4}),
                         [](const auto& each) { return std::string(each.param.op); });

TEST(GruTest, ResetIsAppliedBeforeOrAfterTheRecurrentGemm) {
  // One unit; both gates are 1/2 because their inputs are 0; the recurrent bias distinguishes the
  // forms.
  const Tensor x = tensor_of<float>({1, 1, 1}, {0}), w = tensor_of<float>({1, 3, 1}, {0, 0, 0});
  const Tensor r = tensor_of<float>({1, 3, 1}, {0, 0, 1});
  const Tensor b = tensor_of<float>({1, 6}, {0, 0, 0, 0, 0, 0.5f});
  const Tensor h = tensor_of<float>({1, 1, 1}, {0.5f});
  OneOp op("GRU", 22);
  const auto run = [&] { return op.run({x, w, r, b, Tensor(), h}, 2)[1].values<float>()[0]; };
  EXPECT_NEAR(run(), 0.5 * std::tanh(0.25 + 0.5) + 0.25, 1e-6);
  op.set("linear_before_reset", std::int64_t{1});
  EXPECT_NEAR(run(), 0.5 * std::tanh(0.5 * (0.5 + 0.5)) + 0.25, 1e-6);
}

TEST(RnnTest, ActivationsConsumeAlphasAndBetasInOrder) {
  const Tensor x = tensor_of<float>({1, 1, 1}, {-2}), w = tensor_of<float>({2, 1, 1}, {1, 1});
  const Tensor r = tensor_of<float>({2, 1, 1}, {0, 0});
  OneOp op("RNN", 22);
  op.set("direction", std::string("bidirectional"))
      .set("activations", Attributes::Strings{"Relu", "LeakyRelu"})
      .set("activation_alpha", Attributes::Reals{0.25f});
  EXPECT_THAT(list_of<float>(op.run({x, w, r}, 2)[1]), ::testing::ElementsAre(0, -0.5f));
  op.set("clip", 1.0f);
  EXPECT_THAT(list_of<float>(op.run({x, w, r}, 2)[1]), ::testing::ElementsAre(0, -0.25f));
}

}  // namespace
}  // namespace sluice::engine
