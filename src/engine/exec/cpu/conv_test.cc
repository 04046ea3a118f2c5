#include "engine/exec/cpu/gemm_for_tests.h"

namespace sluice::engine::cpu {
namespace {

using Ints = std::vector<std::int64_t>;
constexpr float kTolerance = 2e-5f;  // for sums of a few hundred terms

struct Geometry {
  std::int64_t batch, high, wide, in, out, group;
  Ints kernel;
  Ints strides{1, 1}, dilations{1, 1}, pads{0, 0, 0, 0};

  Shape result(std::int64_t channels) const {
    const auto size = [&](std::size_t i, std::int64_t from) {
      return (from + pads[i] + pads[i + 2] - (kernel[i] - 1) * dilations[i] - 1) / strides[i] + 1;
    };
    return {batch, size(0, high), size(1, wide), channels};
  }
};

std::ostream& operator<<(std::ostream& to, const Geometry& g) {
  to << g.batch << " x " << g.high << " x " << g.wide << " x " << g.in << " -> " << g.out << " in "
     << g.group << " groups, " << g.kernel[0] << " x " << g.kernel[1] << ", strides "
     << g.strides[0] << " " << g.strides[1] << ", dilations " << g.dilations[0] << " "
     << g.dilations[1] << ", pads";
  for (const std::int64_t pad : g.pads) to << " " << pad;
  return to;
}

KernelCase conv(const Geometry& g, const std::string& activation, bool bias, bool residual) {
  OneNode what{"Conv",
               1,
               {{"strides", g.strides},
                {"dilations", g.dilations},
                {"pads", g.pads},
                {"group", g.group},
                {"activation", activation},
                {"low", -0.25f},
                {"high", 0.5f}},
               1,
               "sluice"};
  return {what,
          {random_tensor({g.batch, g.high, g.wide, g.in}, 1),
           random_tensor({g.out, g.in / g.group, g.kernel[0], g.kernel[1]}, 2),
           bias ? random_tensor({g.out}, 3) : Tensor(),
           residual ? random_tensor(g.result(g.out), 4) : Tensor()}};
}

void expect_right(const Geometry& g, const std::string& activation, bool residual,
                  float tolerance = kTolerance) {
  SCOPED_TRACE(testing::Message() << g << ", " << activation);
  const KernelCase of = conv(g, activation, residual, residual);
  const Tensor expected = of.expected();
  expect_close(of.made(g.result(g.out), 2), expected, tolerance);
  if (residual) expect_close(of.made(g.result(g.out), 2, true), expected, tolerance);
}

TEST(ConvTest, CommonLayersAreRightOnAllInstructionSets) {
  for_each_target([] {
    for (const Geometry& g : {
             Geometry{1, 7, 7, 40, 33, 1, {1, 1}},                                 // pointwise
             Geometry{2, 9, 8, 20, 40, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},   // im2col
             Geometry{1, 9, 9, 16, 12, 1, {1, 1}, {2, 2}},                         // strided
             Geometry{2, 20, 23, 3, 18, 1, {7, 7}, {2, 2}, {1, 1}, {3, 3, 3, 3}},  // im2col_lines
             Geometry{2, 9, 8, 37, 37, 37, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},  // depthwise
             Geometry{1, 6, 6, 12, 8, 4, {3, 3}, {1, 1}, {1, 1}, {0, 1, 1, 0}},    // grouped
             Geometry{1, 5, 5, 4, 8, 4, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},     // grouped
         })
      expect_right(g, "relu", true);
  });
}

TEST(ConvTest, EveryActivationIsRight) {
  for (const char* activation :
       {"none", "relu", "gelu", "gelu_tanh", "tanh", "sigmoid", "silu", "hard_swish", "clip"})
    for (const bool residual : {false, true}) {
      expect_right({1, 6, 5, 9, 20, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}, activation, residual);
      expect_right({1, 6, 5, 20, 20, 20, {3, 3}}, activation, residual);
    }
}

TEST(ConvTest, RandomGeometriesAreRight) {
  std::mt19937 random(11);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int i = 0; i < 60; ++i) {
    const std::int64_t group = pick(0, 2) == 0 ? pick(2, 5) : 1;
    Geometry g{.batch = pick(1, 2),
               .high = pick(8, 14),
               .wide = pick(8, 14),
               .in = group * pick(1, 12),
               .out = group * pick(1, 20),
               .group = group,
               .kernel = {pick(1, 4), pick(1, 4)},
               .strides = {pick(1, 3), pick(1, 3)},
               .dilations = {pick(1, 2), pick(1, 2)},
               .pads = {pick(0, 2), pick(0, 2), pick(0, 2), pick(0, 2)}};
    expect_right(g, i % 2 == 0 ? "none" : "clip", i % 3 == 0);
  }
}

TEST(ConvTest, DepthwiseIsRightWithCommonKernelsOnAllInstructionSets) {
  for_each_target([] {
    for (const std::int64_t kernel : {3, 5})
      for (const std::int64_t stride : {1, 2})
        for (const std::int64_t wide : {5, 12, 19}) {
          const std::int64_t pad = kernel / 2;
          expect_right({2,
                        9,
                        wide,
                        37,
                        37,
                        37,
                        {kernel, kernel},
                        {stride, stride},
                        {1, 1},
                        {pad, pad, pad, pad}},
                       "clip", wide == 12);
        }
  });
}

TEST(ConvTest, ManyChannelsAndTapsContinueTheirSums) {
  expect_right({1, 5, 5, 300, 40, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}, "relu", true, 2e-4f);
}

Geometry three_by_three(std::int64_t batch, std::int64_t high, std::int64_t wide, std::int64_t in,
                        std::int64_t out, Ints pads = {1, 1, 1, 1}) {
  return {batch, high, wide, in, out, 1, {3, 3}, {1, 1}, {1, 1}, std::move(pads)};
}

// For inputs and weights from -1 to 1, with sums of a few hundred terms.
constexpr float kWinogradTolerance = 5e-5f;

TEST(WinogradTest, TilesOfBothSizesAreRightOnAllInstructionSets) {
  for_each_target([] {
    for (const Geometry& g : {three_by_three(1, 14, 14, 64, 64), three_by_three(2, 28, 28, 32, 48),
                              three_by_three(1, 29, 31, 48, 80), three_by_three(2, 13, 15, 32, 32),
                              three_by_three(1, 30, 31, 32, 64, {0, 0, 0, 0}),
                              three_by_three(1, 30, 29, 32, 32, {2, 0, 1, 2})})
      expect_right(g, "relu", true, kWinogradTolerance);
  });
}

TEST(WinogradTest, ErrorWithManyChannelsIsAFewMillionthsOfTheMaximum) {
  for (const std::int64_t size : {14, 28}) {  // tiles of 2 x 2, of 4 x 4
    const Geometry g = three_by_three(1, size, size, 256, 64);
    const KernelCase of = conv(g, "none", false, false);
    const Tensor expected = of.expected(), made = of.made(g.result(64), 2);
    float largest = 0, off = 0;
    for (std::size_t i = 0; i < expected.values<float>().size(); ++i) {
      const float should = expected.values<float>()[i];
      largest = std::max(largest, std::abs(should));
      off = std::max(off, std::abs(made.values<float>()[i] - should));
    }
    EXPECT_LT(off, 3e-6f * largest) << size;
  }
}

TEST(WinogradTest, EveryActivationIsRight) {
  for (const char* activation :
       {"none", "relu", "gelu", "gelu_tanh", "tanh", "sigmoid", "silu", "hard_swish", "clip"})
    for (const bool residual : {false, true})
      expect_right(three_by_three(1, 14, 13, 32, 32), activation, residual, kWinogradTolerance);
}

TEST(WinogradTest, ImageDoesNotDependOnTheBatchOrTheThreads) {
  for (const std::int64_t size : {14, 28}) {
    const Geometry g = three_by_three(5, size, size, 64, 64);
    const KernelCase many = conv(g, "relu", true, false);
    const Tensor all = many.made(g.result(64), 3);
    KernelCase one = many;
    one.inputs[0] = Tensor(DType::f32, {1, size, size, 64});
    const std::int64_t image = size * size * 64;
    std::copy_n(many.inputs[0].values<float>().begin() + 3 * image, image,
                one.inputs[0].values<float>().begin());
    const Tensor alone = one.made({1, size, size, 64}, 1);
    EXPECT_TRUE(std::equal(alone.values<float>().begin(), alone.values<float>().end(),
                           all.values<float>().begin() + 3 * image));
  }
}

TEST(PoolTest, RandomWindowsAreRightOnAllInstructionSets) {
  std::mt19937 random(5);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int i = 0; i < 20; ++i) {
    const Ints kernel{pick(2, 4), pick(2, 4)};
    const Geometry g{.batch = pick(1, 2),
                     .high = pick(6, 12),
                     .wide = pick(6, 12),
                     .in = pick(1, 80),
                     .out = 0,
                     .group = 1,
                     .kernel = kernel,
                     .strides = {pick(1, 3), pick(1, 3)},
                     .pads = {pick(0, 1), pick(0, 1), pick(0, 1), pick(0, 1)}};
    for (const char* op : {"MaxPool", "AveragePool"}) {
      SCOPED_TRACE(testing::Message() << op << " " << g);
      const OneNode what{op,
                         1,
                         {{"kernel", kernel},
                          {"strides", g.strides},
                          {"pads", g.pads},
                          {"count_include_pad", std::int64_t{i % 2}}},
                         1,
                         "sluice"};
      const KernelCase of{what, {random_tensor({g.batch, g.high, g.wide, g.in}, 1)}};
      const Tensor expected = of.expected();
      for_each_target([&] { expect_close(of.made(g.result(g.in), 2), expected, kTolerance); });
    }
  }
}

