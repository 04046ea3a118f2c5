#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "engine/ops/run_for_tests.h"
#include "kernels/gemm/gemm.h"

namespace sluice::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ints = std::vector<std::int64_t>;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor floats(const Shape& shape, std::vector<float> values) { return tensor_of(shape, values); }
Tensor ints(const Shape& shape, std::vector<std::int64_t> values) {
  return tensor_of(shape, values);
}

// Compares with a naive GEMM in double.
template <class T>
void expect_gemm(std::int64_t m, std::int64_t n, std::int64_t k, bool flip) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> value(-1, 1);
  std::vector<T> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n));
  for (T& x : a) x = static_cast<T>(value(random));
  for (T& x : b) x = static_cast<T>(value(random));
  std::vector<T> c(static_cast<std::size_t>(m * n), T(99));
  compute::Workers workers(2);
  const kernels::MatrixView<T> left{a.data(), k, 1};
  const kernels::MatrixView<T> right =
      flip ? kernels::MatrixView<T>{b.data(), 1, k} : kernels::MatrixView<T>{b.data(), n, 1};
  kernels::matmul<T>(workers, m, n, k, left, right, c.data(), n);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t x = 0; x < k; ++x)
        sum += static_cast<double>(left.data[i * left.row + x * left.column]) *
               static_cast<double>(right.data[x * right.row + j * right.column]);
      ASSERT_NEAR(static_cast<double>(c[static_cast<std::size_t>(i * n + j)]), sum, 1e-4)
          << m << " x " << n << " x " << k << " at " << i << ", " << j;
    }
}

TEST(GemmTest, GemmIsCorrectForAllShapes) {
  for (const std::int64_t m : {1, 5, 6, 7, 97})
    for (const std::int64_t n : {1, 15, 33, 70})
      for (const std::int64_t k : {0, 1, 255, 300}) {
        expect_gemm<float>(m, n, k, false);
        expect_gemm<double>(m, n, k, true);
      }
}

TEST(MatMulTest, BatchDimensionsAreBroadcast) {
  const Tensor a = floats({2, 1, 1, 2}, {1, 2, 3, 4}), b = floats({3, 2, 1}, {1, 0, 0, 1, 1, 1});
  const Tensor c = run_one({"MatMul", 13}, {a, b});
  EXPECT_EQ(c.shape(), (Shape{2, 3, 1, 1}));
  EXPECT_THAT(list_of<float>(c), ElementsAre(1, 2, 3, 3, 4, 7));
}

TEST(MatMulTest, EmptyInnerDimensionGivesZeros) {
  const Tensor c = run_one({"MatMul", 13}, {floats({2, 0}, {}), floats({0, 1}, {})});
  EXPECT_THAT(list_of<float>(c), ElementsAre(0, 0));
}

TEST(MatMulTest, HugeBatchesOfEmptyMatricesCostNothing) {
  const std::int64_t huge = std::int64_t{1} << 40;
  const Tensor c =
      run_one({"MatMul", 13}, {floats({huge, 0, 3}, {}), floats({1, 3, 2}, {0, 0, 0, 0, 0, 0})});
  EXPECT_EQ(c.shape(), (Shape{huge, 0, 2}));
}

TEST(MatMulTest, MismatchedShapesAreRejected) {
  EXPECT_THAT(refusal({"MatMul", 13}, {floats({2, 3}, {1, 2, 3, 4, 5, 6}), floats({2}, {1, 2})}),
              HasSubstr("do not fit"));
  EXPECT_THAT(refusal({"MatMul", 13}, {floats({}, {1}), floats({1}, {1})}), HasSubstr("scalar"));
  EXPECT_THAT(
      refusal({"Gemm", 13}, {floats({1, 1}, {1}), floats({1, 1}, {1}), floats({2}, {1, 2})}),
      HasSubstr("bias"));
}

TEST(ReduceTest, EmptyReductionsGiveTheLimitsOfTheType) {
  const Tensor nothing(DType::i32, Shape{2, 0});
  const Tensor axis = ints({1}, {1});
  EXPECT_THAT(list_of<std::int32_t>(
                  run_one({"ReduceMax", 20, {{"keepdims", std::int64_t{0}}}}, {nothing, axis})),
              ElementsAre(std::numeric_limits<std::int32_t>::lowest(),
                          std::numeric_limits<std::int32_t>::lowest()));
  EXPECT_THAT(list_of<float>(run_one({"ReduceMin", 20}, {floats({1, 0}, {}), axis})),
              ElementsAre(kInfinity));
  EXPECT_THAT(list_of<float>(run_one({"ReduceProd", 18}, {floats({1, 0}, {}), axis})),
              ElementsAre(1));
}

