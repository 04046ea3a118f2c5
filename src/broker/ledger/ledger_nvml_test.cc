// The ledger fed from the fake NVML, driver call by driver call, in a scenario's time.
#include "broker/ledger/ledger_for_tests.h"
#include "device/demo/demo.h"

namespace sluice::broker {
namespace {

using What = Change::What;

// A machine of a demo scenario whose clock stands where it is put.
struct Demo {
  explicit Demo(const std::string& name) : nvml(device::open_demo(name)), ledger(Policy{}) {
    look(0);
    for (unsigned i = 0; i < *nvml->count().optional(); ++i)
      uuids.push_back(nvml->uuid(nvml->by_index(i).value).value);
    look(0.5);
  }

  void look(double second) {
    now = at_second(1000 + second);
    device::freeze_demo(*nvml, second);
    cards.clear();
    for (const auto& uuid : uuids) cards.push_back(card(uuid));
    for (auto& change : ledger.tick(now)) reported.push_back(std::move(change));
    for (auto& change : ledger.observe(cards, now)) reported.push_back(std::move(change));
    EXPECT_EQ(ledger.broken_invariant(), "");
  }

  Card card(const std::string& uuid) {
    Card out;
    out.uuid = out.bus = out.name = uuid;
    const auto device = nvml->by_uuid(uuid);
    const auto memory = nvml->memory(device.value);
    if (!device || !memory) {
      out.why_unusable = "it does not answer";
      return out;
    }
    out.usable = true;
    out.total = memory.value.total - memory.value.reserved.value_or(0);
    out.used = memory.value.used;
    out.sampled_at = out.processes_at = now;
    for (const auto& p : nvml->processes(device.value).value)
      out.processes.push_back({p.pid, 0, p.memory, "", ""});
    return out;
  }

  LeaseId ask(const LeaseRequest& request) {
    Changes changes;
    const auto id = ledger.request(request, 1, now, changes).id;
    reported.insert(reported.end(), changes.begin(), changes.end());
    EXPECT_EQ(ledger.broken_invariant(), "");
    return id;
  }

  std::unique_ptr<device::Nvml> nvml;
  Ledger ledger;
  std::vector<std::string> uuids;
  std::vector<Card> cards;
  Instant now{};
  Changes reported;
};

TEST(LedgerOnFakeNvml, CountsUnmanagedProcessesThatTheDriverLists) {
  Demo demo("gpu-falls-off");  // two H200, a process of 40 GiB on each
  const auto capacity = demo.ledger.capacity(demo.uuids[0], demo.now);
  EXPECT_EQ(capacity.unmanaged, 40 * kGiB);
  EXPECT_LE(capacity.free, demo.cards[0].total - 40 * kGiB);
  EXPECT_NE(demo.ask(want("a", 90)), 0u);
  EXPECT_NE(demo.ask(want("b", 90)), 0u);
  EXPECT_EQ(demo.ask(want("c", 90)), 0u);
}

TEST(LedgerOnFakeNvml, RecognizesAnUnmanagedProcessThatTakesALease) {
  Demo demo("gpu-falls-off");
  auto request = by(want("embedder", 60), 7001, 0);
  request.device = demo.uuids[0];
  EXPECT_NE(demo.ask(request), 0u);
  const auto capacity = demo.ledger.capacity(demo.uuids[0], demo.now);
  EXPECT_EQ(capacity.unmanaged, 0u);
  EXPECT_GE(capacity.free, demo.cards[0].total - 62 * kGiB);  // its 40 GiB are among the 60
}

TEST(LedgerOnFakeNvml, KeepsLeasesWhileAGpuIsOffTheBusAndGrantsWhenItIsBack) {
  Demo demo("gpu-falls-off");  // the second one is gone from second 5 to 15
  auto on_second = want("a", 30);
  on_second.device = demo.uuids[1], on_second.ttl = Seconds(600);
  const auto held = demo.ask(on_second);
  demo.look(6);
  const auto waiting = demo.ask(waits(on_second, 60));
  EXPECT_EQ(demo.ledger.find(held)->state, State::held);
  EXPECT_EQ(demo.ledger.find(waiting)->state, State::waiting);
  for (double s = 7; s < 15; ++s) demo.look(s);
  EXPECT_EQ(demo.ledger.find(waiting)->state, State::waiting);
  demo.look(16);
  EXPECT_EQ(demo.ledger.find(waiting)->state, State::held);
  const auto times = [&](What what) {
    return std::ranges::count(demo.reported, what, &Change::what);
  };
  EXPECT_EQ(times(What::card_lost), 1);
  EXPECT_EQ(times(What::card_back), 1);
}

}  // namespace
}  // namespace sluice::broker
