// Limits on the effect of one client on the server and on others.
#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "serve/http/serving_for_tests.h"

namespace sluice::serve::http {
namespace {

using namespace std::chrono_literals;

// A handler that works until it may end, at most 10 s.
struct Working : testing::Test {
  std::atomic<bool> began{false}, may_end{false};
  std::atomic<int> runs{0};
  Router router{{{Method::get, "/works",
                  [this](const Request&) {
                    ++runs;
                    began = true;
                    const auto until = Steady::now() + 10s;
                    while (!may_end && Steady::now() < until) std::this_thread::sleep_for(1ms);
                    return text("worked");
                  },
                  false, Execution::in_pool}}};
  Traffic traffic{1, {"a"}};
  Server::Options options;
  Working() { options.config.port = 0; }

  static bool soon(const std::atomic<bool>& what) {
    for (int i = 0; i < 2000 && !what; ++i) std::this_thread::sleep_for(1ms);
    return what;
  }
};

TEST_F(Working, WorkOfDisconnectedClientsIsNotStarted) {
  Server server(options, router, traffic);
  std::vector<std::unique_ptr<Client>> busy, leave;
  for (int i = 0; i < 2; ++i) busy.push_back(std::make_unique<Client>(server.port()));
  for (auto& one : busy) one->send(get("/works"));
  ASSERT_TRUE(soon(began));
  for (int i = 0; i < 50; ++i) {
    leave.push_back(std::make_unique<Client>(server.port()));
    leave.back()->send(get("/works"));
  }
  Client stays(server.port());
  stays.send(get("/works"));
  std::this_thread::sleep_for(1200ms);
  leave.clear();
  std::this_thread::sleep_for(50ms);
  may_end = true;
  EXPECT_TRUE(stays.receive().ends_with("worked"));
  EXPECT_EQ(runs, 3);
}

// ---- what comes in -------------------------------------------------------------------

std::string post(std::string_view path, std::string_view fields, std::string_view body) {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n" +
         std::string(fields) + "\r\n" + std::string(body);
}
std::string with_length(std::size_t n) { return "Content-Length: " + std::to_string(n) + "\r\n"; }
constexpr std::string_view kChunked = "Transfer-Encoding: chunked\r\n";

// Errors are made by threads that serve others: one once took 60 MB and 0.8 s.
TEST(ErrorResponse, AnErrorResponseIsShortWhateverItQuotes) {
  std::string quoted(4095, 'x');
  for (int i = 0; i < 1000; ++i) quoted += "\u20ac";
  const auto made = error_response(Error(Code::invalid_argument, quoted));
  EXPECT_EQ(made.status, 400);
  EXPECT_LT(made.body.size(), 4400u);
  EXPECT_NE(made.body.find("x...\""), std::string::npos);  // no half of a character
  EXPECT_EQ(error_response(Error(Code::invalid_argument, "short")).body.find("..."),
            std::string::npos);
}

TEST_F(Serving, ATooLongQueryIsRefused) {
  options.config.max_header_bytes = 16384;
  start();
  std::string many = "/fresh?a0";
  for (int i = 1; i < 16; ++i) many += "&a" + std::to_string(i);
  EXPECT_EQ(status_of(ask(get(many))), 200);
  EXPECT_EQ(status_of(ask(get(many + "&b"))), 414);
  EXPECT_EQ(status_of(ask(get("/fresh?" + std::string(8192, 'x')))), 200);
  EXPECT_EQ(status_of(ask(get("/fresh?" + std::string(8193, 'x')))), 414);
  EXPECT_EQ(status_of(ask(get("/nowhere?" + std::string(9000, '&')))), 414);
}

TEST_F(Serving, ATooLongLineBetweenChunksIsAnswered) {
  start();
  const std::string extension(200 << 10, 'x'), field(200 << 10, 'y');
  const auto answer = ask(post("/echo", kChunked, "1;" + extension + "\r\na\r\n0\r\n\r\n"));
  EXPECT_EQ(status_of(answer), 400) << answer.substr(0, 200);
  EXPECT_NE(answer.find("\r\nConnection: close\r\n"), std::string::npos);
  EXPECT_EQ(status_of(ask(post("/echo", kChunked, "1\r\na\r\n0;" + extension + "\r\n\r\n"))), 400);
  EXPECT_EQ(status_of(ask(post("/echo", kChunked, "0\r\nX: " + field + "\r\n\r\n"))), 400);
  EXPECT_EQ(status_of(ask(post("/echo", kChunked, std::string(200 << 10, '0')))), 400);
  EXPECT_EQ(status_of(ask(post("/echo", kChunked, "1;a=b\r\na\r\n0\r\nX: y\r\n\r\n"))), 200);
}

TEST_F(Serving, ATrailerDoesNotChangeTheRequest) {
  Router hosts{{{Method::post, "/host", [](const Request& r) { return text(r.host + r.api_key); },
                 false, Execution::on_io_thread, kAnyBody}}};
  Server one(options, hosts, traffic);
  const auto answer =
      Client(one.port())
          .ask(post("/host", kChunked, "1\r\na\r\n0\r\nHost: evil\r\nX-API-Key: k\r\n\r\n"));
  EXPECT_TRUE(answer.ends_with("\r\n\r\nlocalhost")) << answer;
}

TEST_F(Serving, ARouteMayLimitItsBody) {
  options.config.max_body_bytes = 1 << 20;
  Router small{{{Method::post, "/small", [](const Request& r) { return text(r.body); }, false,
                 Execution::on_io_thread, 1000}}};
  Server one(options, small, traffic);
  const auto status = [&](std::string_view fields, const std::string& body) {
    return status_of(Client(one.port()).ask(post("/small", fields, body)));
  };
  EXPECT_EQ(status(with_length(1000), std::string(1000, 'x')), 200);
  EXPECT_EQ(status(with_length(1001), ""), 413);
  EXPECT_EQ(status(kChunked, "3e9\r\n" + std::string(1001, 'x') + "\r\n0\r\n\r\n"), 413);
}

// ---- what is held --------------------------------------------------------------------

struct LittleMemory : Serving {
  MemoryBudget memory{4 << 20};
  LittleMemory() {
    options.memory = &memory;
    options.config.max_body_bytes = 64 << 20;
  }
};

TEST_F(LittleMemory, AnAnnouncedBodyReservesNoMemory) {
  start();
  Client announces(server->port());
  announces.send(post("/echo", with_length(2'000'000), "x"));
  std::this_thread::sleep_for(100ms);
  EXPECT_LT(memory.used(), 200u << 10);
  EXPECT_EQ(status_of(ask(post("/echo", with_length(3'000'000), ""))), 413);  // never fits
}

TEST_F(LittleMemory, ABodyTakesNoMoreThanItsLength) {
  start();
  const std::size_t length = 1'900'000;  // of the two million that one client may hold
  Client slow(server->port());
  slow.send(post("/echo", with_length(length), ""));
  for (std::size_t sent = 0; sent < length; sent += 100'000) {  // in steps that do not double
    slow.send(std::string(100'000, 'x'));
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(status_of(slow.receive()), 200);
}

TEST(Answers, Each503SaysOnceWhenToTryAgain) {
  const auto hints = [](const Response& response) {
    return std::ranges::count(response.headers, "Retry-After",
                              [](const auto& field) { return field.first; });
  };
  for (const auto& answer :
       {error_response(503, "unavailable", "the server is stopping", "Ask again."),
        error_response(Error(Code::unavailable, "not now")), out_of_memory_response()}) {
    EXPECT_EQ(answer.status, 503);
    EXPECT_EQ(hints(answer), 1) << answer.body;
  }
  EXPECT_EQ(hints(error_response(Error(Code::exhausted, "too many"))), 1);
  EXPECT_EQ(hints(error_response(404, "not_found", "no", "")), 0);
}

TEST_F(LittleMemory, OverTheBudgetLargeBodiesAreRefusedAndSmallOnesAccepted) {
  start();
  Client first(server->port()), second(server->port());
  const std::string large(1'000'000, 'x');
  first.send(post("/echo", with_length(1'500'000), large));
  for (int i = 0; i < 2000 && memory.used() < large.size(); ++i) std::this_thread::sleep_for(1ms);
  second.send(post("/echo", with_length(1'500'000), large));
  const auto answer = second.receive();
  EXPECT_EQ(status_of(answer), 503) << answer.substr(0, 100);
  EXPECT_NE(answer.find("\r\nRetry-After: 1\r\n"), std::string::npos);
  EXPECT_EQ(status_of(ask(post("/echo", with_length(5), "small"))), 200);
  first.send(std::string(500'000, 'x'));
  EXPECT_EQ(status_of(first.receive()), 200);
  for (int i = 0; i < 2000 && memory.used() > 0; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(memory.used(), 0u);
}

TEST_F(LittleMemory, ALargeAnswerIsHeldOnce) {
  Router large{
      {{Method::get, "/large", [](const Request&) { return text(std::string(1 << 20, 'x')); },
        false, Execution::in_pool},
       {Method::get, "/too-large", [](const Request&) { return text(std::string(3 << 20, 'x')); },
        false, Execution::in_pool}}};
  Server one(options, large, traffic);
  const auto answer = Client(one.port()).ask(get("/large"));
  EXPECT_EQ(answer.size() - answer.find("\r\n\r\n") - 4, 1u << 20);
  EXPECT_NE(answer.find("Content-Length: 1048576\r\n"), std::string::npos);
  const auto never = Client(one.port()).ask(get("/too-large"));
  EXPECT_EQ(status_of(never), 400);
  EXPECT_NE(never.find("3.0 MiB"), std::string::npos) << never;
  EXPECT_EQ(never.find("Retry-After"), std::string::npos);
  const auto two = Client(one.port()).ask(get("/large", "") + get("/too-large"));
  EXPECT_GT(two.size(), 1u << 20);
  EXPECT_NE(two.find("HTTP/1.1 400", 1 << 20), std::string::npos);  // in their order
}

struct Tens final : ChunkedBody {
  bool next(std::string& out) override {
    out += std::to_string(n) + ",";
    return ++n < 3;
  }
  int n = 0;
};

TEST_F(Serving, ABodyIsSentInChunks) {
  Router pieces{{{Method::get, "/pieces",
                  [](const Request&) {
                    Response answer;
                    answer.chunks = std::make_unique<Tens>();
                    return answer;
                  },
                  false, Execution::in_pool}}};
  Server one(options, pieces, traffic);
  const auto two = Client(one.port()).ask(get("/pieces", "") + get("/pieces"));
  const std::string body = "\r\n\r\n2\r\n0,\r\n2\r\n1,\r\n2\r\n2,\r\n0\r\n\r\n";
  EXPECT_EQ(two.find(body), two.find("\r\n\r\n")) << two;
  EXPECT_TRUE(two.ends_with(body)) << two;
  const auto old = Client(one.port()).ask("GET /pieces HTTP/1.0\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(old.ends_with("\r\n\r\n0,1,2,")) << old;
}

// ---- whom it delays ------------------------------------------------------------------

TEST_F(Serving, ACachedAnswerFitsEveryRequestForm) {
  options.threads = 1;  // each has its own
  start();
  EXPECT_TRUE(ask(get("/kept")).ends_with("kept 1"));
  EXPECT_TRUE(ask("GET /kept HTTP/1.0\r\n\r\n").ends_with("kept 1"));
  EXPECT_EQ(status_of(ask("HEAD /kept HTTP/1.0\r\n\r\n")), 200);
  EXPECT_TRUE(ask(get("/kept?&")).ends_with("kept 1"));
  EXPECT_TRUE(ask(get("/kept?a=b&c=%64")).ends_with("kept 2"));
  EXPECT_TRUE(ask(get("/kept?c=d&a=%62")).ends_with("kept 2"));
  EXPECT_EQ(made, 2);
}

TEST_F(Working, SlowWorkDelaysNoLease) {
  std::vector<Route> routes{router.routes().begin(), router.routes().end()};
  routes.push_back({Method::get, "/lease", [](const Request&) { return text("lease"); }, false,
                    Execution::in_lease_pool});
  const Router both(routes);
  Traffic two{1, {"a", "b"}};
  Server server(options, both, two);
  std::vector<std::unique_ptr<Client>> busy;
  for (int i = 0; i < 300; ++i) {
    busy.push_back(std::make_unique<Client>(server.port()));
    busy.back()->send(get("/works"));
  }
  ASSERT_TRUE(soon(began));
  const auto start = Steady::now();
  EXPECT_TRUE(Client(server.port()).ask(get("/lease")).ends_with("lease"));
  EXPECT_LT(Steady::now() - start, 1s);
  may_end = true;
}

TEST_F(Serving, ConnectionsPerPeerAreLimited) {
  options.config.max_connections_per_peer = 2;
  start();
  {
    Client one(server->port()), two(server->port());
    one.send(get("/fresh", ""));
    two.send(get("/fresh", ""));
    ASSERT_EQ(status_of(one.receive("localhost")), 200);
    ASSERT_EQ(status_of(two.receive("localhost")), 200);
    const auto third = ask(get("/fresh"));
    EXPECT_EQ(status_of(third), 503);
    EXPECT_NE(third.find("max_connections_per_peer"), std::string::npos);
  }
  int status = 0;
  for (int i = 0; i < 200 && status != 200; ++i) status = status_of(ask(get("/fresh")));
  EXPECT_EQ(status, 200);
}

// ---- what hangs on a connection --------------------------------------------------------

struct Bound : testing::Test {
  std::atomic<bool> is_bound{true};
  Router router{{{Method::get, "/bind",
                  [](const Request&) {
                    auto made = text("bound");
                    made.binds = true;
                    return made;
                  },
                  false, Execution::in_lease_pool},
                 {Method::get, "/refused", [](const Request&) { return text("refused"); }, false,
                  Execution::in_lease_pool}}};
  Traffic traffic{1, {"a", "b"}};
  Server::Options options;
  Bound() {
    options.config.port = 0;
    options.config.idle_timeout_s = 0.2;
    options.is_bound = [this](std::uint64_t) { return is_bound.load(); };
  }
};

TEST_F(Bound, AnIdleConnectionStaysOpenWhileALeaseIsBoundToIt) {
  Server server(options, router, traffic);
  Client client(server.port());
  client.send(get("/bind", ""));
  ASSERT_EQ(status_of(client.receive("bound")), 200);
  std::this_thread::sleep_for(1s);
  client.send(get("/refused", ""));
  EXPECT_EQ(status_of(client.receive("refused")), 200);
  is_bound = false;
  const auto start = Steady::now();
  EXPECT_EQ(client.receive(), "");
  EXPECT_LT(Steady::now() - start, 3s);
}

TEST_F(Bound, AnUnboundConnectionEndsWhenIdle) {
  Server server(options, router, traffic);
  Client client(server.port());
  client.send(get("/refused", ""));
  ASSERT_EQ(status_of(client.receive("refused")), 200);
  const auto start = Steady::now();
  EXPECT_EQ(client.receive(), "");
  EXPECT_LT(Steady::now() - start, 3s);
}

// A connection that was closed with an answer nobody reads left it with the kernel, outside of
// every limit, for as long as the client liked.
TEST_F(Serving, AnAnswerThatIsNotReadEndsWithItsConnection) {
  options.config.idle_timeout_s = 0.2;
  start();
  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  const int small = 1;  // the kernel's minimum
  ASSERT_EQ(::setsockopt(client, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(server->port());
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(client, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  const auto request = get("/piece", "");
  ASSERT_EQ(::send(client, request.data(), request.size(), 0), std::ssize(request));
  std::this_thread::sleep_for(2500ms);
  std::vector<char> buffer(1 << 16);
  ssize_t received = 0, n = 0;
  while ((n = ::recv(client, buffer.data(), buffer.size(), 0)) > 0) received += n;
  EXPECT_LT(received, static_cast<ssize_t>(kPiece));
  EXPECT_EQ(n, -1);  // reset
  ::close(client);
}

}  // namespace
}  // namespace sluice::serve::http
