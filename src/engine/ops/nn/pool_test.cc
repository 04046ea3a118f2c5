#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/ops/one_op_for_tests.h"

namespace sluice::engine {
namespace {

using Integers = Attributes::Integers;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

OneOp pool(const char* name, Integers kernel, int version = 22) {
  return std::move(OneOp(name, version).set("kernel_shape", std::move(kernel)));
}

TEST(PoolTest, MaxUnpoolRestoresTheMaxima) {
  const Tensor x = tensor_of<float>({1, 1, 2, 4}, {1, 5, 2, 3, 4, 0, 8, 7});
  const auto pooled = pool("MaxPool", {2, 2}).set("strides", Integers{2, 2}).run({x}, 2);
  EXPECT_THAT(list_of<float>(pooled[0]), ElementsAre(5, 8));
  EXPECT_THAT(list_of<std::int64_t>(pooled[1]), ElementsAre(1, 6));
  const Tensor back =
      pool("MaxUnpool", {2, 2}).set("strides", Integers{2, 2}).run({pooled[0], pooled[1]})[0];
  EXPECT_THAT(list_of<float>(back), ElementsAre(0, 5, 0, 0, 0, 0, 8, 0));
}

TEST(PoolTest, ColumnMajorIndicesCountTheFirstAxisInnermost) {
  const Tensor x = tensor_of<float>({1, 1, 2, 3}, {0, 0, 9, 0, 0, 0});
  const auto pooled = pool("MaxPool", {2, 3}).set("storage_order", std::int64_t{1}).run({x}, 2);
  EXPECT_THAT(list_of<std::int64_t>(pooled[1]), ElementsAre(4));
}

TEST(PoolTest, AverageIncludesPaddingOnlyIfRequested) {
  const Tensor x = tensor_of<float>({1, 1, 2}, {2, 4});
  EXPECT_THAT(list_of<float>(pool("AveragePool", {2}).set("pads", Integers{1, 0}).run({x})[0]),
              ElementsAre(2, 3));
  EXPECT_THAT(list_of<float>(pool("AveragePool", {2})
                                 .set("pads", Integers{1, 0})
                                 .set("count_include_pad", std::int64_t{1})
                                 .run({x})[0]),
              ElementsAre(1, 3));
}

TEST(PoolTest, HugeKernelsAreNotIterated) {
  const Tensor x = varied({1, 1, 3});
  EXPECT_EQ(pool("MaxPool", {2147483647}).run({x})[0].shape(), Shape({1, 1, 0}));
  EXPECT_THAT(pool("MaxPool", {2147483647}).set("dilations", Integers{9}).refusal({x}),
              HasSubstr("too large"));
  EXPECT_THAT(pool("MaxPool", {2, 2}).refusal({x}), HasSubstr("kernel_shape has 2 values, not 1"));
}

TEST(PoolTest, IndicesOutsideTheImageAreRejected) {
  const Tensor x = varied({1, 1, 1}), place = tensor_of<std::int64_t>({1, 1, 1}, {2});
  EXPECT_THAT(pool("MaxUnpool", {2}).refusal({x, place}), HasSubstr("index 2 is outside"));
}

TEST(PoolTest, LpPoolPowerIsFloatInTheFirstVersion) {
  const Tensor x = tensor_of<float>({1, 1, 2}, {3, 4});
  EXPECT_THAT(list_of<float>(OneOp("GlobalLpPool", 1).set("p", 1.0f).run({x})[0]), ElementsAre(7));
  EXPECT_THAT(list_of<float>(OneOp("GlobalLpPool", 2).run({x})[0]), ElementsAre(5));
}

}  // namespace
}  // namespace sluice::engine
