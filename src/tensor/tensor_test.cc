#include "tensor/tensor.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "base/error.h"

namespace sluice {
namespace {

TEST(ShapeTest, BroadcastsAsNumPyDoes) {
  EXPECT_EQ(broadcast(Shape{3, 1}, Shape{2}), (Shape{3, 2}));
  EXPECT_EQ(broadcast(Shape{}, Shape{4, 0}), (Shape{4, 0}));
  EXPECT_EQ(broadcast(Shape{1}, Shape{0}), (Shape{0}));
  EXPECT_THROW(broadcast(Shape{2, 3}, Shape{2}), Error);
}

TEST(ShapeTest, DimensionsCanBeInsertedAndErased) {
  Shape shape{2, 3};
  shape.insert(1, 7);
  EXPECT_EQ(to_string(shape), "[2, 7, 3]");
  shape.erase(0);
  EXPECT_EQ(shape, (Shape{7, 3}));
  EXPECT_EQ(shape.size(), 21);
}

TEST(ShapeTest, HugeSizesAreRejected) {
  const std::int64_t huge[] = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  EXPECT_THROW(checked_size(huge), Error);
  const std::int64_t negative[] = {2, -1};
  EXPECT_THROW(checked_size(negative), Error);
  const std::int64_t nothing[] = {std::int64_t{1} << 40, 0, std::int64_t{1} << 40};
  EXPECT_THROW(checked_size(nothing), Error);  // its strides would wrap around
  EXPECT_EQ(checked_size(Shape{3, 0, 1 << 30}.dims()), 0);
}

TEST(TensorTest, CopiesShareTheElements) {
  const Tensor a = Tensor::of(std::span<const float>(std::array{1.0f, 2.0f}));
  const Tensor b = a.reshaped(Shape{2, 1});
  a.values<float>()[1] = 5;
  EXPECT_EQ(b.values<float>()[1], 5);
  EXPECT_EQ(b.bytes(), 8u);
}

TEST(TensorTest, MemoryCanBeLimitedForAScope) {
  Tensor kept;
  {
    const TensorMemory limit(limited_memory(1024));
    kept = Tensor(DType::f32, Shape{128});
    EXPECT_THROW(Tensor(DType::f32, Shape{256}), Error);
    EXPECT_THROW(Tensor(DType::string, Shape{1000}), Error);
  }
  kept.values<float>()[127] = 1;  // outlives the scope
  EXPECT_TRUE(Tensor(DType::f32, Shape{256}));
}

TEST(TensorTest, AllocationsAreLimitedToPhysicalMemory) {
  const std::int64_t quarter = ::sysconf(_SC_PHYS_PAGES) / 4 * ::sysconf(_SC_PAGESIZE) + (1 << 20);
  std::vector<Tensor> taken;
  EXPECT_THROW(for (int i = 0; i < 4; ++i) taken.emplace_back(DType::u8, Shape{quarter}), Error);
}

TEST(TensorTest, StringContentsAreAccountedWhileTheTensorLives) {
  const TensorMemory limit(limited_memory(4096));
  {
    const Tensor words(DType::string, Shape{2}), same = words;
    words.reserve_string_bytes(2, 1024);
    EXPECT_THROW(same.reserve_string_bytes(2, 1024), Error);
    EXPECT_THROW(words.reserve_string_bytes(std::size_t{1} << 40, std::size_t{1} << 40), Error);
  }
  Tensor(DType::string, Shape{2}).reserve_string_bytes(3, 1024);
  const std::string texts[] = {"short", std::string(100, 'x')};
  EXPECT_EQ(string_bytes(texts), 100u);
}

TEST(TensorTest, StringsBeginEmpty) {
  const Tensor words(DType::string, Shape{3});
  for (const std::string& word : words.values<std::string>()) EXPECT_EQ(word, "");
}

}  // namespace
}  // namespace sluice
