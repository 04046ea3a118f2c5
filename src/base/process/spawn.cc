#include "base/process/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

extern char** environ;

namespace sluice {
namespace {

class SpawnSettings {
 public:
  SpawnSettings(int socket, int file) {
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, socket, kSpawnedSocket);
    if (file >= 0) posix_spawn_file_actions_adddup2(&files, file, kSpawnedFile);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&files,
                                             (file < 0 ? kSpawnedSocket : kSpawnedFile) + 1);
    sigset_t none, default_signals;
    sigemptyset(&none);
    sigemptyset(&default_signals);
    for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD, SIGUSR1, SIGUSR2})
      sigaddset(&default_signals, s);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &default_signals);
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

// Closes itself; numbered so high that the child's own numbers do not overwrite it.
class HighFile {
 public:
  explicit HighFile(int fd) : fd_(fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, kSpawnedFile + 1)) {}
  ~HighFile() {
    if (fd_ >= 0) close(fd_);
  }
  HighFile(const HighFile&) = delete;
  HighFile& operator=(const HighFile&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

Spawned spawn(const std::string& program, const std::vector<std::string>& arguments,
              int socket_type, int file) {
  int ends[2];
  if (socketpair(AF_UNIX, socket_type | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(Code::internal, std::string("cannot make a socket pair: ") + std::strerror(errno));
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const auto& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  Spawned child{.pid = -1, .fd = ends[0]};
  int failed;
  {
    const HighFile socket(ends[1]), given(file);
    const SpawnSettings settings(socket.get(), given.get());
    failed = posix_spawn(&child.pid, program.c_str(), &settings.files, &settings.attributes,
                         argv.data(), environ);
  }
  close(ends[1]);
  if (failed == 0) return child;
  close(ends[0]);
  throw Error(Code::internal, "cannot start " + program + ": " + std::strerror(failed));
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return "signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")";
  return "exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace sluice
