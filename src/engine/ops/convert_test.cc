#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/ops/run_for_tests.h"

namespace sluice::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class From, class To>
std::vector<To> cast(std::vector<From> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return list_of<To>(run_one({"Cast", 25, {{"to", static_cast<std::int64_t>(kDTypeOf<To>)}}},
                             {tensor_of(Shape{size}, std::move(values))}));
}

TEST(CastTest, StringsAreParsedAndFormattedAsNumbers) {
  EXPECT_THAT((cast<std::string, float>({"3.5", "1e-3", "-INF", "+inf"})),
              ElementsAre(3.5f, 1e-3f, -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::infinity()));
  EXPECT_TRUE(std::isnan((cast<std::string, double>({"NaN"})[0])));
  EXPECT_THAT((cast<std::string, std::int64_t>({"9007199254740993", "100.5"})),
              ElementsAre(9007199254740993, 100));
  EXPECT_THAT((cast<float, std::string>({0.47892547f, 1e-7f, 1.0f, -2.5e20f})),
              ElementsAre("0.47892547", "1e-07", "1.0", "-2.5e+20"));
  EXPECT_THAT((cast<std::uint64_t, std::string>({~std::uint64_t{0}})),
              ElementsAre("18446744073709551615"));
}

TEST(CastTest, InvalidNumbersAreRejected) {
  const OneNode to_float{"Cast", 13, {{"to", std::int64_t{1}}}};
  EXPECT_THAT(refusal(to_float, {tensor_of<std::string>({1}, {"4 apples"})}),
              HasSubstr("'4 apples' is no number"));
  EXPECT_THAT(refusal(to_float, {tensor_of<std::string>({1}, {""})}), HasSubstr("is no number"));
  EXPECT_THAT(refusal({"Cast", 13, {{"to", std::int64_t{99}}}}, {tensor_of<float>({1}, {1})}),
              HasSubstr("element type 99"));
  EXPECT_THAT(refusal({"Cast", 13}, {tensor_of<float>({1}, {1})}), HasSubstr("'to'"));
}

TEST(CastTest, IntegersKeepTheirLowBitsAndFloatsAreTruncated) {
  EXPECT_THAT((cast<std::int64_t, std::int8_t>({300, -129})), ElementsAre(44, 127));
  EXPECT_THAT((cast<double, std::int32_t>({2.9, -2.9})), ElementsAre(2, -2));
  EXPECT_THAT((cast<double, std::uint64_t>({0x1p63})), ElementsAre(std::uint64_t{1} << 63));
  EXPECT_THAT((cast<double, std::int64_t>({1e300, std::nan("")})),
              ElementsAre(std::numeric_limits<std::int64_t>::min(),
                          std::numeric_limits<std::int64_t>::min()));
  EXPECT_THAT((cast<float, bool>({0, -0.0f, 0.5f})), ElementsAre(false, false, true));
}

TEST(CastTest, DoublesAreRoundedOnce) {
  // Just above the midpoint of two halves; converted through float it would be exactly the
  // midpoint.
  const double above = 1.0 + 0x1p-11 + 0x1p-40;
  EXPECT_EQ(static_cast<float>((cast<double, Half>({above})[0])), 1.0f + 0x1p-10f);
}

TEST(CastTest, PowersOfTwoFollowTheRoundMode) {
  const auto cast_by = [](const char* mode, float value) {
    const OneNode node{"Cast", 25, {{"to", std::int64_t{24}}, {"round_mode", std::string(mode)}}};
    return static_cast<float>(
        list_of<Float8E8M0>(run_one(node, {tensor_of<float>({1}, {value})}))[0]);
  };
  EXPECT_EQ(cast_by("up", 5), 8);
  EXPECT_EQ(cast_by("down", 7), 4);
  EXPECT_EQ(cast_by("nearest", 5), 4);
  EXPECT_EQ(cast_by("nearest", 6), 8);
  EXPECT_EQ(cast_by("up", 0x1.8p127f), 0x1p127f);
}

TEST(BitCastTest, DifferentWidthsAreRejected) {
  EXPECT_THAT(refusal({"BitCast", 26, {{"to", std::int64_t{7}}}}, {tensor_of<float>({1}, {1})}),
              HasSubstr("other bits"));
}

