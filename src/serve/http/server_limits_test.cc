// What one client can do to the server and to others.
#include <stop_token>
#include <thread>

#include "serve/http/serving_for_tests.h"

namespace sluice::serve::http {
namespace {

using namespace std::chrono_literals;

// A handler that works until it is told that nobody waits for it, at most 10 s.
struct Working : testing::Test {
  std::atomic<bool> began{false}, stopped{false};
  Router router{{{Method::get, "/works",
                  [this](const Request& r) {
                    began = true;
                    const auto until = Steady::now() + 10s;
                    while (!r.stop.stop_requested() && Steady::now() < until)
                      std::this_thread::sleep_for(1ms);
                    stopped = r.stop.stop_requested();
                    return text("worked");
                  },
                  false, true}}};
  Traffic traffic{1, {"a"}};
  Server::Options options;
  Working() { options.config.port = 0; }

  static bool soon(const std::atomic<bool>& what) {
    for (int i = 0; i < 2000 && !what; ++i) std::this_thread::sleep_for(1ms);
    return what;
  }
};

TEST_F(Working, IsToldWhenItsClientLeaves) {
  Server server(options, router, traffic);
  {
    Client leaves(server.port());
    leaves.say(get("/works"));
    ASSERT_TRUE(soon(began));
    EXPECT_FALSE(stopped);
  }
  EXPECT_TRUE(soon(stopped));
}

}  // namespace
}  // namespace sluice::serve::http
