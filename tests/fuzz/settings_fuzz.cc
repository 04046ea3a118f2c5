// Any bytes as configuration file, environment or flags: nothing may crash, every
// problem says where, and what loads can be shown and loaded again.
//
// The first byte chooses the form. Built with clang -fsanitize=fuzzer as
// settings_fuzz, and by every compiler as a short run over a corpus
// (settings_fuzz_smoke.cc).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/settings_show.h"
#include "cli/common/program_settings.h"

namespace {

using namespace sluice;

void demand(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "settings_fuzz: %s\n", what);
  std::abort();
}

// A configuration that loads without a problem must round-trip.
void round_trip(const Settings& settings) {
  const auto values = settings_json(settings)["values"];
  cli::ProgramSettings again;
  auto bound = cli::bind(again);
  std::vector<Problem> problems;
  bound.load(parse_document("again.json", values.dump(), Format::json, problems), problems);
  const bool masked = values.dump().find("\"***\"") != std::string::npos;
  if (masked) return;  // a mask is refused, as it should be
  demand(problems.empty(), problems.empty() ? "" : to_string(problems[0]).c_str());
  demand(settings_json(bound)["values"] == values, "loading what was shown changed it");
}

void finish(Settings& settings, std::vector<Problem>& problems) {
  settings.check(problems);
  for (const auto& problem : problems) {
    demand(!problem.where.empty() && !problem.cause.empty(), "a problem without place or cause");
    demand(to_string(problem).find('\0') == std::string::npos, "a zero byte in a message");
  }
  (void)settings_text(settings);
  if (problems.empty()) round_trip(settings);
}

void load_file(std::string_view text, Format format) {
  cli::ProgramSettings program;
  auto settings = cli::bind(program);
  std::vector<Problem> problems;
  const auto document = parse_document("f", text, format, problems);
  if (format == Format::json && problems.empty())
    demand(Json::accept(text), "read JSON that is none");
  settings.load(document, problems);
  finish(settings, problems);
}

void load_lines(std::string_view text, bool flags) {
  cli::ProgramSettings program;
  auto settings = cli::bind(program);
  std::vector<Problem> problems;
  Environment environment;
  std::vector<Flag> given;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto equals = line.find('=');
    if (equals == line.npos || line.find('\0') != line.npos) continue;
    const std::string name(line.substr(0, equals)), value(line.substr(equals + 1));
    if (flags)
      given.push_back({"--set", name, value});
    else
      environment[name] = value;
  }
  settings.load(environment, {}, problems);
  settings.load(given, problems);
  finish(settings, problems);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0: load_file(text, Format::toml); break;
    case 1: load_file(text, Format::json); break;
    case 2: load_lines(text, false); break;
    default: load_lines(text, true); break;
  }
  return 0;
}
