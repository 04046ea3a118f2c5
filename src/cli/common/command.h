// A subcommand is a function of its arguments and three streams, so a test calls
// it like any other function. Adding one: write it in cli/<name>.cc, declare it
// below, add its row to kCommands in dispatcher.cc.
#pragma once

#include <iosfwd>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace sluice::cli {

using Args = std::span<const std::string_view>;

struct Io {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  std::string program = "sluice";                       // path of the running executable
  std::map<std::string, std::string> environment = {};  // of the process; a test gives its own
};

// The exit code: 0 done, 1 failed, 2 wrong usage. Throws Error instead of
// printing one; run() turns it into a message and a code.
using Run = int (*)(Args args, Io& io);

struct Command {
  std::string_view name;
  std::string_view help;  // one line
  Run run;
  bool hidden = false;  // started by sluice itself, not by people
};

int run(Args args, Io& io);

// Parses `args` (without the command's name). False after --help, which it has
// printed to io.out. Throws invalid_argument, naming the nearest option.
// `examples`: lines shown at the end of --help, e.g. "sluice detect --json".
bool parse(CLI::App& app, Args args, Io& io, std::string_view examples);

}  // namespace sluice::cli
