#include "base/memory_budget.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/error.h"

namespace sluice {
namespace {

TEST(MemoryBudget, NeverExceedsItsLimit) {
  MemoryBudget budget(100);
  MemoryBudget::Charge a(budget), b(budget);
  EXPECT_TRUE(a.resize(60));
  EXPECT_FALSE(b.resize(41));
  EXPECT_EQ(b.bytes(), 0u);
  EXPECT_TRUE(b.resize(40));
  EXPECT_FALSE(a.resize(61));
  EXPECT_EQ(a.bytes(), 60u);
  EXPECT_TRUE(a.resize(10));
  EXPECT_TRUE(b.resize(90));
  EXPECT_EQ(budget.used(), 100u);
}

TEST(MemoryBudget, ReleasedChargesAreReturned) {
  MemoryBudget budget(100);
  {
    auto one = budget.charge(70);
    auto moved = std::move(one);
    EXPECT_EQ(budget.used(), 70u);
    one = budget.charge(30);
    one = std::move(moved);
    EXPECT_EQ(budget.used(), 70u);
  }
  EXPECT_EQ(budget.used(), 0u);
}

TEST(MemoryBudget, SizesThatWouldOverflowAreRefused) {
  MemoryBudget budget(100);
  MemoryBudget::Charge a(budget), b(budget);
  ASSERT_TRUE(a.resize(50));
  EXPECT_FALSE(b.resize(~0ull));
  EXPECT_FALSE(b.resize(~0ull - 49));
  EXPECT_EQ(budget.used(), 50u);
}

TEST(MemoryBudget, AChildTakesFromItsParent) {
  MemoryBudget whole(100), part(60, &whole), other(60, &whole);
  MemoryBudget::Charge a(part), b(other);
  EXPECT_FALSE(a.resize(61));
  EXPECT_TRUE(a.resize(60));
  EXPECT_FALSE(b.resize(41));
  EXPECT_EQ(other.used(), 0u);
  EXPECT_EQ(whole.refused(), 2u);
  EXPECT_TRUE(b.resize(40));
  a.release();
  EXPECT_EQ(whole.used(), 40u);
}

TEST(MemoryBudget, AChargeThatDoesNotFitMaySucceedLater) {
  MemoryBudget budget(1 << 20);
  try {
    const auto others = budget.charge(1 << 19);
    budget.charge(1 << 20);
    FAIL();
  } catch (const BudgetExhausted& e) {
    EXPECT_EQ(e.code(), Code::exhausted);
    EXPECT_NE(std::string(e.what()).find("1.0 MiB"), std::string::npos) << e.what();
  }
}

std::string refusal(MemoryBudget& budget, std::uint64_t bytes, Code& code) {
  try {
    budget.charge(bytes);
    return "charged";
  } catch (const Error& e) {
    code = e.code();
    return e.what();
  }
}

TEST(MemoryBudget, NamesTheLimitThatRefused) {
  MemoryBudget whole(100), part(50, &whole), other(50, &whole), third(50, &whole);
  Code code{};
  const auto says = [&](MemoryBudget& of, std::uint64_t bytes, const char* words) {
    const auto text = refusal(of, bytes, code);
    return text.find(words) != std::string::npos ? "" : text;
  };
  EXPECT_EQ(says(part, 51, "one client may hold: ask for less"), "");
  EXPECT_EQ(code, Code::invalid_argument);
  const auto own = part.charge(40);
  EXPECT_EQ(says(part, 20, "one client may hold 10 B are left"), "");
  EXPECT_EQ(code, Code::exhausted);
  const auto others = other.charge(50);
  EXPECT_EQ(says(third, 20, "all requests share 10 B are left"), "");
  EXPECT_EQ(code, Code::exhausted);
}

TEST(MemoryBudget, GrowthBeyondTheChildsLimitNeverFits) {
  MemoryBudget whole(100), part(50, &whole);
  auto charge = part.charge(30);
  EXPECT_THROW(
      {
        try {
          charge.hold(60);
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), Code::invalid_argument);
          throw;
        }
      },
      Error);
  EXPECT_EQ(part.used(), 30u);
}

TEST(MemoryBudget, AsksForATrimAlsoAfterManySmallReturns) {
  MemoryBudget whole(1 << 30), part(1 << 30, &whole);
  for (int i = 0; i < 15; ++i) part.charge(1 << 20);
  EXPECT_FALSE(whole.should_trim());
  part.charge(1 << 20);
  EXPECT_TRUE(whole.should_trim());
  EXPECT_FALSE(whole.should_trim());
}

TEST(MemoryBudget, KeepsItsLimitWithManyThreads) {
  MemoryBudget budget(1000);
  std::atomic<bool> over{false};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 20000; ++i) {
          MemoryBudget::Charge mine(budget);
          if (mine.resize(400) && budget.used() > 1000) over = true;
        }
      });
  }
  EXPECT_FALSE(over);
  EXPECT_EQ(budget.used(), 0u);
}

}  // namespace
}  // namespace sluice
