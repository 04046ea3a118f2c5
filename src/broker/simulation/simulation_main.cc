// broker_simulation [--seed N] [--events N] [--agents N] [--honest] [--out FILE]
// Exit code 1 and the seed when an invariant broke.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "broker/simulation/simulation.h"
#include "device/host/cpu.h"
#include "watch/alert.h"

namespace {

using namespace sluice::broker;

struct Flags {
  SimulationOptions options;
  std::string out, commit = "unknown";
};

void add_options(CLI::App& app, Flags& flags) {
  app.add_option("--seed", flags.options.seed, "the same seed gives the same run");
  app.add_option("--events", flags.options.events, "how many")->check(CLI::PositiveNumber);
  app.add_option("--agents", flags.options.agents, "how many")->check(CLI::Range(1, 100'000));
  app.add_flag("--honest", flags.options.honest, "only agents that keep their word");
  app.add_option("--out", flags.out, "file for the result as JSON");
  app.add_option("--commit", flags.commit, "of the tree this was built from, for the file")
      ->envname("BENCH_COMMIT");
}

// As it was typed, without the folder of the program and of the file.
std::string command(int argc, char** argv) {
  std::string text;
  for (int i = 0; i < argc; ++i)
    text += (i == 0 ? "" : " ") + std::filesystem::path(argv[i]).filename().string();
  return text;
}

bool write(const std::string& path, const sluice::Json& json) {
  std::ofstream file(path);
  file << json.dump(2) << "\n";
  if (file.flush()) return true;
  std::fprintf(stderr, "broker_simulation: %s cannot be written\n", path.c_str());
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Many agents share eight unlike GPUs of the fake NVML under a virtual clock.");
  add_options(app, flags);
  CLI11_PARSE(app, argc, argv);
  const auto cards = cards_of_fake_nvml();
  for (const auto& card : cards)
    std::printf("%s %-28s %7.1f GiB\n", card.bus.c_str(), card.name.c_str(),
                static_cast<double>(card.total) / (1 << 30));
  const auto report = simulate(flags.options, cards);
  std::fputs(to_string(report, flags.options).c_str(), stdout);
  bool is_written = true;
  if (!flags.out.empty()) {
    const auto today = sluice::watch::iso_time(std::chrono::system_clock::now()).substr(0, 10);
    sluice::Json json{{"suite", "simulation"},
                      {"date", today},
                      {"commit", flags.commit},
                      {"cpu", sluice::device::detect_cpu().model},
                      {"command", command(argc, argv)}};
    json.update(to_json(report, flags.options, cards.size()));
    is_written = write(flags.out, json);
  }
  return report.broken.empty() && is_written ? 0 : 1;
}
