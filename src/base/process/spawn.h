// A process of our own, and one socket to talk with it.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace sluice {

inline constexpr int kSpawnedSocket = 3;  // the child's end, in the child
inline constexpr int kSpawnedFile = 4;    // a file it was given, in the child

struct Spawned {
  pid_t pid = -1;
  int fd = -1;  // our end; the caller closes it and waits for the process
};

// Runs `program arguments...` in a process group of its own, so that Ctrl-C in a terminal
// reaches it through us, with no signal blocked or ignored, and with no file of ours but
// its socket (SOCK_STREAM or SOCK_SEQPACKET), stderr as its stdout, and `file` unless that
// is -1. Throws internal when it cannot be started.
Spawned spawn(const std::string& program, const std::vector<std::string>& arguments,
              int socket_type = SOCK_STREAM, int file = -1);

// Describes a waitpid() status: "exit code 1", "signal 9 (Killed)".
std::string how_it_ended(int status);

}  // namespace sluice
