#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <climits>
#include <iostream>
#include <vector>

#include "base/log.h"
#include "cli/common/command.h"
#include "cli/common/program_settings.h"

namespace {

std::string own_path(const char* fallback) {
  char path[PATH_MAX];
  const auto n = readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, static_cast<std::size_t>(n)) : fallback;
}

// A file or socket that got the number of a closed standard stream would be
// written into by the first message.
void open_standard_streams() {
  while (true) {
    const int fd = open("/dev/null", O_RDWR);
    if (fd < 0) return;
    if (fd > STDERR_FILENO) {
      close(fd);
      return;
    }
  }
}

// `| head` closes its end when it has enough; that is no failure.
bool reader_left() {
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return poll(&out, 1, 0) > 0 && (out.revents & POLLERR) != 0;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  sluice::log::flush_on_crash();
  const std::vector<std::string_view> args(argv + 1, argv + argc);
  sluice::cli::Io io{std::cin, std::cout, std::cerr, own_path(argv[0]),
                     sluice::cli::process_environment()};
  const int code = sluice::cli::run(args, io);
  if (std::cout.flush() || reader_left()) return code;
  std::cerr << "sluice: the output could not be written; is the disk full?\n";
  return code == 0 ? 1 : code;
}
