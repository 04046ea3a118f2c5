// sluice model add, list, show, verify, remove: models that are kept under a name.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "cli/common/checks.h"
#include "cli/common/model_names.h"
#include "cli/common/progress.h"
#include "cli/model/model_actions.h"
#include "models/registry/registry.h"

namespace sluice::cli {
namespace {

using Json = nlohmann::ordered_json;
using models::RegisteredModel;
using models::Registry;

Json json_of(const RegisteredModel& model) {
  Json files = Json::array();
  for (const models::RegisteredFile& file : model.files)
    files.push_back({{"path", file.path}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  return {{"name", model.name},       {"source", model.source}, {"license", model.license},
          {"added", model.added},     {"bytes", model.bytes()}, {"folder", model.folder.string()},
          {"files", std::move(files)}};
}

std::string line_of(const RegisteredModel& model) {
  return printable(fmt::format("{:<28} {:>10}  {:<12} {}", model.name, human_bytes(model.bytes()),
                               model.license.empty() ? "no license" : model.license, model.source));
}

RegisteredModel model_named(const Registry& registry, const std::string& name) {
  if (auto model = registry.find(name)) return std::move(*model);
  throw Error(Code::not_found,
              fmt::format("there is no model {}; sluice model list", in_quotes(name)));
}

// The options that all of these have.
struct NameFlags {
  std::string name;
  bool json = false;
};

void add_flags(CLI::App& app, NameFlags& flags, const char* what) {
  app.add_option("name", flags.name, what)->required()->check(not_empty("a name"));
  app.add_flag("--json", flags.json, "print JSON");
}

Registry::Progress shown_by(Progress& progress, const char* what) {
  return [&progress, what](std::uint64_t done, std::uint64_t all) {
    progress.show(all == 0 ? 1 : static_cast<double>(done) / static_cast<double>(all),
                  fmt::format("{} {} of {}", what, human_bytes(done), human_bytes(all)));
  };
}

}  // namespace

int model_add(Args args, Io& io) {
  std::string folder, name;
  bool json = false;
  CLI::App app("Keeps a copy of a model's folder under a name, with the hashes of its files.",
               "sluice model add");
  app.add_option("folder", folder, "as transformers or sentence-transformers saves it")
      ->required()
      ->check(not_empty("a folder"));
  app.add_option("--name", name, "what it is called (the folder's name)");
  app.add_flag("--json", json, "print JSON");
  if (!parse(app, args.subspan(1), io,
             "  sluice model add ./all-MiniLM-L6-v2\n"
             "  sluice model add downloads/snapshot --name e5-small"))
    return 0;
  const std::filesystem::path source = std::filesystem::path(folder).lexically_normal();
  const std::filesystem::path last =
      source.has_filename() ? source.filename() : source.parent_path().filename();
  Progress progress(io.err);
  const RegisteredModel model = registry_of(io).add(source, name.empty() ? last.string() : name,
                                                    shown_by(progress, "copied"));
  if (json)
    io.out << json_of(model).dump(2) << "\n";
  else
    io.out << line_of(model) << "\n";
  return 0;
}

int model_list(Args args, Io& io) {
  bool json = false;
  CLI::App app("Lists the models that are kept under a name.", "sluice model list");
  app.add_flag("--json", json, "print JSON");
  if (!parse(app, args.subspan(1), io, "  sluice model list")) return 0;
  const Registry registry = registry_of(io);
  Json all = Json::array();
  const auto models = registry.list();
  for (const RegisteredModel& model : models) {
    if (json)
      all.push_back(json_of(model));
    else
      io.out << line_of(model) << "\n";
  }
  if (json) io.out << all.dump(2) << "\n";
  if (!json && models.empty())
    io.out << "No models in " << registry.folder().string()
           << ". sluice model add FOLDER keeps one.\n";
  return 0;
}

int model_show(Args args, Io& io) {
  NameFlags flags;
  CLI::App app("Shows a model's source, license and files.", "sluice model show");
  add_flags(app, flags, "of a model in sluice model list");
  if (!parse(app, args.subspan(1), io, "  sluice model show all-MiniLM-L6-v2")) return 0;
  const RegisteredModel model = model_named(registry_of(io), flags.name);
  if (flags.json) {
    io.out << json_of(model).dump(2) << "\n";
    return 0;
  }
  io.out << line_of(model) << "\n"
         << "added " << model.added << ", in " << printable(model.folder.string()) << "\n";
  for (const models::RegisteredFile& file : model.files)
    io.out << printable(fmt::format("  {:>10}  {}  {}", human_bytes(file.bytes),
                                    file.sha256.substr(0, 16), file.path))
           << "\n";
  return 0;
}

int model_verify(Args args, Io& io) {
  NameFlags flags;
  CLI::App app("Compares a model's files with the hashes of when it was added.",
               "sluice model verify");
  add_flags(app, flags, "of a model in sluice model list");
  if (!parse(app, args.subspan(1), io, "  sluice model verify all-MiniLM-L6-v2")) return 0;
  const Registry registry = registry_of(io);
  const RegisteredModel model = model_named(registry, flags.name);
  std::vector<std::string> problems;
  {
    Progress progress(io.err);
    problems = registry.verify(model, shown_by(progress, "read"));
  }
  if (flags.json)
    io.out << Json{{"name", model.name}, {"problems", problems}}.dump(2) << "\n";
  else if (problems.empty())
    io.out << fmt::format("{}: {} files are as they were added\n", model.name, model.files.size());
  else
    for (const std::string& problem : problems)
      io.out << printable(model.name + ": " + problem) << "\n";
  return problems.empty() ? 0 : 1;
}

int model_remove(Args args, Io& io) {
  NameFlags flags;
  CLI::App app("Removes a model that was added, with its files.", "sluice model remove");
  add_flags(app, flags, "of a model in sluice model list");
  if (!parse(app, args.subspan(1), io, "  sluice model remove all-MiniLM-L6-v2")) return 0;
  registry_of(io).remove(flags.name);
  if (flags.json)
    io.out << Json{{"removed", flags.name}}.dump(2) << "\n";
  else
    io.out << flags.name << " is removed\n";
  return 0;
}

}  // namespace sluice::cli
