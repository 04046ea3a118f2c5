// A web server on a free port of this machine that answers each POST with the next
// status of a list, and remembers what it was sent. With or without TLS.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"

typedef struct ssl_ctx_st SSL_CTX;

namespace sluice::watch {

class WebServer {
 public:
  // Status 0 closes the connection without an answer; -1 never answers. The last
  // one repeats. With `name` it speaks TLS with a certificate of its own for that
  // name, which is written to `certificate_file`.
  explicit WebServer(std::vector<int> statuses, const std::string& name = "",
                     const std::string& certificate_file = "");
  ~WebServer();

  int port() const noexcept { return port_; }
  std::vector<std::string> bodies() const;   // of every POST, in order
  std::vector<std::string> headers() const;  // likewise

 private:
  void loop();
  void serve(int client);
  template <class Channel>
  void converse(Channel& channel);
  int next_status();

  int listener_ = -1, port_ = 0;
  int wake_[2] = {-1, -1};
  SSL_CTX* tls_ = nullptr;
  mutable Mutex mutex_;
  std::vector<int> statuses_ GUARDED_BY(mutex_);
  std::vector<std::string> bodies_ GUARDED_BY(mutex_), headers_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace sluice::watch
