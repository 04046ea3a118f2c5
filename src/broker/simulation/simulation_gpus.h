// The GPUs of the simulation as they really are, and the samples that come of them.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "broker/lease/card.h"
#include "broker/lease/lease.h"

namespace sluice::broker {

class Rng {
 public:
  explicit Rng(std::uint64_t seed) : state_(seed) {}
  std::uint64_t roll() noexcept {  // splitmix64
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t n) noexcept { return roll() % n; }
  double share() noexcept { return static_cast<double>(roll() >> 11) * 0x1p-53; }
  bool chance(double p) noexcept { return share() < p; }
  double between(double low, double high) noexcept { return low + (high - low) * share(); }

 private:
  std::uint64_t state_;
};

class SimulationGpus {
 public:
  explicit SimulationGpus(std::vector<Card> cards);

  // Sets what a process has on a card; false, and nothing, when there is not that much.
  bool set(std::size_t card, const Holder& who, std::uint64_t bytes);
  void process_ends(const Holder& who);

  void lose(std::size_t card);
  void restore(std::size_t card);
  bool is_lost(std::size_t card) const { return !truth_[card].card.usable; }

  // The card as it is now; with a new list of processes or with the last one.
  Card sample(std::size_t card, bool with_list, Instant now);

  std::size_t size() const noexcept { return truth_.size(); }
  std::size_t index(const std::string& uuid) const { return index_.at(uuid); }
  const Card& card(std::size_t i) const { return truth_[i].card; }

 private:
  struct Truth {
    Card card;  // with the last list that was sampled
    std::unordered_map<std::int64_t, CardProcess> processes;
    std::uint64_t used = 0;
  };
  std::vector<Truth> truth_;
  std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace sluice::broker
