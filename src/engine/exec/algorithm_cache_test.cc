#include "engine/exec/algorithm_cache.h"

#include <gtest/gtest.h>

namespace sluice::engine {
namespace {

TEST(ChoiceTable, GivesBackWhatWasChosen) {
  ChoiceTable table;
  EXPECT_EQ(table.find("product"), nullptr);
  table.set("product", "a");
  table.set("product", "b");
  ASSERT_NE(table.find("product"), nullptr);
  EXPECT_EQ(*table.find("product"), "b");
  table.erase("product");
  table.erase("product");
  EXPECT_EQ(table.find("product"), nullptr);
  EXPECT_EQ(table.bytes(), 0u);
}

TEST(ChoiceTable, HoldsNoMoreBytesThanItMay) {
  ChoiceTable table(10'000);
  for (int i = 0; i < 10'000; ++i) {
    table.set("product of " + std::to_string(i), std::string(100, 'x'));
    ASSERT_LE(table.bytes(), 10'000u);
  }
  EXPECT_GT(table.all().size(), 70u);
  EXPECT_LT(table.all().size(), 100u);
}

TEST(ChoiceTable, ForgetsWhatWasNotAskedForLongest) {
  ChoiceTable table(30);  // ten of three bytes
  for (char c = 'a'; c < 'a' + 10; ++c) table.set(std::string(1, c), "xx");
  EXPECT_NE(table.find("a"), nullptr);
  table.set("z", "xx");
  EXPECT_NE(table.find("a"), nullptr);
  EXPECT_EQ(table.find("b"), nullptr);
}

TEST(ChoiceTable, AChoiceOutlivesItsPlaceInTheTable) {
  ChoiceTable table(10);
  table.set("a", "first");
  const ChoiceTable::Choice choice = table.find("a");
  table.set("b", "secondsecond");
  EXPECT_EQ(table.find("a"), nullptr);
  EXPECT_EQ(*choice, "first");
  EXPECT_EQ(*table.find("b"), "secondsecond");  // too large, and yet the last
}

TEST(ChoiceTable, WhatAPlanBringsDoesNotReplaceWhatIsKnown) {
  ChoiceTable table;
  table.set("a", "measured here");
  table.merge({{"a", "brought"}, {"b", "brought"}});
  EXPECT_EQ(table.all(), (ChoiceTable::Choices{{"a", "measured here"}, {"b", "brought"}}));
}

}  // namespace
}  // namespace sluice::engine