TEST(PoolTest, GlobalMeanIsRightWithAndWithoutKeptAxes) {
  for (const std::int64_t keep : {0, 1}) {
    const KernelCase of{{"ReduceMean", 13, {{"axes", Ints{1, 2}}, {"keepdims", keep}}},
                        {random_tensor({2, 7, 9, 37}, 1)}};
    const Shape shape = keep == 1 ? Shape{2, 1, 1, 37} : Shape{2, 37};
    for_each_target([&] { expect_close(of.made(shape, 2), of.expected(), kTolerance); });
  }
}

TEST(PoolTest, NanIsTheMaximum) {
  const Tensor x = random_tensor({1, 2, 2, 40}, 1);
  x.values<float>()[0] = x.values<float>()[45] = std::numeric_limits<float>::quiet_NaN();
  const KernelCase of{{"MaxPool", 1, {{"kernel", Ints{2, 2}}}, 1, "sluice"}, {x}};
  const Tensor y = of.made({1, 1, 1, 40}, 1);
  EXPECT_TRUE(std::isnan(y.values<float>()[0]));
  EXPECT_TRUE(std::isnan(y.values<float>()[5]));
  EXPECT_FALSE(std::isnan(y.values<float>()[1]));
}

}  // namespace
}  // namespace sluice::engine::cpu
