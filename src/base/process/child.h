// A child process of this program, and one socket to talk with it by lines.
// Nothing here waits: a child that hangs in a driver cannot be waited for.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/line_buffer.h"
#include "base/process/spawn.h"

namespace sluice {

class Child {
 public:
  static constexpr int kFd = kSpawnedSocket;  // the child's end of the socket, in the child

  // Starts the program as base/process/spawn.h says.
  Child(const std::string& program, const std::vector<std::string>& arguments);
  ~Child();  // closes the socket; a child that is still there is killed, not waited for
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const noexcept { return pid_; }
  int fd() const noexcept { return fd_; }  // -1 after end()

  std::vector<std::string> lines();                 // that have arrived by now
  bool closed() const noexcept { return closed_; }  // and no more will come
  void say(const std::string& line);                // dropped when its socket is full

  // Asks it to end, and kills it when it has not after `grace_s`. Call advance()
  // until has_ended().
  void end(Instant now, double grace_s);
  void advance(Instant now);
  bool has_ended();
  std::string how_it_ended() const;  // "exit code 1", "signal 9 (Killed)"; once it has

 private:
  pid_t pid_ = -1;
  int fd_ = -1;
  bool closed_ = false;
  std::optional<int> status_;
  std::optional<Instant> kill_at_;
  LineBuffer in_;
};

}  // namespace sluice
