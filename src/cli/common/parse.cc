#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <ostream>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/common/command.h"

namespace sluice::cli {

namespace {

std::string option_hint(const CLI::App& app, Args args) {
  std::vector<const CLI::App*> groups{&app};
  for (const auto* group : app.get_subcommands([](const CLI::App*) { return true; }))
    groups.push_back(group);
  std::vector<std::string> names;
  for (const auto* group : groups)
    for (const auto* option : group->get_options())
      for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  const std::vector<std::string_view> known(names.begin(), names.end());
  for (const auto arg : args) {
    const auto flag = arg.substr(0, arg.find('='));
    if (flag.starts_with("--") && std::ranges::find(known, flag) == known.end())
      if (auto hint = did_you_mean(flag, known); !hint.empty()) return hint;
  }
  return {};
}

}  // namespace

bool parse(CLI::App& app, Args args, Io& io, std::string_view examples) {
  if (!examples.empty()) app.footer("Examples:\n" + std::string(examples));
  try {
    std::vector<std::string> reversed(args.rbegin(), args.rend());  // CLI11 wants them so
    app.parse(std::move(reversed));
    return true;
  } catch (const CLI::CallForHelp&) {
    io.out << app.help();
    return false;
  } catch (const CLI::ParseError& e) {
    throw Error(Code::invalid_argument, app.get_name() + ": " + e.what() + option_hint(app, args) +
                                            "; see " + app.get_name() + " --help");
  }
}

}  // namespace sluice::cli
