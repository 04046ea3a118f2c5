// Regions, grids and image files.
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

TEST(RegionTest, TheLargestOfEachBinOfABox) {
  const Tensor x = tensor_of<float>({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const Tensor rois = tensor_of<float>({2, 5}, {0, 0, 0, 2, 2, 0, 9, 9, 12, 12});
  OneOp op("MaxRoiPool", 22);
  op.set("pooled_shape", Integers{1, 3});
  EXPECT_THAT(list_of<float>(op.run({x, rois})[0]), ElementsAre(7, 8, 9, 0, 0, 0));
}

TEST(RegionTest, AnImageThatIsNotThereIsRefused) {
  const Tensor x = varied({2, 1, 3, 3}), rois = tensor_of<float>({1, 4}, {0, 0, 2, 2});
  EXPECT_THAT(OneOp("RoiAlign", 22).refusal({x, rois, tensor_of<std::int64_t>({1}, {2})}),
              HasSubstr("of image 2"));
  EXPECT_THAT(OneOp("RoiAlign", 22)
                  .refusal({x, tensor_of<float>({1, 4}, {0, 0, 1e9f, 1e9f}),
                            tensor_of<std::int64_t>({1}, {1})}),
              HasSubstr("too large to sample"));
}

TEST(RegionTest, WithoutALimitNoBoxIsSelected) {
  const Tensor boxes = tensor_of<float>({1, 1, 4}, {0, 0, 1, 1});
  EXPECT_EQ(OneOp("NonMaxSuppression", 11).run({boxes, varied({1, 1, 1})})[0].shape(),
            Shape({0, 3}));
}

TEST(GridTest, PlacesThatAreNoNumbersReadZeros) {
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

TEST(GridTest, TheIdentityReadsEachPixel) {
  const Tensor x = varied({1, 2, 3, 4});
  const Tensor theta = tensor_of<float>({1, 2, 3}, {1, 0, 0, 0, 1, 0});
  const Tensor size = tensor_of<std::int64_t>({4}, {1, 2, 3, 4});
  const Tensor grid = OneOp("AffineGrid", 20).run({theta, size})[0];
  EXPECT_THAT(list_of<float>(OneOp("GridSample", 22).run({x, grid})[0]),
              ::testing::Pointwise(::testing::FloatNear(1e-5f), list_of<float>(x)));
}

std::string refusal_of(const std::string& file) {
  const std::vector<std::uint8_t> bytes(file.begin(), file.end());
  return OneOp("ImageDecoder", 20)
      .refusal({tensor_of<std::uint8_t>({static_cast<std::int64_t>(bytes.size())}, bytes)});
}

TEST(ImageTest, GreyIsWeighted) {
  const std::string file = "P3 # red, green\n2 1 255\n255 0 0  0 255 0 ";
  OneOp op("ImageDecoder", 20);
  op.set("pixel_format", std::string("Grayscale"));
  const std::vector<std::uint8_t> bytes(file.begin(), file.end());
  EXPECT_THAT(list_of<std::uint8_t>(op.run(
                  {tensor_of<std::uint8_t>({static_cast<std::int64_t>(bytes.size())}, bytes)})[0]),
              ElementsAre(76, 150));
}

TEST(ImageTest, BrokenFilesAreRefused) {
  EXPECT_THAT(refusal_of("BM"), HasSubstr("ends too early"));
  EXPECT_THAT(refusal_of("P6 2 2 255\nabc"), HasSubstr("ends too early"));
  EXPECT_THAT(refusal_of("P6 99999999 99999999 255\n"), HasSubstr("an image of"));
  EXPECT_THAT(refusal_of(std::string("II*\0\xff\xff\xff\xff", 8)), HasSubstr("ends too early"));
  EXPECT_THAT(refusal_of("\x89PNG...."), HasSubstr("PNG is not decoded"));
  EXPECT_THAT(refusal_of(""), HasSubstr("not decoded"));
}

}  // namespace
}  // namespace sluice::engine
