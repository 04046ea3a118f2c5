#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/settings_show.h"
#include "cli/common/commands.h"
#include "cli/common/program_settings.h"

namespace sluice::cli {

namespace {

constexpr const char* kSettingsExamples =
    "  sluice settings\n"
    "  sluice settings --json --config sluice.toml --set serve.port=8080\n"
    "  sluice settings --schema > sluice.schema.json";

constexpr const char* kMarkdownHead =
    "# Settings\n\n"
    "Made by `sluice settings --markdown`; a test compares the two. How to use them:\n"
    "[configuration.md](configuration.md).\n\n"
    "A later source wins: default, `gpu_type` profile, file, environment, flag. In a list or "
    "table\n"
    "the allowed range is that of each element. Durations are written `30s`, `5m`, `1h30m` or as "
    "a\n"
    "number of seconds.\n";

// The defaults, independent of the machine: no file, no environment, no flags.
void print_declared(std::ostream& out, bool schema) {
  ProgramSettings defaults;
  const auto settings = bind(defaults);
  if (schema)
    out << settings_schema(settings).dump(2) << "\n";
  else
    out << kMarkdownHead << settings_markdown(settings);
}

void print_json(std::ostream& out, ProgramSettings& loaded) {
  Json json{{"config_file", loaded.config_file.empty() ? Json() : Json(loaded.config_file)}};
  json.update(settings_json(bind(loaded)));
  json["warnings"] = loaded.warnings;
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

void print_text(std::ostream& out, ProgramSettings& loaded) {
  out << (loaded.config_file.empty() ? "no configuration file"
                                     : "configuration file " + loaded.config_file)
      << "\n\n"
      << settings_text(bind(loaded));
  for (const auto& warning : loaded.warnings) out << "\nwarning: " << warning << "\n";
}

}  // namespace

int settings(Args args, Io& io) {
  CLI::App app("Shows every setting: its value, its source and its range", "sluice settings");
  SettingsOptions options;
  bool json = false, schema = false, markdown = false;
  add_options(app, options);
  auto* form = app.add_option_group("form", "how it is printed");
  form->add_flag("--json", json, "as JSON");
  form->add_flag("--schema", schema, "the JSON schema of a configuration file");
  form->add_flag("--markdown", markdown, "the declared settings, as docs/settings.md has them");
  form->require_option(0, 1);
  if (!parse(app, args, io, kSettingsExamples)) return 0;

  if (schema || markdown) {
    print_declared(io.out, schema);
    return 0;
  }
  auto loaded = load_settings(options, io.environment);
  if (json)
    print_json(io.out, loaded);
  else
    print_text(io.out, loaded);
  return 0;
}

}  // namespace sluice::cli
