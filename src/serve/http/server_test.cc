#include "serve/http/server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

#include "base/clock.h"

namespace sluice::serve::http {
namespace {

using namespace std::chrono_literals;

// A client that says exactly what it is told to and hears exactly what comes.
class Client {
 public:
  explicit Client(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connect(reinterpret_cast<sockaddr*>(&to), sizeof to);
  }
  explicit Client(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    std::strncpy(to.sun_path, path.c_str(), sizeof to.sun_path - 1);
    connect(reinterpret_cast<sockaddr*>(&to), sizeof to);
  }
  ~Client() { ::close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void say(std::string_view text) { ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL); }

  // What comes until `end` has been seen, or until the server closes.
  std::string hear(std::string_view end = {}) {
    std::string text;
    char buffer[4096];
    while (end.empty() || text.find(end) == std::string::npos) {
      const auto n = ::recv(fd_, buffer, sizeof buffer, 0);
      if (n <= 0) break;
      text.append(buffer, static_cast<std::size_t>(n));
    }
    return text;
  }
  std::string ask(std::string_view request) {
    say(request);
    return hear();
  }

 private:
  void connect(const sockaddr* to, socklen_t size) {
    timeval patience{10, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ASSERT_EQ(::connect(fd_, to, size), 0) << std::strerror(errno);
  }
  int fd_;
};

std::string get(std::string_view path, std::string_view fields = "Connection: close\r\n") {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(fields) +
         "\r\n";
}

int status_of(const std::string& answer) {
  return answer.size() < 12 ? 0 : std::stoi(answer.substr(9, 3));
}

Response text(std::string body) {
  Response made;
  made.body = std::move(body);
  return made;
}

// Gives the numbers up to `news`, each once.
struct Counting final : Stream {
  explicit Counting(const std::atomic<int>& until) : news(until) {}
  Instant pull(Instant now, std::string& out) override {
    while (given < news) out += "data: " + std::to_string(++given) + "\n\n";
    return now + 1h;
  }
  const std::atomic<int>& news;
  int given = 0;
};

constexpr std::size_t kPiece = 15000;  // sent by itself, and owed no time beyond the limit

struct Serving : testing::Test {
  std::atomic<int> made{0}, news{1};
  Router router{{
      {Method::get, "/kept",
       [this](const Request&) { return text("kept " + std::to_string(++made)); }, true, false,
       false, 1h},
      {Method::get, "/fresh", [](const Request& r) { return text("fresh " + r.host); }},
      {Method::post, "/echo", [](const Request& r) { return text(r.body); }, false, false, true},
      {Method::get, "/disk", [](const Request&) { return text("from the disk"); }, false, true},
      {Method::get, "/piece", [](const Request&) { return text(std::string(kPiece, 'x')); }, false,
       true},
      {Method::get, "/fails",
       [](const Request&) -> Response { throw std::runtime_error("secret"); }},
      {Method::get, "/stream",
       [this](const Request&) {
         Response r;
         r.stream = std::make_unique<Counting>(news);
         return r;
       }},
  }};
  Traffic traffic{2, {"a", "b", "c", "d", "e", "f", "g"}};
  Server::Options options;
  std::unique_ptr<Server> server;

