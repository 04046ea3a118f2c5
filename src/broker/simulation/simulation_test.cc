// The simulation finds what it is there to find; the long runs are ctests of their own.
#include "broker/simulation/simulation.h"

#include <nlohmann/json.hpp>

#include "broker/ledger/ledger_for_tests.h"
#include "broker/simulation/simulation_accounting.h"

namespace sluice::broker {
namespace {

using testing::HasSubstr;
using testing::SizeIs;
using What = Change::What;

TEST(Simulation, HasEightUnlikeCardsOfTheFakeNvml) {
  const auto cards = cards_of_fake_nvml();
  EXPECT_THAT(cards, SizeIs(8));
  std::set<std::string> names;
  for (const auto& card : cards) {
    names.insert(card.name);
    EXPECT_GT(card.total, 7 * kGiB) << card.name;
  }
  EXPECT_THAT(names, SizeIs(8));
}

TEST(Simulation, IsTheSameForTheSameSeed) {
  SimulationOptions options;
  options.events = 20'000, options.agents = 200;
  const auto cards = cards_of_fake_nvml();
  const auto one = simulate(options, cards), same = simulate(options, cards);
  EXPECT_EQ(one.broken, "");
  EXPECT_EQ(one.counts, same.counts);
  options.seed = 2;
  EXPECT_NE(one.counts, simulate(options, cards).counts);
}

TEST(Simulation, KeepsEveryInvariantForManySeeds) {
  SimulationOptions options;
  options.events = 10'000, options.agents = 300, options.full_check_every = 500;
  for (options.seed = 100; options.seed < 106; ++options.seed) {
    options.honest = options.seed % 2 == 0;
    EXPECT_EQ(simulate(options, cards_of_fake_nvml()).broken, "") << "seed " << options.seed;
  }
}

TEST(Simulation, SaysHowToReproduceAFailure) {
  SimulationOptions options;
  options.events = 5000, options.seed = 7;
  options.longest_wait = Seconds(1);  // nobody is that quick
  const auto report = simulate(options, cards_of_fake_nvml());
  EXPECT_THAT(report.broken, HasSubstr("was starved"));
  EXPECT_THAT(to_string(report, options), HasSubstr("--seed 7 --events 5000"));
}

TEST(Simulation, TheResultHasTheStatisticsAndAnyViolation) {
  SimulationOptions options;
  options.events = 20'000, options.agents = 200;
  auto report = simulate(options, cards_of_fake_nvml());
  const auto good = to_json(report, options, 8);
  EXPECT_GE(good["events"], 20'000);
  EXPECT_EQ(good["agents"], 200);
  EXPECT_EQ(good["violations"], 0);
  EXPECT_GT(good["waits"]["low"]["served"], 0);
  EXPECT_GE(good["waits"]["low"]["longest_s"], good["waits"]["low"]["p99_s"]);
  report.broken = "a byte was promised twice";
  EXPECT_EQ(to_json(report, options, 8)["violations"], 1);
  EXPECT_EQ(to_json(report, options, 8)["verdict"], report.broken);
}

// The accounting with changes that a ledger must never report.
struct Books {
  Books() : machine({80}), accounting(machine.cards, Seconds(100)) {}
  void report(const Changes& changes) { accounting.read(changes, machine.ledger, machine.now()); }
  Machine machine;
  SimulationAccounting accounting;
};

TEST(SimulationAccounting, DetectsAnOvercommit) {
  Books b;
  Machine other({800});  // its ledger believes in a larger card
  const auto id = other.get(want("a", 81));
  b.accounting.read({{What::granted, id, 0, {}, {}}}, other.ledger, other.now());
  EXPECT_THAT(b.accounting.broken(), HasSubstr("more than the card has"));
}

TEST(SimulationAccounting, DetectsAPromiseOfUnmanagedMemory) {
  Books b;
  b.accounting.listed(0, {{6, 40 * kGiB}}, b.machine.now());
  b.machine.get(want("a", 40));
  b.report(b.machine.reported);
  EXPECT_EQ(b.accounting.broken(), "");
  b.machine.reported.clear();
  b.machine.get(want("b", 1));  // its ledger has seen no unmanaged process
  b.report(b.machine.reported);
  EXPECT_THAT(b.accounting.broken(), HasSubstr("an unmanaged process was known to have"));

  Books later;
  later.machine.get(want("a", 40));
  later.report(later.machine.reported);
  later.machine.second += 1, later.machine.reported.clear();
  later.accounting.listed(0, {{6, 40 * kGiB}}, later.machine.now());  // it may be a's
  later.machine.get(want("b", 40));
  later.report(later.machine.reported);
  EXPECT_EQ(later.accounting.broken(), "");
}

TEST(SimulationAccounting, DetectsALeaseThatIsGrantedOrEndsTwice) {
  Books twice;
  const auto id = twice.machine.get(want("a", 8));
  twice.report(twice.machine.reported);
  EXPECT_EQ(twice.accounting.broken(), "");
  twice.report({{What::granted, id, 0, {}, {}}});
  EXPECT_THAT(twice.accounting.broken(), HasSubstr("granted twice"));

  Books ends;
  const auto other = ends.machine.get(want("a", 8));
  ends.report(ends.machine.reported);
  ends.report({{What::ended, other, 0, {}, {}}});
  ends.report({{What::ended, other, 0, {}, {}}});
  EXPECT_THAT(ends.accounting.broken(), HasSubstr("ended twice"));
}

TEST(SimulationAccounting, DetectsARevivedLeaseAndALostOne) {
  Books revived;
  const auto id = revived.machine.get(want("a", 8));
  revived.report(revived.machine.reported);
  revived.report({{What::ended, id, 0, {}, {}}});
  revived.accounting.renewed(id, Ledger::Outcome::done, revived.machine.now());
  EXPECT_THAT(revived.accounting.broken(), HasSubstr("came back after its end"));

  Books lost;
  lost.machine.get(want("a", 8));
  lost.report(lost.machine.reported);
  lost.accounting.compare(lost.machine.ledger);
  EXPECT_EQ(lost.accounting.broken(), "");
  lost.accounting.compare(Ledger(Policy{}));
  EXPECT_THAT(lost.accounting.broken(), HasSubstr("was lost"));
}

}  // namespace
}  // namespace sluice::broker
