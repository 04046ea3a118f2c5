#include "engine/shapes/batch_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/ops/run_for_tests.h"

namespace sluice::engine {
namespace {

using ::testing::ElementsAre;

// Doubles its input; fails above `max` batch items.
struct Doubler {
  std::int64_t max;
  std::vector<std::int64_t> tried{};

  std::vector<Datum> operator()(std::span<const Datum> inputs) {
    const Tensor& x = inputs[0].tensor;
    tried.push_back(x.shape()[0]);
    if (x.shape()[0] > max) throw Error(Code::exhausted, "no memory");
    const Tensor y(DType::f32, x.shape());
    for (std::int64_t i = 0; i < x.size(); ++i)
      y.values<float>()[static_cast<std::size_t>(i)] =
          2 * x.values<float>()[static_cast<std::size_t>(i)];
    return {y};
  }
};

std::size_t nothing() { return 0; }

TEST(BatchSplitTest, ChunksAreAsLargeAsMemoryAllows) {
  Doubler doubler{.max = 2};
  const Datum x(tensor_of<float>({5, 1}, {1, 2, 3, 4, 5}));
  const SplitResult made =
      run_split(std::span(&x, 1), {{true}, 5}, 5, {std::ref(doubler), nothing});
  EXPECT_EQ(list_of<float>(made.results[0].tensor), (std::vector<float>{2, 4, 6, 8, 10}));
  EXPECT_THAT(doubler.tried, ElementsAre(5, 3, 2, 2, 1));
  EXPECT_EQ(made.chunk, 2);
}

TEST(BatchSplitTest, FirstChunkHasTheRequestedSize) {
  Doubler doubler{.max = 100};
  const Datum x(tensor_of<float>({3, 1}, {1, 2, 3}));
  EXPECT_EQ(run_split(std::span(&x, 1), {{true}, 3}, 2, {std::ref(doubler), nothing}).chunk, 2);
  EXPECT_THAT(doubler.tried, ElementsAre(2, 1));
}

TEST(BatchSplitTest, KeptMemoryIsReleasedBeforeSplitting) {
  Doubler doubler{.max = 2};
  const Datum x(tensor_of<float>({3, 1}, {1, 2, 3}));
  const auto trim = [&]() -> std::size_t {
    doubler.max = 3;
    return 100;
  };
  EXPECT_EQ(run_split(std::span(&x, 1), {{true}, 3}, 3, {std::ref(doubler), trim}).chunk, 3);
  EXPECT_THAT(doubler.tried, ElementsAre(3, 3));
}

TEST(BatchSplitTest, ErrorsPropagateIfNoChunkFits) {
  Doubler doubler{.max = 0};
  const Datum x(tensor_of<float>({3, 1}, {1, 2, 3}));
  EXPECT_THROW(run_split(std::span(&x, 1), {{true}, 3}, 3, {std::ref(doubler), nothing}), Error);
  EXPECT_THAT(doubler.tried, ElementsAre(3, 2, 1));
}

TEST(BatchSplitTest, InputsWithoutBatchAxisAreNotSplit) {
  const Datum inputs[] = {tensor_of<float>({4, 1}, {1, 2, 3, 4}), tensor_of<float>({3}, {7, 8, 9})};
  std::vector<std::int64_t> seen;
  const auto run = [&](std::span<const Datum> given) {
    seen.push_back(given[1].tensor.shape()[0]);
    return std::vector<Datum>{given[0]};
  };
  run_split(inputs, {{true, false}, 4}, 3, {run, nothing});
  EXPECT_THAT(seen, ElementsAre(3, 3));
}

}  // namespace
}  // namespace sluice::engine
