// A server on a free port and a plain socket client, shared by the tests of the server.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>

#include "base/clock.h"
#include "serve/http/server.h"

namespace sluice::serve::http {

// A client that sends exactly the given text and receives exactly what comes.
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

  void send(std::string_view text) { ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL); }

  // Returns all bytes until `end` has been seen, or until the server closes.
  std::string receive(std::string_view end = {}) {
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
    send(request);
    return receive();
  }

 private:
  void connect(const sockaddr* to, socklen_t size) {
    timeval patience{10, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ASSERT_EQ(::connect(fd_, to, size), 0) << std::strerror(errno);
  }
  int fd_;
};

inline std::string get(std::string_view path, std::string_view fields = "Connection: close\r\n") {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(fields) +
         "\r\n";
}

inline int status_of(const std::string& answer) {
  return answer.size() < 12 ? 0 : std::stoi(answer.substr(9, 3));
}

inline Response text(std::string body) {
  Response made;
  made.body = std::move(body);
  return made;
}

// Gives the numbers up to `sent_until`, each once.
struct Counting final : Stream {
  explicit Counting(const std::atomic<int>& until) : sent_until(until) {}
  Instant pull(Instant now, std::string& out) override {
    while (given < sent_until) out += "data: " + std::to_string(++given) + "\n\n";
    return now + std::chrono::hours(1);
  }
  const std::atomic<int>& sent_until;
  int given = 0;
};

inline constexpr std::size_t kPiece = 15000;  // sent by itself, and owed no time beyond the limit

struct Serving : testing::Test {
  std::atomic<int> made{0}, sent_until{1};
  Router router{{
      {Method::get, "/kept",
       [this](const Request&) { return text("kept " + std::to_string(++made)); }, true,
       Execution::on_io_thread, 0, std::chrono::hours(1)},
      {Method::get, "/fresh", [](const Request& r) { return text("fresh " + r.host); }},
      {Method::post, "/echo", [](const Request& r) { return text(r.body); }, false,
       Execution::on_io_thread, kAnyBody},
      {Method::get, "/disk", [](const Request&) { return text("from the disk"); }, false,
       Execution::in_pool},
      {Method::get, "/piece", [](const Request&) { return text(std::string(kPiece, 'x')); }, false,
       Execution::in_pool},
      {Method::get, "/fails",
       [](const Request&) -> Response { throw std::runtime_error("secret"); }},
      {Method::get, "/stream",
       [this](const Request&) {
         Response r;
         r.stream = std::make_unique<Counting>(sent_until);
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

}  // namespace sluice::serve::http