  Serving() {
    options.config.port = 0;
    options.config.request_timeout_s = 5;
    options.config.idle_timeout_s = 5;
    options.config.max_header_bytes = 1024;
    options.config.max_body_bytes = 2048;
    options.threads = 2;
  }
  std::uint16_t start() {
    server = std::make_unique<Server>(options, router, traffic);
    return server->port();
  }
  std::string ask(std::string_view request) { return Client(server->port()).ask(request); }
};

TEST_F(Serving, AnswersARequest) {
  start();
  const auto answer = ask(get("/fresh"));
  EXPECT_EQ(status_of(answer), 200);
  EXPECT_NE(answer.find("\r\nContent-Length: 15\r\n"), std::string::npos);
  EXPECT_NE(answer.find("\r\nConnection: close\r\n"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("\r\n\r\nfresh localhost"));
}

TEST_F(Serving, AnswersPipelinedRequestsInOrder) {
  start();
  const auto answer = ask(get("/fresh", "") + get("/kept", "") + get("/disk", "") + get("/fresh"));
  const auto fresh = answer.find("fresh localhost"), kept = answer.find("kept 1"),
             disk = answer.find("from the disk"), last = answer.rfind("fresh localhost");
  EXPECT_LT(fresh, kept);
  EXPECT_LT(kept, disk);
  EXPECT_LT(disk, last);
  EXPECT_NE(last, std::string::npos);
}

TEST_F(Serving, ARequestMayArriveByteByByte) {
  options.config.request_timeout_s = 10;
  Client client(start());
  for (const char c : get("/fresh")) client.say({&c, 1});
  EXPECT_EQ(status_of(client.hear()), 200);
}

TEST_F(Serving, AKeptAnswerIsMadeOnce) {
  options.threads = 1;
  Client client(start());
  for (int i = 0; i < 3; ++i) {
    client.say(get("/kept", ""));
    EXPECT_TRUE(client.hear("kept").ends_with("kept 1"));
  }
  client.say("HEAD /kept HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto head = client.hear("\r\n\r\n");
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << head;
  EXPECT_NE(head.find("Content-Length: 6"), std::string::npos);
}

TEST_F(Serving, ABodyComesBackWholeHoweverItIsFramed) {
  start();
  const std::string json =
      "Host: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n";
  EXPECT_TRUE(
      ask("POST /echo HTTP/1.1\r\n" + json + "Content-Length: 4\r\n\r\n[12]").ends_with("[12]"));
  EXPECT_TRUE(ask("POST /echo HTTP/1.1\r\n" + json +
                  "Transfer-Encoding: chunked\r\n\r\n2\r\n[1\r\n2\r\n2]\r\n0\r\n\r\n")
                  .ends_with("[12]"));
}

TEST_F(Serving, AClientThatWaitsForLeaveToSendIsGivenIt) {
  Client client(start());
  client.say(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Connection: close\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.hear("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(status_of(client.ask("{}")), 200);
}

TEST_F(Serving, WhatIsTooLargeIsRefusedAndSaidSo) {
  start();
  EXPECT_EQ(status_of(ask(get("/fresh", "X: " + std::string(2000, 'x') + "\r\n"))), 431);
  const std::string json = "Host: localhost\r\nContent-Type: application/json\r\n";
  EXPECT_EQ(status_of(ask("POST /echo HTTP/1.1\r\n" + json + "Content-Length: 4096\r\n\r\n" +
                          std::string(4096, 'x'))),
            413);
  EXPECT_EQ(status_of(ask("POST /echo HTTP/1.1\r\n" + json +
                          "Transfer-Encoding: chunked\r\n\r\n1000\r\n" + std::string(4096, 'x') +
                          "\r\n0\r\n\r\n")),
            413);
}

TEST_F(Serving, BadRequestsGetAnAnswerAndAreCutOff) {
  start();
  for (const auto* bad :
       {"nonsense\r\n\r\n", "GET /fresh HTTP/1.1\r\n\r\n", "GET fresh HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /fresh HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET /fresh HTTP/1.1\r\nHost:\r\nHost: localhost\r\n\r\n",
        "GET /fresh HTTP/1.1\r\nHost: a\r\nHost:\r\nHost: localhost\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: "
        "chunked\r\n\r\n0\r\n\r\n",
        "GET /a\x01 HTTP/1.1\r\nHost: a\r\n\r\n", "B\x1bW /a HTTP/1.1\r\nHost: a\r\n\r\n"})
    EXPECT_EQ(status_of(ask(bad)), 400) << bad;
}

TEST_F(Serving, AnUnknownMethodIsRepeatedShortBesideThoseThatWork) {
  start();
  for (const auto& sent : {std::string("BREW"), std::string("get"), std::string(500, 'X')}) {
    const auto answer = ask(sent + get("/fresh").substr(3));
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 405 ")) << answer;
    EXPECT_NE(answer.find("\nAllow: GET, HEAD, OPTIONS\r"), answer.npos) << answer;
    EXPECT_NE(answer.find('"' + sent.substr(0, 32) + " is not possible on"), answer.npos) << answer;
  }
}

TEST_F(Serving, ARequestThatDoesNotArriveInTimeIsTold) {
  options.config.request_timeout_s = 0.3;
  Client client(start());
  client.say("GET /fresh HTTP/1.1\r\nHost: loc");
  const auto began = Steady::now();
  EXPECT_EQ(status_of(client.hear()), 408);
  EXPECT_LT(seconds_between(began, Steady::now()), 4);
  EXPECT_EQ(traffic.totals().timed_out, 1u);
}

TEST_F(Serving, ABodyThatDoesNotArriveInTimeIsTold) {
  options.config.request_timeout_s = 0.3;
  Client client(start());
  client.say(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 10\r\n\r\n{");
  EXPECT_EQ(status_of(client.hear()), 408);
}

TEST_F(Serving, AnIdleConnectionIsClosedWithoutAWord) {
  options.config.idle_timeout_s = 0.5;
  Client client(start());
  client.say(get("/fresh", ""));
  EXPECT_EQ(status_of(client.hear("localhost")), 200);
  EXPECT_EQ(client.hear(), "");
}

TEST_F(Serving, AClientThatDoesNotReadIsCutOffAndHoldsNobodyUp) {
  options.threads = 1;
  options.config.request_timeout_s = 0.3;
  Client slow(start());
  constexpr int pieces = 3000;  // more than the buffers of both ends hold
  std::string requests;
  for (int i = 0; i < pieces; ++i) requests += get("/piece", "");
  slow.say(requests);
  EXPECT_EQ(status_of(ask(get("/fresh"))), 200);
  const auto patience = Steady::now() + 20s;
  while (traffic.connections > 0 && Steady::now() < patience) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(traffic.connections, 0);
  EXPECT_EQ(traffic.totals().timed_out, 1u);
  EXPECT_LT(slow.hear().size(), pieces * kPiece);
}

TEST_F(Serving, ConnectionsOverTheLimitAreToldToComeBack) {
  options.config.max_connections = 1;
  options.config.idle_timeout_s = options.config.request_timeout_s = 10;
  Client first(start());
  first.say(get("/fresh", ""));
  first.hear("localhost");
  const auto answer = ask(get("/fresh"));
  EXPECT_EQ(status_of(answer), 503);
  EXPECT_NE(answer.find("Retry-After: 1"), std::string::npos);
  EXPECT_EQ(traffic.totals().refused, 1u);
}

TEST_F(Serving, WhatAHandlerThrowsIsNotShownToTheClient) {
  start();
  const auto answer = ask(get("/fails"));
  EXPECT_EQ(status_of(answer), 500);
  EXPECT_EQ(answer.find("secret"), std::string::npos);
}

TEST_F(Serving, AStreamGivesMoreWheneverItIsWoken) {
  Client client(start());
  client.say(get("/stream", ""));
  client.hear("data: 1\n\n");
  ++news;
  server->wake_streams();
  EXPECT_TRUE(client.hear("data: 2\n\n").ends_with("data: 2\n\n"));
  EXPECT_EQ(traffic.totals().streams, 1);
}

TEST_F(Serving, StoppingEndsStreamsAndIdleConnectionsSoon) {
  options.config.drain_timeout_s = 10;
  options.config.idle_timeout_s = options.config.request_timeout_s = 60;
  Client idle(start()), streaming(server->port());
  streaming.say(get("/stream", ""));
  streaming.hear("data: 1\n\n");
  const auto began = Steady::now();
  EXPECT_TRUE(server->stop());
  EXPECT_LT(seconds_between(began, Steady::now()), 4);
  EXPECT_EQ(idle.hear(), "");
}

TEST_F(Serving, StoppingWaitsForARequestOfWhichALineHasCome) {
  options.config.request_timeout_s = options.config.drain_timeout_s = 10;
  Client client(start());
  client.say("GET /fresh HTTP/1.1\r\n");
  while (traffic.connections == 0) std::this_thread::yield();
  std::this_thread::sleep_for(200ms);  // the bytes themselves leave no trace to wait for
  bool clean = false;
  std::thread stopping([&] { clean = server->stop(); });
  std::this_thread::sleep_for(800ms);  // an idle connection would be closed by now
  EXPECT_EQ(status_of(client.ask("Host: localhost\r\n\r\n")), 200);
  stopping.join();
  EXPECT_TRUE(clean);
}

TEST_F(Serving, StoppingCutsOffWhatTakesTooLong) {
  options.config.request_timeout_s = 60;
  options.config.drain_timeout_s = 0.2;
  Client client(start());
  client.say("GET /fresh HTT");
  while (traffic.connections == 0) std::this_thread::yield();
  std::this_thread::sleep_for(200ms);  // the bytes themselves leave no trace to wait for
  EXPECT_FALSE(server->stop());
}

TEST_F(Serving, TheKeyMayChangeWhileItRuns) {
  start();
  EXPECT_EQ(status_of(ask(get("/fresh"))), 200);
  auto config = options.config;
  config.api_key = Secret("new");
  server->reload(config);
  EXPECT_EQ(status_of(ask(get("/fresh"))), 401);
  EXPECT_EQ(status_of(ask(get("/kept"))), 200);
  EXPECT_EQ(status_of(ask(get("/fresh", "X-API-Key: new\r\nConnection: close\r\n"))), 200);
}

Code code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.code();
  }
  return Code::internal;
}

TEST_F(Serving, AnOpenAddressNeedsAKey) {
  options.config.host = "0.0.0.0";
  EXPECT_EQ(code_of([&] { start(); }), Code::invalid_argument);
  options.config.api_key = Secret("k");
  EXPECT_NE(start(), 0);
}

TEST_F(Serving, AnOpenAddressKeepsItsKeyWhenSettingsAreReadAgain) {
  options.config.host = "0.0.0.0";
  options.config.api_key = Secret("k");
  start();
  EXPECT_EQ(code_of([&] { server->reload(ServeConfig{}); }), Code::invalid_argument);
  EXPECT_EQ(status_of(ask(get("/fresh"))), 401);
}

TEST_F(Serving, ATakenPortIsSaidToBeTaken) {
  options.config.port = start();
  EXPECT_EQ(code_of([&] { Server(options, router, traffic); }), Code::unavailable);
}

TEST_F(Serving, TheUnixSocketIsTheOwnersAndIsRemoved) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("sluice" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  options.socket_path = folder / "s.sock";
  options.config.api_key = Secret("k");
  start();
  struct stat info {};
  ASSERT_EQ(::stat(options.socket_path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(status_of(Client(options.socket_path).ask(get("/fresh"))), 200);
  server->stop();
  EXPECT_NE(::stat(options.socket_path.c_str(), &info), 0);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace sluice::serve::http
