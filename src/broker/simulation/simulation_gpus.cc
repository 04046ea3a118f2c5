#include "broker/simulation/simulation_gpus.h"

#include "broker/simulation/simulation.h"
#include "device/detect/detect.h"

namespace sluice::broker {

std::vector<Card> cards_of_fake_nvml() {
  std::vector<Card> cards;
  for (const auto& gpu :
       device::detect({.root = "/", .demo = "mixed-cards", .demo_options = {}}).gpus) {
    Card card;
    card.uuid = gpu.uuid, card.bus = gpu.bus, card.name = gpu.name;
    // A Jetson's driver does not say how much memory there is; the catalogue does.
    const auto nominal = gpu.card ? gpu.card->memory_bytes : 0;
    card.total = gpu.memory_total.value_or(nominal) - gpu.memory_reserved.value_or(0);
    card.numa_node = gpu.numa_node;
    card.usable = true;
    cards.push_back(std::move(card));
  }
  return cards;
}

SimulationGpus::SimulationGpus(std::vector<Card> cards) {
  for (auto& card : cards) {
    index_[card.uuid] = truth_.size();
    truth_.push_back({std::move(card), {}, 0});
  }
}

bool SimulationGpus::set(std::size_t card, const Holder& who, std::uint64_t bytes) {
  auto& truth = truth_[card];
  const auto at = truth.processes.find(who.pid);
  const auto had = at == truth.processes.end() ? 0 : at->second.bytes.value_or(0);
  if (truth.used - had + bytes > truth.card.total) return false;
  truth.used += bytes - had;
  if (bytes == 0) {
    if (at != truth.processes.end()) truth.processes.erase(at);
  } else {
    truth.processes[who.pid] = {who.pid, who.start_time, bytes, {}, {}};
  }
  return true;
}

void SimulationGpus::process_ends(const Holder& who) {
  for (std::size_t i = 0; i < truth_.size(); ++i) set(i, who, 0);
}

void SimulationGpus::lose(std::size_t card) {
  truth_[card].card.usable = false;
  truth_[card].card.why_unusable = "it fell off the bus";
}

void SimulationGpus::restore(std::size_t card) {
  truth_[card].card.usable = true;
  truth_[card].card.why_unusable.clear();
}

Card SimulationGpus::sample(std::size_t card, bool with_list, Instant now) {
  auto& truth = truth_[card];
  if (!truth.card.usable) return truth.card;  // the last that was read
  truth.card.used = truth.used;
  truth.card.sampled_at = now;
  if (with_list) {
    truth.card.processes.clear();
    for (const auto& [pid, process] : truth.processes) truth.card.processes.push_back(process);
    truth.card.processes_at = now;
  }
  return truth.card;
}

}  // namespace sluice::broker
