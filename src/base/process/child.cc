#include "base/process/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/process/spawn.h"

namespace sluice {

Child::Child(const std::string& program, const std::vector<std::string>& arguments) {
  const Spawned spawned = spawn(program, arguments);
  pid_ = spawned.pid;
  fd_ = spawned.fd;
  fcntl(fd_, F_SETFL, O_NONBLOCK);
}

Child::~Child() {
  if (fd_ >= 0) close(fd_);
  if (has_ended()) return;
  ::kill(pid_, SIGKILL);
  has_ended();
}

std::vector<std::string> Child::lines() {
  char bytes[16384];
  while (!closed_) {
    const auto n = recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0)
      in_.add({bytes, static_cast<std::size_t>(n)});
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
      closed_ = true;
    else if (errno == EAGAIN)
      break;
  }
  std::vector<std::string> lines;
  while (auto line = in_.next()) lines.push_back(std::move(*line));
  return lines;
}

void Child::say(const std::string& line) {
  if (fd_ < 0) return;
  send(fd_, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void Child::end(Instant now, double grace_s) {
  if (kill_at_) return;
  kill_at_ = now + std::chrono::duration_cast<Steady::duration>(Seconds(grace_s));
  shutdown(fd_, SHUT_RDWR);
  close(std::exchange(fd_, -1));  // it may never end: keep nothing for it
  closed_ = true;
  if (!has_ended()) ::kill(pid_, SIGTERM);
}

void Child::advance(Instant now) {
  if (!has_ended() && kill_at_ && now >= *kill_at_) ::kill(pid_, SIGKILL);
}

bool Child::has_ended() {
  if (status_) return true;
  int status = 0;
  const pid_t waited = waitpid(pid_, &status, WNOHANG);
  if (waited == pid_) status_ = status;
  if (waited < 0 && errno == ECHILD) status_ = 0;  // someone else took it
  return status_.has_value();
}

std::string Child::how_it_ended() const { return sluice::how_it_ended(status_.value_or(0)); }

}  // namespace sluice
