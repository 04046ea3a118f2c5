// Regions and grids.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "engine/ops/one_op_for_tests.h"

namespace sluice::engine {
namespace {

using Integers = Attributes::Integers;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RegionTest, MaxRoiPoolTakesTheMaximumOfEachBin) {
  const Tensor x = tensor_of<float>({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const Tensor rois = tensor_of<float>({2, 5}, {0, 0, 0, 2, 2, 0, 9, 9, 12, 12});
  OneOp op("MaxRoiPool", 22);
  op.set("pooled_shape", Integers{1, 3});
  EXPECT_THAT(list_of<float>(op.run({x, rois})[0]), ElementsAre(7, 8, 9, 0, 0, 0));
}

TEST(RegionTest, MissingBatchIndexIsRejected) {
  const Tensor x = varied({2, 1, 3, 3}), rois = tensor_of<float>({1, 4}, {0, 0, 2, 2});
  EXPECT_THAT(OneOp("RoiAlign", 22).refusal({x, rois, tensor_of<std::int64_t>({1}, {2})}),
              HasSubstr("of image 2"));
  EXPECT_THAT(OneOp("RoiAlign", 22)
                  .refusal({x, tensor_of<float>({1, 4}, {0, 0, 1e9f, 1e9f}),
                            tensor_of<std::int64_t>({1}, {1})}),
              HasSubstr("too large to sample"));
}

TEST(RegionTest, NoBoxIsSelectedWithoutALimit) {
  const Tensor boxes = tensor_of<float>({1, 1, 4}, {0, 0, 1, 1});
  EXPECT_EQ(OneOp("NonMaxSuppression", 11).run({boxes, varied({1, 1, 1})})[0].shape(),
            Shape({0, 3}));
}

TEST(GridTest, NanCoordinatesReadZeros) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = varied({1, 1, 2, 2});
  const Tensor grid = tensor_of<float>({1, 1, 3, 2}, {nan, 0, inf, 0, -3e38f, 3e38f});
  for (const char* mode : {"nearest", "linear", "cubic"})
    EXPECT_THAT(
        list_of<float>(OneOp("GridSample", 22).set("mode", std::string(mode)).run({x, grid})[0]),
        Each(0))
        << mode;
}

TEST(GridTest, ReflectionMirrorsAtTheOuterEdges) {
  const Tensor x = tensor_of<float>({1, 1, 1, 4}, {1, 2, 3, 4});
  // In pixels -1, -2, 4 and 9.
  const Tensor grid = tensor_of<float>({1, 1, 4, 2}, {-1.25f, 0, -1.75f, 0, 1.25f, 0, 3.75f, 0});
  OneOp op("GridSample", 22);
  op.set("padding_mode", std::string("reflection"));
  EXPECT_THAT(list_of<float>(op.run({x, grid})[0]), ElementsAre(1, 2, 4, 2));
}

TEST(GridTest, IdentityGridReadsEachPixel) {
  const Tensor x = varied({1, 2, 3, 4});
  const Tensor theta = tensor_of<float>({1, 2, 3}, {1, 0, 0, 0, 1, 0});
  const Tensor size = tensor_of<std::int64_t>({4}, {1, 2, 3, 4});
  const Tensor grid = OneOp("AffineGrid", 20).run({theta, size})[0];
  EXPECT_THAT(list_of<float>(OneOp("GridSample", 22).run({x, grid})[0]),
              ::testing::Pointwise(::testing::FloatNear(1e-5f), list_of<float>(x)));
}

}  // namespace
}  // namespace sluice::engine
