// Commands of commands: `sluice lease request`, `sluice bench device`.
#pragma once

#include <span>
#include <string_view>

#include "cli/common/command.h"

namespace sluice::cli {

struct Action {
  std::string_view name;  // at most 11 characters
  std::string_view help;  // one line
  Run run;
};

struct Actions {
  std::string_view command;  // "lease"
  std::string_view noun;     // what one is called: "action", "suite"
  std::span<const Action> all;
  std::string_view closing;  // the last lines of --help
};

// The one that args[0] names. Null after --help or without a name: then the list is on
// io.out. Throws invalid_argument, naming the nearest.
const Action* find_action(const Actions& actions, Args args, Io& io);

}  // namespace sluice::cli
