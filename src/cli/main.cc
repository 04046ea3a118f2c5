#include <unistd.h>

#include <climits>
#include <iostream>
#include <vector>

#include "cli/command.h"
#include "cli/program_settings.h"

namespace {

std::string own_path(const char* fallback) {
  char path[PATH_MAX];
  const auto n = readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, static_cast<std::size_t>(n)) : fallback;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> args(argv + 1, argv + argc);
  sluice::cli::Io io{std::cin, std::cout, std::cerr, own_path(argv[0]),
                     sluice::cli::process_environment()};
  return sluice::cli::run(args, io);
}
