#include "broker/simulation/simulation.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "broker/simulation/simulation_run.h"

namespace sluice::broker {

namespace {

constexpr const char* kAllGood = "no over-commit, no lost or revived lease, nobody starved";

double tenths(double value) { return std::round(value * 10) / 10; }

Waits summary(std::vector<float> waits) {
  Waits out;
  out.count = waits.size();
  if (waits.empty()) return out;
  std::ranges::sort(waits);
  out.p99_s = waits[(waits.size() - 1) * 99 / 100];
  out.longest_s = waits.back();
  return out;
}

}  // namespace

SimulationReport simulate(const SimulationOptions& options, const std::vector<Card>& cards) {
  const auto began = Steady::now();
  const auto cpu = std::clock();
  SimulationRun run(options, cards);
  auto report = run.go();
  for (std::size_t i = 0; i < report.waits.size(); ++i)
    report.waits[i] = summary(run.accounting().waits()[i]);
  report.wall_s = seconds_between(began, Steady::now());
  report.cpu_s = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
  return report;
}

std::string to_string(const SimulationReport& report, const SimulationOptions& options) {
  auto text = fmt::format(
      "seed {}: {} events of {} agents, {} of virtual time in {:.1f} s ({:.1f} s of one core): "
      "{:.0f} events/s\n",
      options.seed, report.events, options.agents, human_duration(report.virtual_s), report.wall_s,
      report.cpu_s, static_cast<double>(report.events) / std::max(report.cpu_s, 1e-9));
  for (const auto& [what, count] : report.counts)
    text += fmt::format("  {:<22}{:>12}\n", what, count);
  text += fmt::format("  {:.1f} % of all memory promised on average\n", report.used_share * 100);
  text += "waits of those served from the queue:\n";
  for (std::size_t i = report.waits.size(); i-- > 0;) {
    const auto& waits = report.waits[i];
    text +=
        fmt::format("  {:<10}{:>10} served, p99 {:>9.1f} s, longest {:>9.1f} s\n",
                    to_string(static_cast<Priority>(i)), waits.count, waits.p99_s, waits.longest_s);
  }
  if (report.broken.empty())
    text += std::string(kAllGood) + "\n";
  else
    text +=
        fmt::format("BROKEN: {}\nagain with: broker_simulation --seed {} --events {}{}\n",
                    report.broken, options.seed, options.events, options.honest ? " --honest" : "");
  return text;
}

Json to_json(const SimulationReport& report, const SimulationOptions& options, std::size_t gpus) {
  Json waits;
  for (std::size_t i = report.waits.size(); i-- > 0;)
    waits[std::string(to_string(static_cast<Priority>(i)))] = {
        {"served", report.waits[i].count},
        {"p99_s", tenths(report.waits[i].p99_s)},
        {"longest_s", tenths(report.waits[i].longest_s)}};
  return {{"seed", options.seed},
          {"events", report.events},
          {"agents", options.agents},
          {"gpus", gpus},
          {"seconds", tenths(report.wall_s)},
          {"core_seconds", tenths(report.cpu_s)},
          {"waits", std::move(waits)},
          {"violations", report.broken.empty() ? 0 : 1},  // the first one ends the run
          {"verdict", report.broken.empty() ? kAllGood : report.broken}};
}

}  // namespace sluice::broker
