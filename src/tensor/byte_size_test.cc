#include "tensor/byte_size.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/error.h"
#include "tensor/tensor.h"

namespace sluice {
namespace {

using Dims = std::vector<std::int64_t>;
constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

TEST(ByteSizeTest, SubByteElementsTakeOneByteInMemoryAndArePackedInFiles) {
  EXPECT_EQ(byte_size(Shape{3, 5}, DType::f32), 60u);
  EXPECT_EQ(byte_size(Shape{}, DType::c128), 16u);
  EXPECT_EQ(byte_size(Shape{5}, DType::i4), 5u);
  EXPECT_EQ(packed_byte_size(Dims{5}, DType::i4), 3u);
  EXPECT_EQ(packed_byte_size(Dims{5}, DType::u2), 2u);
  EXPECT_EQ(packed_byte_size(Dims{3, 5}, DType::f32), 60u);
  EXPECT_EQ(byte_size(Shape{7}, DType::string), 0u);
  EXPECT_EQ(byte_size(Shape{7, 0}, DType::f64), 0u);
  EXPECT_EQ(byte_size(Shape{3}, 24), 72u);
}

// 2^58 + 1 elements of 64 bits overflow 2^64 bits by 64.
TEST(ByteSizeTest, OverflowingSizesAreRejectedForEveryType) {
  for (int i = 1; i < kDTypes; ++i) {
    const auto type = static_cast<DType>(i);
    for (const Dims& dims : {Dims{kHuge}, Dims{kHuge / 2 + 1, 2}, Dims{1ll << 32, 1ll << 32},
                             Dims{1ll << 40, 0, 1ll << 40}}) {
      EXPECT_THROW(byte_size(dims, type), Error) << to_string(type);
      EXPECT_THROW(packed_byte_size(dims, type), Error) << to_string(type);
    }
    if (bits(type) < 8) continue;
    const std::int64_t wraps = (std::int64_t{1} << 58) + 1;
    EXPECT_EQ(packed_byte_size(Dims{wraps}, type), static_cast<std::size_t>(wraps) * bytes(type));
  }
  EXPECT_THROW(byte_size(Dims{1 << 20}, std::size_t{1} << 50), Error);
}

TEST(ByteSizeTest, NegativeDimensionsAreRejected) {
  for (const Dims& dims : {Dims{-1}, Dims{-2, -2}, Dims{0, -1}, Dims{-kHuge - 1, 2}})
    EXPECT_THROW(byte_size(dims, DType::u8), Error);
}

TEST(ByteSizeTest, TensorsThatDoNotFitAreNotCreated) {
  const auto keep = std::make_shared<char>();
  EXPECT_THROW(Tensor::view(DType::i64, Shape{kHuge}, keep.get(), keep), Error);
  EXPECT_THROW(Tensor::view(DType::i64, Shape{-1}, keep.get(), keep), Error);
  EXPECT_THROW(Tensor(DType::string, Shape{kHuge / 16}), Error);
  const Tensor four(DType::u8, Shape{4});
  EXPECT_THROW(four.reshaped(Shape{5}), Error);
  EXPECT_THROW(four.reshaped(Shape{(1ll << 62) + 1, 4}), Error);  // 4, once it wrapped around
}

}  // namespace
}  // namespace sluice
