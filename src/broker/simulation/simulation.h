// Many agents, a few unlike GPUs, and everything that goes wrong: crashes, forgotten
// leases, over-users, holders that do not yield, unmanaged processes, samples that are late, lost
// GPUs and broker restarts. Runs the ledger under a virtual clock and keeps books of
// its own beside it. The same options give the same run.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "broker/lease/card.h"
#include "broker/ledger/ledger.h"

namespace sluice::broker {

struct SimulationOptions {
  std::uint64_t seed = 1;
  std::uint64_t events = 10'000'000;  // of agents, GPUs and samples; ticks come on top
  unsigned agents = 1000;
  std::uint64_t full_check_every = 50'000;  // events between two broken_invariant()
  // Agents use no more than they hold, and all are known by their pid: then no agent may run
  // out of memory within its lease.
  bool honest = false;
  Seconds longest_wait{1800};  // a request that waits longer was starved
};

struct Waits {
  std::uint64_t count = 0;
  double p99_s = 0, longest_s = 0;
};

struct SimulationReport {
  std::string broken;  // what went wrong and when; empty when nothing did
  std::uint64_t events = 0;
  double virtual_s = 0, wall_s = 0, cpu_s = 0;
  std::map<std::string, std::uint64_t> counts;  // what happened, by kind
  std::array<Waits, 4> waits;                   // by priority, of those served from the queue
  double used_share = 0;                        // of all memory, promised on average
};

// GPUs of the machine "mixed-cards" of the fake NVML: eight unlike ones.
std::vector<Card> cards_of_fake_nvml();

SimulationReport simulate(const SimulationOptions& options, const std::vector<Card>& cards);

std::string to_string(const SimulationReport& report, const SimulationOptions& options);

// The results of a run, for a result file; the caller adds the machine it ran on.
Json to_json(const SimulationReport& report, const SimulationOptions& options, std::size_t gpus);

}  // namespace sluice::broker
