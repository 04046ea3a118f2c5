// Any bytes as a history of the lease ledger: requests, renewals, samples, losses,
// restarts in any order and at any time. After each step every invariant must hold.
// Built for libFuzzer with clang, and for the smoke test beside it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "broker/ledger/ledger.h"

namespace {

using namespace sluice;
using namespace sluice::broker;

constexpr std::uint64_t kGiB = 1 << 30;

void check(bool ok, const std::string& what) {
  if (ok) return;
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

// Bytes as choices; zeros when they are used up.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), end_(data + size) {}
  bool is_empty() const { return data_ == end_; }
  unsigned below(unsigned n) { return (is_empty() ? 0u : *data_++) % n; }

 private:
  const std::uint8_t *data_, *end_;
};

class History {
 public:
  explicit History(Bytes bytes) : bytes_(bytes), ledger_(policy()) {
    for (unsigned i = 0; i < 3; ++i) {
      Card card;
      card.uuid = card.bus = "GPU-" + std::to_string(i);
      card.total = (8 + 8 * i) * kGiB;
      card.usable = true;
      cards_.push_back(card);
    }
  }

  void run() {
    while (!bytes_.is_empty()) {
      step();
      const auto broken = ledger_.broken_invariant();
      check(broken.empty(), broken);
      check_sums();
    }
  }

 private:
  Policy policy() {
    Policy policy;
    policy.escalate = static_cast<Policy::Escalate>(bytes_.below(3));
    policy.hold_after = Seconds(bytes_.below(30));
    policy.max_leases = 40, policy.max_waiting = 10;
    policy.max_leases_per_peer = 6, policy.max_waiting_per_peer = 3;
    policy.max_cpu_leases_per_peer = 3, policy.max_leases_per_agent = 5;
    if (bytes_.below(2) == 1) policy.quotas["a1"] = 10 * kGiB;
    if (bytes_.below(2) == 1) policy.reservations["a2"] = (1 + bytes_.below(40)) * kGiB;
    return policy;
  }

  LeaseRequest lease_request() {
    LeaseRequest out;
    const auto who = bytes_.below(5);
    out.agent = "a" + std::to_string(who);
    if (who > 1) out.peer = "uid:" + std::to_string(who % 2);
    out.bytes = bytes_.below(30) * kGiB;  // none is no good
    if (bytes_.below(4) == 0) out.min_bytes = (1 + bytes_.below(8)) * kGiB;
    out.gpus = 1 + (bytes_.below(4) == 0 ? bytes_.below(4) : 0);
    out.priority = static_cast<Priority>(bytes_.below(4));
    if (bytes_.below(6) == 0) out.device = "GPU-" + std::to_string(bytes_.below(4));
    out.linked = bytes_.below(2) == 1;
    out.ttl = Seconds(1 + bytes_.below(60));
    out.wait = Seconds(bytes_.below(60));
    out.on_unavailable = static_cast<OnUnavailable>(bytes_.below(3));
    out.holder = {bytes_.below(6), bytes_.below(2), -1, bytes_.below(3)};
    return out;
  }

  void step() {
    const auto kind = bytes_.below(16);
    if (kind < 5) return request();
    if (kind < 8) return observe();
    switch (kind) {
      case 8: now_ += std::chrono::milliseconds(250 * bytes_.below(200)); break;
      case 9: ledger_.tick(now_); break;
      case 10: ledger_.connection_closed(bytes_.below(3), now_); break;
      case 11: ledger_.holder_died(bytes_.below(6), bytes_.below(2), now_); break;
      case 12: ledger_.set_policy(policy()); break;
      case 13: restart(); break;
      default: touch(kind == 14); break;
    }
  }

  void request() {
    Changes changes;
    const auto before = ledger_.size();
    try {
      const auto answer = ledger_.request(lease_request(), 1, now_, changes);
      check((answer.id == 0) == (answer.verdict == Verdict::refused), "refused with a number");
      check(answer.verdict == Verdict::granted || !answer.refusal.reason.empty(), "no reason");
    } catch (const Error&) {
      check(ledger_.size() == before && changes.empty(), "a refused request changed something");
    }
  }

  void observe() {
    auto& card = cards_[bytes_.below(3)];
    card.usable = bytes_.below(8) != 0;
    card.excluded = bytes_.below(32) == 1;
    card.sampled_at = now_ - std::chrono::milliseconds(500 * bytes_.below(8));
    if (bytes_.below(16) == 1) card.sampled_at.reset();
    card.processes.clear();
    for (unsigned i = bytes_.below(4); i > 0; --i)
      card.processes.push_back({bytes_.below(6),
                                bytes_.below(3),
                                bytes_.below(8) == 1
                                    ? std::nullopt
                                    : std::optional<std::uint64_t>(bytes_.below(20) * kGiB),
                                {},
                                {}});
    card.processes_at = card.sampled_at;
    card.used = bytes_.below(30) * kGiB;
    if (bytes_.below(64) == 1)  // in a sample that none has overtaken
      card.total = (1 + bytes_.below(32)) * kGiB, card.sampled_at = now_;
    ledger_.observe({&card, 1}, now_);
  }

  // Renews or gives back some lease, with more or less right.
  void touch(bool renews) {
    const auto id =
        ledger_.last_id() - std::min<std::uint64_t>(ledger_.last_id(), bytes_.below(20));
    const auto* lease = ledger_.find(id);
    const bool is_over = lease == nullptr || lease->state == State::draining ||
                         lease->state == State::ended || lease->expires_at <= now_;
    const std::uint64_t secret = bytes_.below(8) == 0 ? 2 : 1;
    const auto number = (lease == nullptr ? 0 : lease->renewals) + (bytes_.below(8) == 0 ? 1 : 0);
    Changes changes;
    const auto outcome = renews ? ledger_.renew(id, secret, number, now_, changes)
                                : ledger_.release(id, secret, now_, changes);
    check(outcome != Ledger::Outcome::done || (!is_over && secret == 1), "one that is over lives");
  }

  void restart() {
    std::vector<Lease> stored;
    for (const auto* lease : ledger_.live()) stored.push_back(*lease);
    const auto last = ledger_.last_id();
    const auto count = stored.size();
    ledger_ = Ledger(policy());
    ledger_.restore(std::move(stored), last);
    check(ledger_.size() == count && ledger_.last_id() == last, "a restart lost a lease");
  }

  void check_sums() {
    for (const auto& card : cards_) {
      std::uint64_t sum = 0;
      for (const auto& promise : ledger_.promises(card.uuid)) sum += promise.bytes;
      const auto capacity = ledger_.capacity(card.uuid, now_);
      check(capacity.free == 0 || sum + capacity.free <= card.total, "more free than there is");
    }
  }

  Bytes bytes_;
  Ledger ledger_;
  std::vector<Card> cards_;
  Instant now_{std::chrono::hours(1)};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  History(Bytes(data, size)).run();
  return 0;
}
