#include "watch/child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

extern char** environ;

namespace sluice::watch {

namespace {

// The child starts with no signal blocked or ignored, whatever this program does
// with signals, and with no file of ours but its socket and stderr.
class SpawnSettings {
 public:
  explicit SpawnSettings(int socket) {
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, socket, Child::kFd);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&files, Child::kFd + 1);
    sigset_t none, standard;
    sigemptyset(&none);
    sigemptyset(&standard);
    for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD, SIGUSR1, SIGUSR2})
      sigaddset(&standard, s);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &standard);
    posix_spawnattr_setpgroup(&attributes, 0);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
};

}  // namespace

Child::Child(const std::string& program, const std::vector<std::string>& arguments) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(Code::internal, std::string("cannot make a socket pair: ") + std::strerror(errno));
  fd_ = ends[0];
  fcntl(fd_, F_SETFL, O_NONBLOCK);

  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const auto& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  const SpawnSettings settings(ends[1]);
  const int failed = posix_spawn(&pid_, program.c_str(), &settings.files, &settings.attributes,
                                 argv.data(), environ);
  close(ends[1]);
  if (failed != 0) {
    close(fd_);
    throw Error(Code::internal, "cannot start " + program + ": " + std::strerror(failed));
  }
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
  std::vector<std::string> whole;
  while (auto line = in_.next()) whole.push_back(std::move(*line));
  return whole;
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

std::string Child::how_it_ended() const {
  const int status = status_.value_or(0);
  if (WIFSIGNALED(status))
    return "signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")";
  return "exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace sluice::watch
