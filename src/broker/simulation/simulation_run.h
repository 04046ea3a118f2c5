// One run of the simulation.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "broker/ledger/ledger.h"
#include "broker/simulation/simulation.h"
#include "broker/simulation/simulation_accounting.h"
#include "broker/simulation/simulation_gpus.h"

namespace sluice::broker {

// Traits of an agent; most agents have none.
struct AgentBehavior {
  bool crashes = false;       // dies in the middle of its work at times
  bool forgets = false;       // stops renewing at times, and keeps its memory for a while
  bool over_uses = false;     // takes more than it was promised
  bool is_stubborn = false;   // does not yield
  bool is_anonymous = false;  // the ledger does not know its process
  bool is_bound = false;      // its lease hangs on a connection
  bool is_idle = false;       // takes none of the memory that it leased
};

struct SimulatedAgent {
  std::string name;
  Priority priority;
  AgentBehavior behavior;
  Holder process;  // as it really is
  LeaseId lease = 0;
  std::uint64_t secret = 0, renewals = 0;
  std::uint64_t generation = 0;  // grows; events of an earlier one are void
  double works_s = 0;
  std::vector<std::pair<std::size_t, std::uint64_t>> promised;
};

class SimulationRun {
 public:
  SimulationRun(const SimulationOptions& options, const std::vector<Card>& cards);
  SimulationReport go();
  const SimulationAccounting& accounting() const noexcept { return accounting_; }

 private:
  enum class Kind {
    ask,
    allocate,
    renew,
    finish,
    crash,
    death_noticed,
    let_go,  // an agent
    sample,
    sample_arrives,
    gpu_lost,
    gpu_back,
    unmanaged_starts,
    unmanaged_exits,  // a GPU
    restart,
  };
  struct Event {
    Instant at;
    std::uint64_t order;  // of those at the same instant
    Kind kind;
    std::uint32_t who;
    std::uint64_t generation;
    friend bool operator>(const Event& a, const Event& b) {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };
  static const char* name_of(Kind kind);

  void plan(double after_s, Kind kind, std::size_t who, std::uint64_t generation = 0);
  void plan_for(std::size_t agent, double after_s, Kind kind);
  void happen(const Event& event);
  void agent_event(const Event& event);
  void read(const Changes& changes);
  void read_one(const Change& change);
  void check_all();
  void breaks(const std::string& what);

  AgentBehavior random_behavior();
  LeaseRequest random_request(SimulatedAgent& agent);
  void ask(std::size_t agent);
  void has_lease(std::size_t agent);
  void allocate(std::size_t agent);
  void renew(std::size_t agent);
  void finish(std::size_t agent);
  void crash(std::size_t agent);
  void death_noticed(std::size_t agent);
  void let_go(std::size_t agent);
  void lost_lease(std::size_t agent);
  void restart_process(SimulatedAgent& agent);

  void sample(std::size_t card);
  void sample_arrives(std::uint64_t slot);
  void gpu_lost(std::size_t card);
  void unmanaged_starts(std::size_t card);
  void unmanaged_exits(std::uint64_t number);
  void update_accounting(std::size_t card, const Card& sample);
  void restart();

  SimulationOptions options_;
  Policy policy_;
  Rng rng_;
  Instant now_;
  SimulationGpus gpus_;
  SimulationAccounting accounting_;
  Ledger ledger_;
  SimulationReport report_;
  std::vector<SimulatedAgent> agents_;
  std::unordered_map<LeaseId, std::size_t> holder_of_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t order_ = 0, next_pid_ = 1000, samples_ = 0, slots_ = 0;
  std::unordered_map<std::uint64_t, std::pair<std::size_t, Card>> on_the_way_;
  std::vector<std::pair<std::size_t, Holder>> unmanaged_;
  std::set<std::int64_t> unmanaged_now_;        // by pid
  std::vector<std::optional<Instant>> newest_;  // sample of each card that the ledger knows
  std::vector<std::uint64_t> lists_, kinds_, reported_;
  double promised_sum_ = 0;
  std::uint64_t memory_ = 0;
};

}  // namespace sluice::broker
