#include "engine/shapes/varlen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/encoder_for_tests.h"

namespace sluice::engine {
namespace {

using ::testing::ElementsAre;

std::vector<std::int32_t> part(const Packing& packing, std::size_t i) {
  const auto all = packing.parts[i].values<std::int32_t>();
  return {all.begin(), all.end()};
}

TEST(PackingTest, TokensLieOneAfterTheOtherAndKnowWhereTheyWere) {
  const Tensor mask = sequences({3, 0, 32, 1}, 32)[1];
  const auto packing = pack(mask);
  ASSERT_TRUE(packing);
  EXPECT_EQ(packing->tokens, 36);  // of 128 places, 4 at a time
  EXPECT_THAT(part(*packing, 3), ElementsAre(0, 3, 3, 35, 36));
  const auto rows = part(*packing, 0), positions = part(*packing, 1), places = part(*packing, 2);
  for (std::size_t token = 0; token < 36; ++token) {
    EXPECT_EQ(rows[token] % 32, positions[token]);
    EXPECT_EQ(places[static_cast<std::size_t>(rows[token])], static_cast<std::int32_t>(token));
  }
  for (std::size_t i = 0; i < places.size(); ++i)
    EXPECT_EQ(places[i] < 36, mask.values<std::int64_t>()[i] == 1) << i;
}

TEST(PackingTest, TokensMayStandAnywhereInTheirSequence) {
  const auto packing = pack(sequences({5, 9}, 40, 20)[1]);
  ASSERT_TRUE(packing);
  EXPECT_THAT(part(*packing, 3), ElementsAre(0, 5, 14));
  EXPECT_EQ(part(*packing, 1)[0], 20);
}

TEST(PackingTest, TokensTooManyArePlacedNowhere) {
  const auto packing = pack(sequences({0, 0}, 320)[1]);
  ASSERT_TRUE(packing);
  EXPECT_EQ(packing->tokens, 20);
  for (const std::int32_t place : part(*packing, 2)) EXPECT_EQ(place, 20);
}

TEST(PackingTest, WhatIsNoMaskOrHasNothingToSkipIsLeftAlone) {
  EXPECT_FALSE(pack(sequences({64, 64}, 64)[1]));
  EXPECT_FALSE(pack(sequences({64, 63}, 64)[1])) << "as many as without";
  EXPECT_FALSE(pack(sequences({1, 2}, 4)[1])) << "too few to be worth it";
  const Tensor twos = sequences({30, 2}, 64)[1];
  twos.values<std::int64_t>()[5] = 2;
  EXPECT_THROW(pack(twos), Error);
  EXPECT_FALSE(pack(Tensor(DType::i64, {100})));
  EXPECT_FALSE(pack(Tensor(DType::f64, {10, 10})));
}

TEST(PackingTest, AFirstPlaceThatIsLookedAtMustHaveAToken) {
  EXPECT_TRUE(pack(sequences({30, 1}, 64)[1], true));
  EXPECT_THROW(pack(sequences({30, 0}, 64)[1], true), Error);
  EXPECT_THROW(pack(sequences({30, 20}, 64, 3)[1], true), Error);
}

TEST(PackingTest, TheMaskIsKnownByTheNamesOfTheParts) {
  Graph graph;
  for (const char* name : {"ids", "mask", "", "", "", ""}) {
    graph.inputs.push_back(static_cast<ValueId>(graph.values.size()));
    graph.values.push_back({.name = name});
  }
  EXPECT_FALSE(mask_of_packed(graph, 2));
  for (const bool first : {false, true}) {
    graph.values[2].name = part_name("mask", 0, first);
    ASSERT_TRUE(mask_of_packed(graph, 2));
    EXPECT_EQ(mask_of_packed(graph, 2)->input, 1u);
    EXPECT_EQ(mask_of_packed(graph, 2)->first, first);
  }
}

TEST(PackingTest, MasksOfOtherTypesAreReadToo) {
  const Tensor mask = sequences({30, 2}, 64)[1], floats(DType::f32, mask.shape()),
               bits(DType::boolean, mask.shape());
  for (std::size_t i = 0; i < 128; ++i) {
    floats.values<float>()[i] = static_cast<float>(mask.values<std::int64_t>()[i]);
    bits.values<bool>()[i] = mask.values<std::int64_t>()[i] != 0;
  }
  for (const Tensor& other : {floats, bits})
    for (std::size_t i = 0; i < Packing::kParts; ++i)
      EXPECT_EQ(part(*pack(other), i), part(*pack(mask), i));
}

}  // namespace
}  // namespace sluice::engine