TEST(QuantizeTest, ScalesMustMatchTheirAxisAndBlocks) {
  const Tensor x = tensor_of<float>({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor three = tensor_of<float>({3}, {1, 1, 1});
  EXPECT_THAT(refusal({"QuantizeLinear", 21}, {x, three}), HasSubstr("scales of shape"));
  EXPECT_THAT(refusal({"QuantizeLinear", 21, {{"axis", std::int64_t{5}}}}, {x, three}),
              HasSubstr("axis"));
  const Tensor blocks = tensor_of<float>({2, 2}, {1, 2, 1, 2});
  const OneNode node{
      "QuantizeLinear", 21, {{"axis", std::int64_t{1}}, {"block_size", std::int64_t{3}}}};
  EXPECT_THAT(list_of<std::uint8_t>(run_one(node, {x, blocks})),
              ElementsAre(1, 2, 3, 2, 5, 6, 7, 4));
  EXPECT_THAT(refusal({"QuantizeLinear", 21}, {x, blocks}), HasSubstr("scales of shape"));
}

TEST(EinsumTest, MismatchedEquationsAreRejected) {
  const Tensor x = tensor_of<float>({2, 2}, {1, 2, 3, 4});
  const auto ask = [&](const char* equation, std::vector<Datum> inputs) {
    return refusal({"Einsum", 12, {{"equation", std::string(equation)}}}, inputs);
  };
  EXPECT_THAT(ask("ij,jk->ik", {x}), HasSubstr("more terms"));
  EXPECT_THAT(ask("ij", {x, x}), HasSubstr("fewer terms"));
  EXPECT_THAT(ask("ijk->i", {x}), HasSubstr("term 'ijk'"));
  EXPECT_THAT(ask("ij->ik", {x}), HasSubstr("no input has"));
  EXPECT_THAT(ask("i!->i", {x}), HasSubstr("'!'"));
  EXPECT_THAT(ask("ij,j->i", {x, tensor_of<float>({3}, {1, 2, 3})}), HasSubstr("sizes 2 and 3"));
}

TEST(EinsumTest, DiagonalsBroadcastingAndThreeInputsWork) {
  const Tensor x = tensor_of<float>({2, 2}, {1, 2, 3, 4}), y = tensor_of<float>({2}, {10, 100});
  const auto ask = [&](const char* equation, std::vector<Datum> inputs) {
    return list_of<float>(run_one({"Einsum", 12, {{"equation", std::string(equation)}}}, inputs));
  };
  EXPECT_THAT(ask("ii->i", {x}), ElementsAre(1, 4));
  EXPECT_THAT(ask("ii", {x}), ElementsAre(5));
  EXPECT_THAT(ask("ba", {x}), ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(ask("...j, j -> ...", {x, y}), ElementsAre(210, 430));
  EXPECT_THAT(ask("i,ij,j", {y, x, y}), ElementsAre(1 * 100 + 2 * 1000 + 3 * 1000 + 4 * 10000));
}

TEST(NormalizeTest, ScalesOfAnotherSizeAreRejected) {
  const Tensor x = tensor_of<float>({1, 2, 2}, {1, 2, 3, 4}),
               three = tensor_of<float>({3}, {1, 1, 1});
  EXPECT_NE(refusal({"LayerNormalization", 17}, {x, three}), "accepted");
  EXPECT_THAT(refusal({"InstanceNormalization", 6}, {x, three, three}), HasSubstr("2 numbers"));
  EXPECT_THAT(refusal({"BatchNormalization", 15}, {x, three, three, three, three}),
              HasSubstr("2 numbers"));
  EXPECT_THAT(
      refusal({"GroupNormalization", 21, {{"num_groups", std::int64_t{0}}}}, {x, three, three}),
      HasSubstr("groups"));
}

TEST(NormalizeTest, HugeShapesWithoutElementsCostNothing) {
  const Tensor x(DType::f32, Shape{std::int64_t{1} << 50, 2, 0});
  const Tensor two = tensor_of<float>({2}, {1, 1});
  EXPECT_EQ(run_one({"InstanceNormalization", 6}, {x, two, two}).shape(), x.shape());
  EXPECT_EQ(run_one({"BatchNormalization", 15}, {x, two, two, two, two}).shape(), x.shape());
  EXPECT_EQ(
      run_one({"MeanVarianceNormalization", 13, {{"axes", std::vector<std::int64_t>{1}}}}, {x})
          .shape(),
      x.shape());
  EXPECT_THAT(refusal({"RMSNormalization", 23}, {x, tensor_of<float>({0}, {})}),
              HasSubstr("rows without elements"));
}

TEST(NormalizeTest, TrainingUpdatesRunningStatistics) {
  const Tensor x = tensor_of<float>({2, 1}, {1, 3}), one = tensor_of<float>({1}, {1});
  const Tensor zero = tensor_of<float>({1}, {0});
  const OneNode node{"BatchNormalization",
                     15,
                     {{"training_mode", std::int64_t{1}}, {"momentum", 0.5f}, {"epsilon", 0.0f}},
                     3};
  const std::vector<Datum> outputs = run_alone(node, {x, one, zero, zero, one});
  EXPECT_THAT(list_of<float>(outputs[0].tensor), ElementsAre(-1, 1));
  EXPECT_THAT(list_of<float>(outputs[1].tensor), ElementsAre(1));
  EXPECT_THAT(list_of<float>(outputs[2].tensor), ElementsAre(1));
}

TEST(NormalizeTest, ZeroNormGivesZeros) {
  EXPECT_THAT(list_of<float>(run_one({"LpNormalization", 22}, {tensor_of<float>({2}, {0, 0})})),
              ElementsAre(0, 0));
}

}  // namespace
}  // namespace sluice::engine
