#include "cli/common/actions.h"

#include <fmt/core.h>

#include <algorithm>
#include <ostream>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"

namespace sluice::cli {

const Action* find_action(const Actions& actions, Args args, Io& io) {
  const auto& [command, noun, all, closing] = actions;
  if (args.empty() || args[0] == "--help" || args[0] == "-h") {
    io.out << fmt::format("usage: sluice {} <{}> [options]\n\n", command, noun);
    for (const auto& action : all) io.out << fmt::format("  {:<12}{}\n", action.name, action.help);
    io.out << fmt::format("\nsluice {} <{}> --help explains one. {}\n", command, noun, closing);
    return nullptr;
  }
  const auto found = std::ranges::find(all, args[0], &Action::name);
  if (found != all.end()) return &*found;
  std::vector<std::string_view> names;
  for (const auto& action : all) names.push_back(action.name);
  throw Error(Code::invalid_argument,
              fmt::format("{}: no {} named '{}'{}; sluice {} lists them", command, noun, args[0],
                          did_you_mean(args[0], names), command));
}

}  // namespace sluice::cli
