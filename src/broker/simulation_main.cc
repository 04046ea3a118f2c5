// broker_simulation [--seed N] [--events N] [--agents N] [--honest]
// Exit code 1 and the seed when an invariant broke.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "broker/simulation.h"

int main(int argc, char** argv) {
  using namespace sluice::broker;
  SimulationOptions options;
  CLI::App app("Many agents share eight unlike GPUs of the fake NVML under a virtual clock.");
  app.add_option("--seed", options.seed, "the same seed gives the same run");
  app.add_option("--events", options.events, "how many")->check(CLI::PositiveNumber);
  app.add_option("--agents", options.agents, "how many")->check(CLI::Range(1, 100'000));
  app.add_flag("--honest", options.honest, "only agents that keep their word");
  CLI11_PARSE(app, argc, argv);
  const auto cards = cards_of_fake_nvml();
  for (const auto& card : cards)
    std::printf("%s %-28s %7.1f GiB\n", card.bus.c_str(), card.name.c_str(),
                static_cast<double>(card.total) / (1 << 30));
  const auto report = simulate(options, cards);
  std::fputs(to_string(report, options).c_str(), stdout);
  return report.broken.empty() ? 0 : 1;
}
