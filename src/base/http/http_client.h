// HTTP/1.1 to one server over TCP, TLS or a Unix socket, for callers that wait.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/http/url.h"
#include "base/mutex.h"

namespace sluice {

// Lets another thread end a call in progress. Thread-safe; of one client at a time.
class Interrupt {
 public:
  void now();  // this and every later call fail at once
  bool requested() const;

  // For HttpClient: while set, `stop` (with `what`) is called by now().
  void watch(void (*stop)(void*), void* what);
  void unwatch();

 private:
  mutable Mutex mutex_;
  bool asked_ GUARDED_BY(mutex_) = false;
  void (*stop_)(void*) GUARDED_BY(mutex_) = nullptr;
  void* what_ GUARDED_BY(mutex_) = nullptr;
};

struct HttpCall {
  std::string_view method = "GET";
  std::string target = "/";
  std::string json = {};  // the body; none when empty
  std::vector<std::pair<std::string, std::string>> headers = {};
  bool wants_body = true;  // false: the status is enough, and the connection ends with it
};

struct HttpAnswer {
  int status = 0;                       // 0 when there was no answer
  std::string error;                    // then why: "connect: Connection refused"
  std::optional<double> retry_after_s;  // from the header, when it is a number
  std::string body;
};

// One connection, opened when first used and again when the server closed it. Not for
// several threads.
class HttpClient {
 public:
  struct Server {
    Url url;              // its target is not used
    std::string socket;   // path of a Unix socket to connect to instead of url's host
    std::string ca_file;  // https verifies against this, or the system's store when empty
    // Called with the socket of each new connection, before anything is sent over it. It throws
    // where the server must not be used; its words are then the answer's error.
    std::function<void(int socket)> check = {};
  };
  HttpClient(Server server, Interrupt& interrupt);  // `interrupt` must outlive it
  ~HttpClient();

  // Neither throws for what the network does. A call over a connection that turns out to
  // be closed is made again over a new one: it may arrive twice.
  HttpAnswer call(const HttpCall& call, double timeout_s);
  // Hands over the body line by line, as it comes, until `line` says false, the server
  // ends it or nothing came for `silence_s`. The body of any status but 200 is in the answer.
  HttpAnswer lines(const HttpCall& call, double silence_s,
                   const std::function<bool(std::string_view)>& line);
  void close();

 private:
  struct Connection;
  HttpAnswer once(const HttpCall& call, double timeout_s);
  Connection& connected(double timeout_s);

  const Server server_;
  Interrupt& interrupt_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace sluice
