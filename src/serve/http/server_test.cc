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
#include "serve/http/serving_for_tests.h"

namespace sluice::serve::http {
namespace {

using namespace std::chrono_literals;

TEST_F(Serving, ARequestIsAnswered) {
  start();
  const auto answer = ask(get("/fresh"));
  EXPECT_EQ(status_of(answer), 200);
  EXPECT_NE(answer.find("\r\nContent-Length: 15\r\n"), std::string::npos);
  EXPECT_NE(answer.find("\r\nConnection: close\r\n"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("\r\n\r\nfresh localhost"));
}

TEST_F(Serving, PipelinedRequestsAreAnsweredInOrder) {
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
  for (const char c : get("/fresh")) client.send({&c, 1});
  EXPECT_EQ(status_of(client.receive()), 200);
}

TEST_F(Serving, ACachedAnswerIsComputedOnce) {
  options.threads = 1;
  Client client(start());
  for (int i = 0; i < 3; ++i) {
    client.send(get("/kept", ""));
    EXPECT_TRUE(client.receive("kept").ends_with("kept 1"));
  }
  client.send("HEAD /kept HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto head = client.receive("\r\n\r\n");
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << head;
  EXPECT_NE(head.find("Content-Length: 6"), std::string::npos);
}

TEST_F(Serving, ABodyIsReceivedUnchangedInAnyFraming) {
  start();
  const std::string json =
      "Host: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n";
  EXPECT_TRUE(
      ask("POST /echo HTTP/1.1\r\n" + json + "Content-Length: 4\r\n\r\n[12]").ends_with("[12]"));
  EXPECT_TRUE(ask("POST /echo HTTP/1.1\r\n" + json +
                  "Transfer-Encoding: chunked\r\n\r\n2\r\n[1\r\n2\r\n2]\r\n0\r\n\r\n")
                  .ends_with("[12]"));
}

TEST_F(Serving, AClientThatExpects100ContinueGetsIt) {
  Client client(start());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Connection: close\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.receive("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(status_of(client.ask("{}")), 200);
}

TEST_F(Serving, AnHttp10ClientGetsNoContinue) {
  Client client(start());
  client.send(
      "POST /echo HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(status_of(client.ask("{}")), 200);
}

TEST_F(Serving, TooLargeRequestsAreRefusedWithAReason) {
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

TEST_F(Serving, BadRequestsAreAnsweredAndDisconnected) {
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

TEST_F(Serving, AnUnknownMethodIsEchoedTruncatedWithTheAllowedOnes) {
  start();
  for (const auto& sent : {std::string("BREW"), std::string("get"), std::string(500, 'X')}) {
    const auto answer = ask(sent + get("/fresh").substr(3));
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 405 ")) << answer;
    EXPECT_NE(answer.find("\nAllow: GET, HEAD, OPTIONS\r"), answer.npos) << answer;
    EXPECT_NE(answer.find('"' + sent.substr(0, 32) + " is not possible on"), answer.npos) << answer;
  }
}

TEST_F(Serving, ARequestThatDoesNotArriveInTimeGets408) {
  options.config.request_timeout_s = 0.3;
  Client client(start());
  client.send("GET /fresh HTTP/1.1\r\nHost: loc");
  const auto began = Steady::now();
  EXPECT_EQ(status_of(client.receive()), 408);
  EXPECT_LT(seconds_between(began, Steady::now()), 4);
  EXPECT_EQ(traffic.totals().timed_out, 1u);
}

TEST_F(Serving, ABodyThatDoesNotArriveInTimeGets408) {
  options.config.request_timeout_s = 0.3;
  Client client(start());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 10\r\n\r\n{");
  EXPECT_EQ(status_of(client.receive()), 408);
}

TEST_F(Serving, AnIdleConnectionIsClosedSilently) {
  options.config.idle_timeout_s = 0.5;
  Client client(start());
  client.send(get("/fresh", ""));
  EXPECT_EQ(status_of(client.receive("localhost")), 200);
  EXPECT_EQ(client.receive(), "");
}

TEST_F(Serving, AClientThatDoesNotReadIsDisconnectedAndDelaysNoOther) {
  options.threads = 1;
  options.config.request_timeout_s = 0.3;
  Client slow(start());
  constexpr int pieces = 3000;  // more than the buffers of both ends hold
  std::string requests;
  for (int i = 0; i < pieces; ++i) requests += get("/piece", "");
  slow.send(requests);
  EXPECT_EQ(status_of(ask(get("/fresh"))), 200);
  const auto patience = Steady::now() + 20s;
  while (traffic.connections > 0 && Steady::now() < patience) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(traffic.connections, 0);
  EXPECT_EQ(traffic.totals().timed_out, 1u);
  EXPECT_LT(slow.receive().size(), pieces * kPiece);
}

TEST_F(Serving, ConnectionsOverTheLimitGet503WithRetryAfter) {
  options.config.max_connections = 1;
  options.config.idle_timeout_s = options.config.request_timeout_s = 10;
  Client first(start());
  first.send(get("/fresh", ""));
  first.receive("localhost");
  const auto answer = ask(get("/fresh"));
  EXPECT_EQ(status_of(answer), 503);
  EXPECT_NE(answer.find("Retry-After: 1"), std::string::npos);
  EXPECT_EQ(traffic.totals().refused, 1u);
}

TEST_F(Serving, ExceptionTextIsNotShownToTheClient) {
  start();
  const auto answer = ask(get("/fails"));
  EXPECT_EQ(status_of(answer), 500);
  EXPECT_EQ(answer.find("secret"), std::string::npos);
}

TEST_F(Serving, AStreamSendsMoreWhenWoken) {
  Client client(start());
  client.send(get("/stream", ""));
  client.receive("data: 1\n\n");
  ++sent_until;
  server->wake_streams();
  EXPECT_TRUE(client.receive("data: 2\n\n").ends_with("data: 2\n\n"));
  EXPECT_EQ(traffic.totals().streams, 1);
}

TEST_F(Serving, StoppingEndsStreamsAndIdleConnections) {
  options.config.drain_timeout_s = 10;
  options.config.idle_timeout_s = options.config.request_timeout_s = 60;
  Client idle(start()), streaming(server->port());
  streaming.send(get("/stream", ""));
  streaming.receive("data: 1\n\n");
  const auto began = Steady::now();
  EXPECT_TRUE(server->stop());
  EXPECT_LT(seconds_between(began, Steady::now()), 4);
  EXPECT_EQ(idle.receive(), "");
}

TEST_F(Serving, StoppingWaitsForAPartlyReceivedRequest) {
  options.config.request_timeout_s = options.config.drain_timeout_s = 10;
  Client client(start());
  client.send("GET /fresh HTTP/1.1\r\n");
  while (traffic.connections == 0) std::this_thread::yield();
  std::this_thread::sleep_for(200ms);  // the bytes themselves leave no trace to wait for
  bool clean = false;
  std::thread stopping([&] { clean = server->stop(); });
  std::this_thread::sleep_for(800ms);  // an idle connection would be closed by now
  EXPECT_EQ(status_of(client.ask("Host: localhost\r\n\r\n")), 200);
  stopping.join();
  EXPECT_TRUE(clean);
}

TEST_F(Serving, StoppingCutsOffSlowRequests) {
  options.config.request_timeout_s = 60;
  options.config.drain_timeout_s = 0.2;
  Client client(start());
  client.send("GET /fresh HTT");
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

TEST_F(Serving, ATakenPortIsReported) {
  options.config.port = start();
  EXPECT_EQ(code_of([&] { Server(options, router, traffic); }), Code::unavailable);
}

TEST_F(Serving, TheUnixSocketIsPrivateAndRemovedAtTheEnd) {
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
