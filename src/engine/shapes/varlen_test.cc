#include "engine/shapes/varlen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/encoder_for_tests.h"

namespace sluice::engine {
namespace {

using ::testing::ElementsAre;

std::vector<std::int32_t> input(const VarlenBatch& varlen, std::size_t i) {
  const auto all = varlen.inputs[i].values<std::int32_t>();
  return {all.begin(), all.end()};
}

TEST(VarlenTest, TokensArePackedWithTheirPositions) {
  const Tensor mask = sequences({3, 0, 32, 1}, 32)[1];
  const auto varlen = pack_varlen(mask);
  ASSERT_TRUE(varlen);
  EXPECT_EQ(varlen->tokens, 36);  // of 128 positions, 4 at a time
  EXPECT_THAT(input(*varlen, 3), ElementsAre(0, 3, 3, 35, 36));
  const auto rows = input(*varlen, 0), positions = input(*varlen, 1),
             token_index = input(*varlen, 2);
  for (std::size_t token = 0; token < 36; ++token) {
    EXPECT_EQ(rows[token] % 32, positions[token]);
    EXPECT_EQ(token_index[static_cast<std::size_t>(rows[token])], static_cast<std::int32_t>(token));
  }
  for (std::size_t i = 0; i < token_index.size(); ++i)
    EXPECT_EQ(token_index[i] < 36, mask.values<std::int64_t>()[i] == 1) << i;
}

TEST(VarlenTest, TokensMayBeAnywhereInTheirSequence) {
  const auto varlen = pack_varlen(sequences({5, 9}, 40, 20)[1]);
  ASSERT_TRUE(varlen);
  EXPECT_THAT(input(*varlen, 3), ElementsAre(0, 5, 14));
  EXPECT_EQ(input(*varlen, 1)[0], 20);
}

TEST(VarlenTest, SurplusTokensHaveNoPosition) {
  const auto varlen = pack_varlen(sequences({0, 0}, 320)[1]);
  ASSERT_TRUE(varlen);
  EXPECT_EQ(varlen->tokens, 20);
  for (const std::int32_t index : input(*varlen, 2)) EXPECT_EQ(index, 20);
}

TEST(VarlenTest, InvalidMasksAndFullBatchesAreNotPacked) {
  EXPECT_FALSE(pack_varlen(sequences({64, 64}, 64)[1]));
  EXPECT_THROW(pack_varlen(sequences({64, 63}, 64)[1]), Error) << "as many as without";
  EXPECT_FALSE(pack_varlen(sequences({1, 2}, 4)[1])) << "too few to be worth it";
  const Tensor twos = sequences({30, 2}, 64)[1];
  twos.values<std::int64_t>()[5] = 2;
  EXPECT_THROW(pack_varlen(twos), Error);
  EXPECT_FALSE(pack_varlen(Tensor(DType::i64, {100})));
  EXPECT_FALSE(pack_varlen(Tensor(DType::f64, {10, 10})));
}

TEST(VarlenTest, FirstPositionMustHoldATokenIfItIsRead) {
  EXPECT_TRUE(pack_varlen(sequences({30, 1}, 64)[1], true));
  EXPECT_THROW(pack_varlen(sequences({30, 0}, 64)[1], true), Error);
  EXPECT_THROW(pack_varlen(sequences({30, 20}, 64, 3)[1], true), Error);
}

TEST(VarlenTest, MaskIsRecognizedByTheInputNames) {
  Graph graph;
  for (const char* name : {"ids", "mask", "", "", "", ""}) {
    graph.inputs.push_back(static_cast<ValueId>(graph.values.size()));
    graph.values.push_back({.name = name});
  }
  EXPECT_FALSE(mask_of_varlen(graph, 2));
  for (const bool first : {false, true}) {
    graph.values[2].name = varlen_input_name("mask", 0, first);
    ASSERT_TRUE(mask_of_varlen(graph, 2));
    EXPECT_EQ(mask_of_varlen(graph, 2)->input, 1u);
    EXPECT_EQ(mask_of_varlen(graph, 2)->first, first);
  }
}

TEST(VarlenTest, MasksOfOtherTypesAreSupported) {
  const Tensor mask = sequences({30, 2}, 64)[1], floats(DType::f32, mask.shape()),
               bits(DType::boolean, mask.shape());
  for (std::size_t i = 0; i < 128; ++i) {
    floats.values<float>()[i] = static_cast<float>(mask.values<std::int64_t>()[i]);
    bits.values<bool>()[i] = mask.values<std::int64_t>()[i] != 0;
  }
  for (const Tensor& other : {floats, bits})
    for (std::size_t i = 0; i < VarlenBatch::kInputs; ++i)
      EXPECT_EQ(input(*pack_varlen(other), i), input(*pack_varlen(mask), i));
}

}  // namespace
}  // namespace sluice::engine
