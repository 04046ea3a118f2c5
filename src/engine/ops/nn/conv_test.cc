#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/ops/one_op_for_tests.h"

namespace sluice::engine {
namespace {

using Integers = Attributes::Integers;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

double inner(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  double sum = 0;
  for (std::size_t i = 0; i < a.values<float>().size(); ++i)
    sum += static_cast<double>(a.values<float>()[i]) * static_cast<double>(b.values<float>()[i]);
  return sum;
}

TEST(ConvTest, GroupsConvolveTheirOwnChannels) {
  const Tensor x = varied({1, 4, 5, 6}), w = varied({6, 2, 3, 2}, 2), b = varied({6}, 3);
  const auto both =
      list_of<float>(OneOp("Conv", 22).set("group", std::int64_t{2}).run({x, w, b})[0]);
  std::vector<float> apart;
  for (int g = 0; g < 2; ++g) {
    const auto part = [g](const Tensor& t, const Shape& shape) {
      const auto all = list_of<float>(t);
      const auto from = all.begin() + g * shape.size();
      return tensor_of<float>(shape, {from, from + shape.size()});
    };
    const auto y = list_of<float>(
        OneOp("Conv", 22).run({part(x, {1, 2, 5, 6}), part(w, {3, 2, 3, 2}), part(b, {3})})[0]);
    apart.insert(apart.end(), y.begin(), y.end());
  }
  EXPECT_THAT(both, Pointwise(FloatNear(1e-5f), apart));
}

// <conv(x), y> = <x, transposed(y)> for all x and y.
TEST(ConvTest, ConvTransposeIsTheAdjointOfConv) {
  struct Case {
    Shape x, w, y;
    Integers strides, pads, dilations;
    std::int64_t groups;
  };
  const Case cases[] = {
      {{2, 3, 8}, {4, 3, 3}, {2, 4, 4}, {2}, {1, 0}, {1}, 1},
      {{1, 4, 7, 7}, {6, 2, 3, 2}, {1, 6, 3, 7}, {2, 1}, {1, 0, 1, 1}, {2, 1}, 2},
      {{1, 2, 5, 5, 5}, {2, 1, 2, 2, 3}, {1, 2, 4, 4, 5}, {}, {0, 0, 1, 0, 0, 1}, {}, 2},
  };
  for (const Case& c : cases) {
    const auto with = [&c](OneOp&& op, const std::vector<Tensor>& inputs) {
      op.set("strides", c.strides).set("pads", c.pads).set("dilations", c.dilations);
      return op.set("group", c.groups).run(inputs)[0];
    };
    const Tensor x = varied(c.x), w = varied(c.w, 5), y = varied(c.y, 9);
    const Tensor there = with(OneOp("Conv", 22), {x, w});
    const Tensor back = with(OneOp("ConvTranspose", 22), {y, w});
    EXPECT_NEAR(inner(there, y), inner(x, back), 1e-4) << to_string(c.x);
  }
}

TEST(ConvTest, HalfPrecisionIsComputedInSingle) {
  Tensor x(DType::f16, {1, 1, 4096}), w(DType::f16, {1, 1, 4096});
  for (Half& v : x.values<Half>()) v = Half(0.5f);
  for (Half& v : w.values<Half>()) v = Half(0.25f);
  EXPECT_EQ(static_cast<float>(OneOp("Conv", 22).run({x, w})[0].values<Half>()[0]), 512.0f);
}

TEST(ConvTest, IntegersArePaddedWithTheirZeroPoint) {
  const Tensor x = tensor_of<std::uint8_t>({1, 1, 3}, {5, 6, 7});
  const Tensor w = tensor_of<std::int8_t>({1, 1, 3}, {1, -1, 2});
  const Tensor zero = tensor_of<std::uint8_t>({1}, {5});
  OneOp op("ConvInteger", 10);
  op.set("pads", Integers{1, 1});
  EXPECT_THAT(list_of<std::int32_t>(op.run({x, w, zero})[0]), ElementsAre(2, 3, -1));
}

TEST(ConvTest, EmptyAndTooSmallImagesGiveEmptyOutputs) {
  EXPECT_EQ(OneOp("Conv", 22).run({varied({0, 1, 4}), varied({2, 1, 3})})[0].shape(),
            Shape({0, 2, 2}));
  EXPECT_EQ(OneOp("Conv", 22).run({varied({1, 1, 2}), varied({2, 1, 3})})[0].shape(),
            Shape({1, 2, 0}));
}

TEST(ConvTest, MismatchedShapesAreRejected) {
  const Tensor x = varied({1, 4, 5, 5}), w = varied({2, 3, 3, 3});
  EXPECT_THAT(OneOp("Conv", 22).refusal({x, w}), HasSubstr("weights of shape"));
  EXPECT_THAT(OneOp("Conv", 22).set("group", std::int64_t{0}).refusal({x, w}),
              HasSubstr("0 groups"));
  EXPECT_THAT(OneOp("Conv", 22).set("strides", Integers{0, 1}).refusal({x, w}),
              HasSubstr("strides has a value of 0"));
  EXPECT_THAT(OneOp("Conv", 22).set("pads", Integers{-1, 0, 0, 0}).refusal({x, w}),
              HasSubstr("pads has a value of -1"));
  EXPECT_THAT(OneOp("Conv", 22).refusal({varied({1, 1, 1, 1, 1, 1}), varied({1, 1, 1, 1, 1, 1})}),
              HasSubstr("more than three spatial axes"));
}

}  // namespace
}  // namespace sluice::engine
