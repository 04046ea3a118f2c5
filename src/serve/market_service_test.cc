#include "serve/market_service.h"

#include <gtest/gtest.h>

#include <thread>

#include "serve/http/peer_load.h"

namespace sluice::serve {
namespace {

struct MarketServiceTest : testing::Test {
  MemoryBudget memory{8 << 20};
  http::PeerLoad load{memory};
  MarketService market{{}, nullptr, [] {}};
  const std::string body = R"({"close": [1, 2, 3, 4], "timeperiod": 2})";

  std::shared_ptr<MarketService::Job> ask(const std::string& client, std::string text) {
    const auto one = load.find(client);
    return market.ask(client, "sma", std::move(text), {one, &one->memory},
                      MemoryBudget::Charge(one->memory));
  }
  // Throws what the calculation did.
  static std::string answer_of(MarketService::Job& job) {
    for (int i = 0; i < 5000; ++i) {
      if (auto answer = job.take(Steady::now())) return answer->text;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return "nothing";
  }
  static std::string of(int count) {
    std::string text = R"({"close": [1)";
    for (int i = 1; i < count; ++i) text += ",1";
    return text + R"(], "timeperiod": 2})";
  }
};

TEST_F(MarketServiceTest, AClientAtItsLimitDoesNotAffectOthers) {
  const auto greedy = load.find("greedy");
  const auto all = greedy->memory.charge(greedy->memory.limit() - 100);
  EXPECT_THROW(answer_of(*ask("greedy", body)), BudgetExhausted);
  EXPECT_NE(answer_of(*ask("modest", body)).find("SMA"), std::string::npos);
}

TEST_F(MarketServiceTest, WorkAndAnswerAreChargedToTheClientAndReleased) {
  auto job = ask("one", of(20'000));
  const auto one = load.find("one");
  const auto text = answer_of(*job);
  EXPECT_GE(one->memory.used(), text.size());
  EXPECT_EQ(one->memory.used(), memory.used());
  job.reset();
  for (int i = 0; i < 5000 && memory.used() > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(memory.used(), 0u);
}

TEST_F(MarketServiceTest, ARequestAboveTheClientLimitIsInvalid) {
  try {
    answer_of(*ask("one", of(100'000)));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::invalid_argument);
    EXPECT_NE(std::string(e.what()).find("4.0 MiB that one client may hold"), std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace sluice::serve
