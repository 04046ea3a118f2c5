// Shapes, layout, indices and padding, beyond the ONNX test cases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "engine/ops/moves.h"
#include "engine/passes/model_for_tests.h"

namespace sluice::engine {
namespace {

using Integers = Attributes::Integers;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

Tensor integers(const Shape& shape, std::vector<std::int64_t> values) {
  return tensor_of(shape, std::move(values));
}
Tensor list(std::vector<std::int64_t> values) {
  return integers({static_cast<std::int64_t>(values.size())}, values);
}
Tensor counted(const Shape& shape) {
  const Tensor tensor(DType::i64, shape);
  std::iota(tensor.values<std::int64_t>().begin(), tensor.values<std::int64_t>().end(), 0);
  return tensor;
}
std::vector<std::int64_t> result(OneOp op, const std::vector<Tensor>& inputs) {
  return list_of<std::int64_t>(op.run(inputs)[0]);
}

TEST(TransposeTest, LargeTensorsAreTransposedCorrectlyForEveryPermutation) {
  compute::Workers workers(2);
  const Shape shape{5, 67, 3, 41};
  const Tensor data = counted(shape);
  std::vector<int> order{0, 1, 2, 3};
  do {
    const Tensor out = transposed(data, order, workers);
    const auto values = out.values<std::int64_t>();
    const std::int64_t steps[] = {67 * 3 * 41, 3 * 41, 41, 1};
    std::int64_t wrong = 0, i = 0;
    for (std::int64_t a = 0; a < out.shape()[0]; ++a)
      for (std::int64_t b = 0; b < out.shape()[1]; ++b)
        for (std::int64_t c = 0; c < out.shape()[2]; ++c)
          for (std::int64_t d = 0; d < out.shape()[3]; ++d, ++i)
            wrong += values[static_cast<std::size_t>(i)] !=
                     a * steps[order[0]] + b * steps[order[1]] + c * steps[order[2]] +
                         d * steps[order[3]];
    EXPECT_EQ(wrong, 0) << order[0] << order[1] << order[2] << order[3];
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(TransposeTest, DuplicateAxesInPermutationsAreRejected) {
  EXPECT_THAT(OneOp("Transpose", 13).set("perm", Integers{0, 0}).refusal({counted({2, 2})}),
              HasSubstr("named twice"));
}

TEST(SliceTest, ExtremeStartEndAndStepValuesAreClamped) {
  const Tensor x = counted({5});
  EXPECT_THAT(result(OneOp("Slice", 13), {x, list({kMax}), list({kMin}), list({0}), list({-1})}),
              ElementsAre(4, 3, 2, 1, 0));
  EXPECT_THAT(result(OneOp("Slice", 13), {x, list({-1}), list({kMin}), list({0}), list({kMin})}),
              ElementsAre(4));
  EXPECT_THAT(result(OneOp("Slice", 13), {x, list({1}), list({kMax}), list({0}), list({kMax})}),
              ElementsAre(1));
  EXPECT_THAT(
      result(OneOp("Slice", 13), {counted({0}), list({5}), list({-9}), list({0}), list({-2})}),
      IsEmpty());
  EXPECT_THAT(OneOp("Slice", 13).refusal({x, list({0}), list({1}), list({0}), list({0})}),
              HasSubstr("a step of 0"));
}

TEST(SliceTest, OldVersionsUseAttributes) {
  OneOp op("Slice", 1);
  op.set("starts", Integers{1, -2}).set("ends", Integers{kMax, -1}).set("axes", Integers{0, 1});
  EXPECT_THAT(result(op, {counted({3, 3})}), ElementsAre(4, 7));
}

TEST(ReshapeTest, OnlyMatchingShapesAreAccepted) {
  const Tensor x = counted({2, 3});
  EXPECT_EQ(OneOp("Reshape", 14).run({x, list({0, -1, 1})})[0].shape(), Shape({2, 3, 1}));
  EXPECT_EQ(OneOp("Reshape", 14)
                .set("allowzero", std::int64_t{1})
                .run({counted({0, 3}), list({3, 0})})[0]
                .shape(),
            Shape({3, 0}));
  for (const auto& requested :
       {list({4, -1}), list({-1, -1}), list({2, 3, 0}), list({kMax, kMax}), list({-2, 3})})
    EXPECT_NE(OneOp("Reshape", 14).refusal({x, requested}), "accepted");
}

TEST(SplitTest, SplitSizesMustAddUp) {
  EXPECT_THAT(OneOp("Split", 13).refusal({counted({5}), list({kMax})}), HasSubstr("add up"));
  EXPECT_THAT(OneOp("Split", 13).refusal({counted({5}), list({-5})}), HasSubstr("add up"));
  OneOp op("Split", 18);
  op.set("num_outputs", std::int64_t{3});
  EXPECT_THAT(list_of<std::int64_t>(op.run({counted({7})}, 3)[2]), ElementsAre(6));
}

TEST(SizesTest, SizesBeyondMemoryAreRejected) {
  const Tensor one = counted({1});
  EXPECT_THAT(OneOp("ConstantOfShape", 9).refusal({list({kMax, kMax})}), HasSubstr("memory"));
  EXPECT_THAT(OneOp("Expand", 13).refusal({one, list({kMax, 3})}), HasSubstr("memory"));
  EXPECT_THAT(OneOp("Tile", 13).refusal({counted({2}), list({kMax})}), HasSubstr("memory"));
  EXPECT_NE(OneOp("Pad", 18).refusal({one, list({kMax, kMax})}), "accepted");
  EXPECT_NE(OneOp("Pad", 18).refusal({one, list({kMin, 0})}), "accepted");
  EXPECT_NE(
      OneOp("Range", 11).refusal({integers({}, {0}), integers({}, {kMax}), integers({}, {1})}),
      "accepted");
  EXPECT_NE(OneOp("OneHot", 11).refusal({one, integers({}, {kMax}), list({0, 1})}), "accepted");
}

TEST(GatherTest, IndicesOutOfRangeAreRejected) {
  const Tensor x = counted({2, 3});
  for (const std::int64_t index : {std::int64_t{2}, std::int64_t{-3}, kMin, kMax}) {
    EXPECT_THAT(OneOp("Gather", 13).refusal({x, list({index})}), HasSubstr("index"));
    EXPECT_THAT(OneOp("GatherElements", 13).refusal({x, integers({1, 1}, {index})}),
                HasSubstr("index"));
    EXPECT_THAT(OneOp("GatherND", 13).refusal({x, integers({1, 1}, {index})}), HasSubstr("index"));
    EXPECT_THAT(OneOp("ScatterND", 18).refusal({x, integers({1, 1}, {index}), counted({1, 3})}),
                HasSubstr("index"));
    EXPECT_THAT(
        OneOp("ScatterElements", 18).refusal({x, integers({1, 1}, {index}), counted({1, 1})}),
        HasSubstr("index"));
  }
  EXPECT_THAT(OneOp("Gather", 13).refusal({counted({0}), list({0})}), HasSubstr("index"));
}

TEST(GatherTest, EmptyTensorsStayEmpty) {
  EXPECT_EQ(OneOp("Gather", 13).run({counted({3, 0}), list({1, 2})})[0].shape(), Shape({2, 0}));
  EXPECT_EQ(OneOp("Gather", 13).run({counted({3}), Tensor(DType::i64, {0, 4})})[0].shape(),
            Shape({0, 4}));
  EXPECT_EQ(OneOp("GatherND", 13).run({counted({2, 3}), Tensor(DType::i64, {5, 0})})[0].shape(),
            Shape({5, 2, 3}));
}

TEST(ScatterTest, UpdatesOfAnotherShapeOrTypeAreRejected) {
  const Tensor x = counted({3});
  EXPECT_NE(OneOp("ScatterND", 18).refusal({x, integers({2, 1}, {0, 1}), counted({1})}),
            "accepted");
  EXPECT_NE(OneOp("ScatterElements", 18).refusal({x, list({0}), varied({1})}), "accepted");
  EXPECT_NE(OneOp("ScatterElements", 18).refusal({x, list({0, 1, 2, 0}), counted({3})}),
            "accepted");
}

TEST(ScatterTest, CacheOverflowIsRejectedUnlessCircular) {
  const Tensor cache = counted({1, 3, 1}), update = integers({1, 2, 1}, {7, 8});
  EXPECT_THAT(OneOp("TensorScatter", 24).refusal({cache, update, list({2})}),
              HasSubstr("write index 2 of 3"));
  OneOp round("TensorScatter", 24);
  round.set("mode", std::string("circular"));
  EXPECT_THAT(result(round, {cache, update, list({2})}), ElementsAre(8, 1, 7));
  EXPECT_NE(round.refusal({cache, update, list({-1})}), "accepted");
}

TEST(PadTest, NegativePaddingIsRemovedBeforePadding) {
  const Tensor x = counted({4});
  EXPECT_THAT(result(OneOp("Pad", 19), {x, list({-1, 2})}), ElementsAre(1, 2, 3, 0, 0));
  OneOp reflect("Pad", 19);
  reflect.set("mode", std::string("reflect"));
  EXPECT_THAT(result(reflect, {x, list({5, -1})}), ElementsAre(1, 0, 1, 2, 1, 0, 1, 2));
  OneOp wrap("Pad", 19);
  wrap.set("mode", std::string("wrap"));
  EXPECT_THAT(result(wrap, {x, list({5, 1})}), ElementsAre(3, 0, 1, 2, 3, 0, 1, 2, 3, 0));
  EXPECT_THAT(wrap.refusal({counted({0}), list({1, 0})}), HasSubstr("empty"));
}

// Reference implementation by source index of each element.
TEST(PadTest, EveryModeExtendsEveryAxisByAnyLength) {
  const auto source = [](const std::string& mode, std::int64_t i, std::int64_t size) {
    if (mode == "edge") return std::clamp<std::int64_t>(i, 0, size - 1);
    if (mode == "wrap") return (i % size + size) % size;
    const std::int64_t period = std::max<std::int64_t>(1, 2 * (size - 1));
    const std::int64_t phase = (i % period + period) % period;
    return phase < size ? phase : period - phase;
  };
  const Tensor x = counted({2, 3, 1, 4});
  const Integers before{3, 11, 2, -1}, after{8, 0, 1, 7};
  for (const std::string mode : {"edge", "reflect", "wrap"}) {
    OneOp op("Pad", 19);
    op.set("mode", mode);
    Integers pads = before;
    pads.insert(pads.end(), after.begin(), after.end());
    const Tensor y = op.run({x, list(pads)})[0];
    ASSERT_EQ(y.shape(), (Shape{13, 14, 4, 10}));
    for (std::int64_t i = 0; i < y.size(); ++i) {
      const std::int64_t at[] = {i / 560, i / 40 % 14, i / 10 % 4, i % 10};
      const std::int64_t row = source(mode, at[0] - 3, 2) * 3 + source(mode, at[1] - 11, 3);
      ASSERT_EQ(y.values<std::int64_t>()[static_cast<std::size_t>(i)],
                row * 4 + 1 + source(mode, at[3], 3))
          << mode << " at " << i;
    }
  }
}

TEST(PadTest, LargePaddingTakesNoMoreMemoryThanItsOutput) {
  Model m;
  m.output(m.op("Pad", {m.input(varied({3})), m.list({1 << 20, 1 << 20})},
                {{"mode", std::string("reflect")}}));
  compute::Workers workers(1);
  const Session session(m.graph, workers, {.memory = 9u << 20, .compile = false});
  const std::vector<Datum> inputs{varied({3})};
  EXPECT_EQ(session.run(inputs)[0].tensor.size(), (2 << 20) + 3);
}

TEST(PadTest, FirstVersionsUseAttributes) {
  OneOp op("Pad", 2);
  op.set("pads", Integers{1, 1}).set("value", 2.5f);
  EXPECT_THAT(list_of<float>(op.run({tensor_of<float>({1}, {1})})[0]), ElementsAre(2.5f, 1, 2.5f));
}

TEST(TopKTest, NanIsTheLargestValueAndOrderIsStable) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = tensor_of<float>({5}, {1, nan, 3, 3, nan});
  EXPECT_THAT(list_of<std::int64_t>(OneOp("TopK", 11).run({x, list({4})}, 2)[1]),
              ElementsAre(1, 4, 2, 3));
  EXPECT_THAT(OneOp("TopK", 11).refusal({x, list({6})}), HasSubstr("the best 6 of 5"));
  EXPECT_EQ(OneOp("TopK", 11).run({x, list({0})}, 2)[0].shape(), Shape{0});
  EXPECT_THAT(list_of<std::int64_t>(OneOp("TopK", 1).set("k", std::int64_t{1}).run({x}, 2)[1]),
              ElementsAre(1));
}

TEST(UniqueTest, NanIsOneValue) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto out = OneOp("Unique", 11).run({tensor_of<float>({4}, {nan, 1, nan, 1})}, 4);
  EXPECT_EQ(out[0].size(), 2);
  EXPECT_THAT(list_of<std::int64_t>(out[2]), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(list_of<std::int64_t>(out[3]), ElementsAre(2, 2));
}

TEST(SizesTest, HugeShapesWithoutElementsCostNothing) {
  const std::int64_t huge = std::int64_t{1} << 50;
  const Tensor x(DType::i64, {huge, 2, 0}), none = list({});
  EXPECT_EQ(OneOp("TopK", 11).run({x, list({0})}, 2)[0].shape(), Shape({huge, 2, 0}));
  EXPECT_EQ(OneOp("Gather", 13).set("axis", std::int64_t{2}).run({x, none})[0].shape(),
            Shape({huge, 2, 0}));
  EXPECT_EQ(OneOp("Transpose", 13).run({x})[0].shape(), Shape({0, 2, huge}));
  EXPECT_EQ(OneOp("Slice", 13).run({x, list({1}), list({kMax}), list({0})})[0].shape(),
            Shape({huge - 1, 2, 0}));
  OneOp edge("Pad", 13);
  edge.set("mode", std::string("edge"));
  EXPECT_EQ(edge.run({x, list({1, 0, 0, 0, 0, 0})})[0].shape(), Shape({huge + 1, 2, 0}));
  EXPECT_NE(OneOp("Unique", 11).set("axis", std::int64_t{0}).refusal({x}), "accepted");
  EXPECT_NE(OneOp("GatherND", 13).refusal({counted({2}), x}), "accepted");
  EXPECT_NE(OneOp("SplitToSequence", 11).refusal({x}), "accepted");
}

TEST(ResizeTest, UntrustedSizesAndScalesAreChecked) {
  const Tensor x = varied({1, 1, 2, 2}), none;
  const auto scales = [](float s) { return tensor_of<float>({4}, {1, 1, s, s}); };
  for (const float bad : {0.0f, -1.0f, 1e30f, std::numeric_limits<float>::quiet_NaN()})
    EXPECT_NE(OneOp("Resize", 19).refusal({x, none, scales(bad)}), "accepted") << bad;
  EXPECT_NE(OneOp("Resize", 19).refusal({x, none, none, list({1, 1, -1, 2})}), "accepted");
  EXPECT_EQ(OneOp("Resize", 19).run({x, none, none, list({1, 1, 0, 2})})[0].shape(),
            Shape({1, 1, 0, 2}));
}

TEST(ResizeTest, Opset10RoundsUpWhenDownsampling) {
  const Tensor x = tensor_of<float>({1, 4}, {1, 2, 3, 4});
  EXPECT_THAT(list_of<float>(OneOp("Resize", 10).run({x, tensor_of<float>({2}, {1, 0.6f})})[0]),
              ElementsAre(1, 3));
}

}  // namespace
}  // namespace sluice::engine