TEST(ReduceTest, NonAdjacentAxesAreReduced) {
  std::vector<float> values(2 * 3 * 4 * 5);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Tensor sums =
      run_one({"ReduceSum", 11, {{"axes", Ints{0, -2}}, {"keepdims", std::int64_t{0}}}},
              {floats({2, 3, 4, 5}, values)});
  ASSERT_EQ(sums.shape(), (Shape{3, 5}));
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 5; ++j) {
      float want = 0;
      for (std::size_t a = 0; a < 2; ++a)
        for (std::size_t b = 0; b < 4; ++b) want += values[((a * 3 + i) * 4 + b) * 5 + j];
      EXPECT_EQ(sums.values<float>()[i * 5 + j], want);
    }
}

TEST(ReduceTest, EmptyAxesStillApplyTheElementwiseFunction) {
  const OneNode node{"ReduceSumSquare", 18, {{"noop_with_empty_axes", std::int64_t{1}}}};
  EXPECT_THAT(list_of<float>(run_one(node, {floats({2}, {2, 3})})), ElementsAre(4, 9));
}

TEST(ReduceTest, InvalidOrDuplicateAxesAreRejected) {
  const Tensor x = floats({2}, {1, 2});
  EXPECT_THAT(refusal({"ReduceSum", 13}, {x, ints({1}, {1})}), HasSubstr("axis"));
  EXPECT_THAT(refusal({"ReduceSum", 13}, {x, ints({2}, {0, -1})}), HasSubstr("twice"));
  EXPECT_THAT(refusal({"ArgMax", 13}, {floats({0}, {})}), HasSubstr("no elements"));
}

TEST(SoftmaxTest, SoftmaxFlattensTrailingAxesBeforeOpset13) {
  const Tensor x = floats({1, 2, 2}, {0, 0, 0, 0});
  EXPECT_THAT(list_of<float>(run_one({"Softmax", 11}, {x})), ElementsAre(.25, .25, .25, .25));
  EXPECT_THAT(list_of<float>(run_one({"Softmax", 13}, {x})), ElementsAre(.5, .5, .5, .5));
}

TEST(RunningTest, HugeShapesWithoutElementsCostNothing) {
  const std::int64_t huge = std::int64_t{1} << 50;
  const Tensor x(DType::f32, Shape{huge, 0});
  EXPECT_EQ(run_one({"CumSum", 14}, {x, ints({}, {1})}).shape(), (Shape{huge, 0}));
  EXPECT_EQ(run_one({"Softmax", 13}, {x}).shape(), (Shape{huge, 0}));
}

TEST(DivisionTest, IntegerDivisionByZeroIsRejectedAndMinByMinusOneWraps) {
  const std::int64_t min = std::numeric_limits<std::int64_t>::min();
  EXPECT_THAT(refusal({"Div", 14}, {ints({1}, {1}), ints({1}, {0})}), HasSubstr("by zero"));
  EXPECT_THAT(refusal({"Mod", 13}, {ints({1}, {1}), ints({1}, {0})}), HasSubstr("by zero"));
  EXPECT_THAT(list_of<std::int64_t>(run_one({"Div", 14}, {ints({1}, {min}), ints({1}, {-1})})),
              ElementsAre(min));
  EXPECT_THAT(list_of<std::int64_t>(run_one({"Mod", 13}, {ints({1}, {min}), ints({1}, {-1})})),
              ElementsAre(0));
}

TEST(BinaryTest, AxisAttributeControlsBroadcastingBeforeOpset7) {
  const OneNode node{"Add", 6, {{"broadcast", std::int64_t{1}}, {"axis", std::int64_t{0}}}};
  const Tensor x = floats({2, 2}, {0, 0, 0, 0});
  EXPECT_THAT(list_of<float>(run_one(node, {x, floats({2}, {1, 2})})), ElementsAre(1, 1, 2, 2));
  const OneNode outside{"Add", 6, {{"broadcast", std::int64_t{1}}, {"axis", std::int64_t{-9}}}};
  EXPECT_THAT(refusal(outside, {x, floats({2}, {1, 2})}), HasSubstr("outside"));
}

TEST(PowTest, IntegersStayIntegers) {
  const Tensor power =
      run_one({"Pow", 15}, {ints({4}, {3, -1, 2, 1}), ints({4}, {39, -3, -1, -5})});
  EXPECT_THAT(list_of<std::int64_t>(power), ElementsAre(4052555153018976267, -1, 0, 1));
}

TEST(ClipTest, BoundsWereAttributesBeforeOpset11) {
  const Tensor x = floats({3}, {-2, 0, 2});
  EXPECT_THAT(list_of<float>(run_one({"Clip", 6, {{"min", -1.0f}}}, {x})), ElementsAre(-1, 0, 2));
  EXPECT_THAT(list_of<float>(run_one({"Clip", 13}, {x, Datum(), floats({}, {1})})),
              ElementsAre(-2, 0, 1));
  EXPECT_THAT(refusal({"Clip", 13}, {x, ints({}, {1})}), HasSubstr("bound"));
}

}  // namespace
}  // namespace sluice::engine
