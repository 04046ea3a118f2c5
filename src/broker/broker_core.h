// The broker without lock, thread and effects outside: joins the ledger, its journal, samples,
// enforcement, statistics and events. Every change of the ledger goes through take(). Not
// thread-safe; the functions that Broker has as well do what broker.h says.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "broker/alarm.h"
#include "broker/broker.h"
#include "broker/enforcer.h"
#include "broker/event_outbox.h"
#include "broker/followed_holders.h"
#include "broker/journal.h"
#include "broker/lease_list_json.h"
#include "broker/sampled_cards.h"
#include "broker/statistics.h"
#include "broker/usage_history.h"

namespace sluice::broker {

class BrokerCore {
 public:
  // All of them outlive this. `decisions` grows as Broker::decisions() does.
  BrokerCore(const Broker::Options& options, Store& store, HolderWatch* watch,
             std::atomic<std::uint64_t>& decisions);
  BrokerCore(const BrokerCore&) = delete;
  BrokerCore& operator=(const BrokerCore&) = delete;

  // Restores what the store has from before; called first of all. Throws as Store::load().
  void restore(const Moment& at);
  void reload(const BrokerConfig& config, const device::GpuConfig& gpu);

  // Takes in what the ledger changed: stores it, keeps events for later. False when it
  // could not be stored; then it is tried again with the next change.
  bool take(const Changes& changes, const Moment& at);
  bool save(const Moment& at);
  // For a store that was damaged: see Store::write_anew().
  void write_anew(const Moment& at) noexcept;

  // `start`: when the caller began, for the statistics.
  LeaseResponse request(LeaseRequest request, std::uint64_t secret, Instant start,
                        const Moment& at);
  LeaseResponse describe(const Lease& lease, Instant now) const;
  // Nothing when only the store may have it.
  std::optional<LeaseResponse> look_up(LeaseId id, Instant now) const;
  void add_refusal(LeaseResponse& response, const Refusal& refusal) const;
  // The error is for the caller to throw once the changes have had their effects outside.
  std::optional<LeaseError> renew(const Token& token, std::optional<std::uint64_t> client_limit,
                                  Instant came, const Moment& at, LeaseResponse& response);
  std::optional<LeaseError> error_for(Ledger::Outcome outcome, const Token& token,
                                      const Moment& at) const;  // nothing: it was done
  void report(const Token& token, const UsageReport& usage, const Moment& at);
  struct Sample {
    std::vector<CardSnapshot> card_snapshots;
    std::vector<Card> cards;  // of these
    bool mps_daemon;
  };
  // False for one that is overtaken by a later one.
  bool observe(Sample sample, const watch::Snapshot& snapshot, const Moment& at);
  std::vector<watch::OwnerMemory> memory_in_use() const;
  Broker::Stats stats() const;
  LeaseList list(const LeasePage& page, const Moment& at) const;

  const BrokerConfig& config() const noexcept { return config_; }
  const device::GpuConfig& gpu() const noexcept { return gpu_; }
  Ledger& ledger() noexcept { return ledger_; }
  const Ledger& ledger() const noexcept { return ledger_; }
  const Journal& journal() const noexcept { return journal_; }
  const FollowedHolders& holders() const noexcept { return holders_; }
  Enforcer& enforcer() noexcept { return enforcer_; }
  EventOutbox& outbox() noexcept { return outbox_; }
  Alarm& alarm() noexcept { return alarm_; }
  // Processes that are to end, once.
  std::vector<Holder> take_to_end() { return std::exchange(to_end_, {}); }

 private:
  void note(const Change& change, const Moment& at);
  LeaseRequest completed(LeaseRequest request) const;
  std::optional<LeaseResponse> find_retried(const LeaseRequest& request, const Moment& at);
  LeaseResponse ask(LeaseRequest request, std::uint64_t secret, const Moment& at);
  void add_env(LeaseResponse& response) const;

  BrokerConfig config_;
  device::GpuConfig gpu_;
  Ledger ledger_;
  Store& store_;
  Journal journal_;
  SampledCards cards_;
  FollowedHolders holders_;
  UsageHistory usage_;
  Statistics statistics_;
  Enforcer enforcer_;
  EventOutbox outbox_;
  Alarm alarm_;
  std::vector<Holder> to_end_;
  std::atomic<std::uint64_t>& decisions_;
};

}  // namespace sluice::broker
