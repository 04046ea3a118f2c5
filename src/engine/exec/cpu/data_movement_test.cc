#include "engine/exec/cpu/kernel_for_tests.h"

namespace sluice::engine::cpu {
namespace {

using Ints = Attributes::Integers;

void expect_same(const KernelTest& test, std::string_view what) {
  ASSERT_EQ(test.kernel().name(), what);
  EXPECT_EQ(list_of<float>(test.run()), list_of<float>(test.expected()));
}

TEST(DataMovementTest, TransposeMatchesTheOperatorForAnyPermutation) {
  const Tensor x = varied({3, 40, 5, 37});
  Ints order{0, 1, 2, 3};
  do expect_same({onnx_node("Transpose", 13, {{"perm", order}}), {x}}, "transpose");
  while (std::next_permutation(order.begin(), order.end()));
  expect_same({onnx_node("Transpose", 13), {x}}, "transpose");
}

TEST(DataMovementTest, ImagesOfFewChannelsAreInterleaved) {
  for (const std::int64_t planes : {2, 3, 4})
    expect_same(
        {onnx_node("Transpose", 13, {{"perm", Ints{0, 2, 3, 1}}}), {varied({2, planes, 90, 70})}},
        "NCHW to NHWC interleave");
}

TEST(DataMovementTest, ConcatMatchesTheOperatorAlongAnyAxis) {
  for (const std::int64_t axis : {0, 1, 2, -1}) {
    std::vector<Tensor> parts;
    for (const std::int64_t size : {3, 1, 70}) {
      Shape shape{4, 5, 6};
      shape[static_cast<int>(axis < 0 ? axis + 3 : axis)] = size;
      parts.push_back(varied(shape, static_cast<unsigned>(size)));
    }
    expect_same({onnx_node("Concat", 13, {{"axis", axis}}), parts}, "concat");
  }
}

TEST(DataMovementTest, GatherMatchesTheOperatorAlongAnyAxisWithNegativeIndices) {
  const std::vector<std::int64_t> indices{2, -1, 0, 2};
  for (const std::int64_t axis : {0, 1, 2})
    expect_same({onnx_node("Gather", 13, {{"axis", axis}}),
                 {varied({4, 5, 6}), Tensor::of(std::span<const std::int64_t>(indices))}},
                "gather");
}

TEST(DataMovementTest, IndexOutOfRangeIsRefused) {
  const std::vector<std::int32_t> good{1}, bad{4};
  const KernelTest test(onnx_node("Gather", 13),
                        {varied({4, 5}), Tensor::of(std::span<const std::int32_t>(good))});
  const Tensor x = varied({4, 5}), y(DType::f32, {1, 5});
  void* const from[] = {x.data(), const_cast<std::int32_t*>(bad.data())};
  void* const to[] = {y.data()};
  EXPECT_THROW(test.kernel().run({from, to}), Error);
}

}  // namespace
}  // namespace sluice::engine::cpu
