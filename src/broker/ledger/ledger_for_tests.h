// A small machine for tests of the ledger: cards of whole GiB and a clock in seconds.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "broker/ledger/ledger.h"

namespace sluice::broker {

constexpr std::uint64_t kGiB = 1ull << 30;

inline Instant at_second(double s) {
  return Instant(std::chrono::duration_cast<Steady::duration>(Seconds(s)));
}

inline LeaseRequest want(std::string agent, std::uint64_t gib,
                         Priority priority = Priority::normal) {
  LeaseRequest request;
  request.agent = std::move(agent);
  request.bytes = gib * kGiB;
  request.priority = priority;
  request.on_unavailable = OnUnavailable::fail;
  return request;
}

inline LeaseRequest waits(LeaseRequest request, double seconds = 3600) {
  request.on_unavailable = OnUnavailable::wait;
  request.wait = Seconds(seconds);
  return request;
}

inline LeaseRequest by(LeaseRequest request, std::int64_t pid, std::uint64_t start = 7) {
  request.holder.pid = pid, request.holder.start_time = start;
  return request;
}

inline Card card_of(int number, std::uint64_t gib) {
  Card card;
  card.uuid = "GPU-" + std::to_string(number);
  card.bus = "0000:0" + std::to_string(number) + ":00.0";
  card.name = "Card";
  card.total = gib * kGiB;
  card.usable = true;
  return card;
}

// Cards GPU-0, GPU-1 and so on, all sampled at second 1000, which is now. Every call is
// followed by a look at the ledger's invariants.
struct Machine {
  explicit Machine(std::vector<std::uint64_t> gib = {80}, Policy policy = {}) : ledger(policy) {
    for (const auto size : gib) cards.push_back(card_of(static_cast<int>(cards.size()), size));
    sample();
  }

  Instant now() const { return at_second(second); }

  // Takes a sample of every card now.
  void sample() {
    for (auto& card : cards) {
      card.sampled_at = now();
      if (has_lists) card.processes_at = now();
    }
    note(ledger.observe(cards, now()));
  }
  void sample_at(double when) {
    second = when;
    note(ledger.tick(now()));
    sample();
  }
  void tick_at(double when) {
    second = when;
    note(ledger.tick(now()));
  }
  // A process of that size on a card, in place of what it had there.
  void process(std::size_t card, std::int64_t pid, std::uint64_t gib, std::uint64_t start = 7) {
    auto& to = cards[card];
    std::erase_if(to.processes, [&](const CardProcess& p) { return p.pid == pid; });
    if (gib > 0) to.processes.push_back({pid, start, gib * kGiB, "python", "ann"});
    to.used = 0;
    for (const auto& p : to.processes) to.used += p.bytes.value_or(0);
  }

  Ledger::Decision ask(const LeaseRequest& request) {
    Changes changes;
    auto response = ledger.request(request, kSecret, now(), changes);
    note(std::move(changes));
    return response;
  }
  LeaseId get(const LeaseRequest& request) {
    const auto response = ask(request);
    EXPECT_EQ(response.verdict, Verdict::granted) << response.refusal.reason;
    return response.id;
  }
  LeaseId queue(const LeaseRequest& request) {
    const auto response = ask(waits(request));
    EXPECT_EQ(response.verdict, Verdict::waiting);
    return response.id;
  }
  Ledger::Outcome release(LeaseId id) {
    Changes changes;
    const auto outcome = ledger.release(id, kSecret, now(), changes);
    note(std::move(changes));
    return outcome;
  }
  // Back, and confirmed by a sample a second later.
  void give_back(LeaseId id) {
    EXPECT_EQ(release(id), Ledger::Outcome::done);
    sample_at(second + 1);
  }
  Ledger::Outcome renew(LeaseId id) {
    const auto* lease = ledger.find(id);
    Changes changes;
    const auto outcome =
        ledger.renew(id, kSecret, lease == nullptr ? 0 : lease->renewals, now(), changes);
    note(std::move(changes));
    return outcome;
  }
  void note(Changes changes) {
    for (auto& change : changes) reported.push_back(std::move(change));
    EXPECT_EQ(ledger.broken_invariant(), "");
  }
  State state(LeaseId id) const {
    const auto* lease = ledger.find(id);
    return lease == nullptr ? State::ended : lease->state;
  }
  std::string card(LeaseId id) const {
    const auto* lease = ledger.find(id);
    return lease == nullptr || lease->parts.empty() ? "" : lease->parts.front().uuid;
  }
  std::uint64_t free_gib(std::size_t card = 0) const {
    return ledger.capacity(cards[card].uuid, now()).free / kGiB;
  }
  // The number of times this was reported of the lease, or of any.
  std::ptrdiff_t times(Change::What what, LeaseId id = 0) const {
    return std::ranges::count_if(
        reported, [&](const Change& c) { return c.what == what && (id == 0 || c.lease == id); });
  }
  const Change& last(Change::What what) const {
    for (auto at = reported.rbegin(); at != reported.rend(); ++at)
      if (at->what == what) return *at;
    ADD_FAILURE() << "never reported: " << to_string(what);
    static const Change nothing{};
    return nothing;
  }

  static constexpr std::uint64_t kSecret = 42;
  Ledger ledger;
  std::vector<Card> cards;
  double second = 1000;
  bool has_lists = true;
  Changes reported;
};

}  // namespace sluice::broker
