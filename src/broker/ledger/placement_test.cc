#include "broker/ledger/placement.h"

#include "broker/ledger/ledger_for_tests.h"

namespace sluice::broker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Instant kPlaced = at_second(1000);

CardProcess process(std::int64_t pid, std::uint64_t gib, std::uint64_t start = 7) {
  return {pid, start, gib * kGiB, "python", "ann"};
}

Promise promise(std::uint64_t gib, std::int64_t pid, double granted = 900) {
  Promise out{1, gib * kGiB, {}, at_second(granted), std::nullopt};
  if (pid != 0) out.holder = Holder{pid, 7, 1000, 0};
  out.before = std::make_shared<const InUse>();
  return out;
}

// One card of 80 GiB, sampled and listed a moment ago.
struct Scene {
  const char* name;
  std::uint64_t used;
  std::vector<CardProcess> processes;
  std::vector<Promise> promises;
  std::uint64_t free, unmanaged;
};

TEST(CardCapacity, CountsEveryByteOnceWhoeverUsesIt) {
  const std::vector<Scene> scenes = {
      {"empty", 0, {}, {}, 80, 0},
      {"promised, not yet allocated", 0, {}, {promise(30, 5)}, 50, 0},
      {"promised and allocated", 30, {process(5, 30)}, {promise(30, 5)}, 50, 0},
      {"half allocated", 15, {process(5, 15)}, {promise(30, 5)}, 50, 0},
      {"an over-user", 45, {process(5, 45)}, {promise(30, 5)}, 35, 0},
      {"an unmanaged process", 20, {process(6, 20)}, {}, 60, 20},
      {"an unmanaged process beside a promise not yet used",
       20,
       {process(6, 20)},
       {promise(30, 5)},
       30,
       20},
      {"an unmanaged process beside one in use",
       50,
       {process(6, 20), process(5, 30)},
       {promise(30, 5)},
       30,
       20},
      {"two leases of one process", 40, {process(5, 40)}, {promise(30, 5), promise(20, 5)}, 30, 0},
      {"memory of no process", 25, {}, {promise(10, 5)}, 55, 0},
      {"a holder that nobody can tell", 30, {process(9, 30)}, {promise(30, 0)}, 50, 30},
      {"such a holder, and it holds less", 10, {process(9, 10)}, {promise(30, 0)}, 50, 10},
      {"a reused pid is an unmanaged process", 20, {process(5, 20, 8)}, {promise(30, 5)}, 30, 20},
      {"no start time: the pid decides", 20, {process(5, 20, 0)}, {promise(30, 5)}, 50, 0},
      {"more than there is", 90, {process(6, 90)}, {promise(30, 5)}, 0, 90},
  };
  for (const auto& scene : scenes) {
    auto card = card_of(0, 80);
    card.used = scene.used * kGiB;
    card.processes = scene.processes;
    card.sampled_at = card.processes_at = at_second(999);
    const auto capacity = capacity_on(card, scene.promises, kPlaced, Seconds(10));
    EXPECT_EQ(capacity.free / kGiB, scene.free) << scene.name;
    EXPECT_EQ(capacity.unmanaged / kGiB, scene.unmanaged) << scene.name;
    EXPECT_EQ(capacity.why, "") << scene.name;
  }
}

TEST(CardCapacity, AddsWhatWasPromisedAfterTheSampleToWhatItShows) {
  auto card = card_of(0, 80);
  card.used = 20 * kGiB;  // by whom, no list tells
  card.sampled_at = at_second(999);
  const Promise before[] = {promise(20, 0, 998)}, after[] = {promise(20, 0, 999.5)};
  EXPECT_EQ(capacity_on(card, before, kPlaced, Seconds(10)).free / kGiB,
            60u);                                                              // it may be the same
  EXPECT_EQ(capacity_on(card, after, kPlaced, Seconds(10)).free / kGiB, 40u);  // it cannot be
}

TEST(CardCapacity, CountsAHolderWhoseMemoryTheDriverHidesAsPromised) {
  auto card = card_of(0, 80);
  card.used = 30 * kGiB;
  card.sampled_at = card.processes_at = at_second(999);
  card.processes = {{5, 7, std::nullopt, "python", "ann"}};
  const Promise promises[] = {promise(30, 5)};
  EXPECT_EQ(capacity_on(card, promises, kPlaced, Seconds(10)).free / kGiB, 50u);
}

// The holder's process is not known; the unmanaged process had its memory before the grant.
TEST(CardCapacity, UnmanagedMemoryFromBeforeTheGrantIsNotTheHolders) {
  auto card = card_of(0, 80);
  card.used = 60 * kGiB;
  card.processes = {process(6, 60)};
  card.sampled_at = card.processes_at = at_second(899);
  auto lease = promise(8, 0);
  lease.before = std::make_shared<const InUse>(in_use_on(card));
  const auto free_with = [&](std::vector<CardProcess> processes) {
    card.processes = std::move(processes), card.used = 0;
    for (const auto& p : card.processes) card.used += *p.bytes;
    card.sampled_at = card.processes_at = at_second(999);
    return capacity_on(card, {&lease, 1}, kPlaced, Seconds(10)).free / kGiB;
  };
  EXPECT_EQ(free_with({process(6, 60)}), 12u);                 // not allocated yet
  EXPECT_EQ(free_with({process(6, 60), process(9, 8)}), 12u);  // this may be it
  EXPECT_EQ(free_with({process(9, 60)}), 20u);                 // the unmanaged process left
  EXPECT_EQ(free_with({process(6, 60, 8)}), 20u);  // as before, and its number is used again
  lease.before = nullptr;                          // after a restart nobody knows
  EXPECT_EQ(free_with({process(6, 60)}), 12u);
}

TEST(CardCapacity, EachLeaseIsAmongUnmanagedMemorySinceItsOwnGrant) {
  auto card = card_of(0, 80);
  card.sampled_at = card.processes_at = at_second(899);
  Promise leases[] = {promise(10, 0, 900), promise(10, 0, 950)};
  card.processes = {process(6, 10)}, card.used = 10 * kGiB;  // the first has allocated
  leases[1].before = std::make_shared<const InUse>(in_use_on(card));
  card.sampled_at = card.processes_at = at_second(999);
  EXPECT_EQ(capacity_on(card, leases, kPlaced, Seconds(10)).free / kGiB, 60u);
  card.processes.push_back(process(7, 10)), card.used = 20 * kGiB;
  EXPECT_EQ(capacity_on(card, leases, kPlaced, Seconds(10)).free / kGiB, 60u);
  card.processes_at = at_second(980), card.used = 10 * kGiB;  // one has left since
  EXPECT_EQ(capacity_on(card, leases, kPlaced, Seconds(10)).free / kGiB, 60u);
}

TEST(CardCapacity, UnlistedMemoryAtTheGrantIsNotTheHoldersEither) {
  auto card = card_of(0, 80);
  card.used = 60 * kGiB;  // an unmanaged process of 40 has grown since the list
  card.processes = {process(6, 40)};
  card.sampled_at = at_second(899), card.processes_at = at_second(890);
  auto lease = promise(8, 0);
  lease.before = std::make_shared<const InUse>(in_use_on(card));
  card.processes = {process(6, 60)};
  card.sampled_at = card.processes_at = at_second(999);
  EXPECT_EQ(capacity_on(card, {&lease, 1}, kPlaced, Seconds(10)).free / kGiB, 12u);
}

TEST(CardCapacity, BelievesTheSampleWhereTheListIsOlder) {
  auto card = card_of(0, 80);
  card.used = 5 * kGiB;  // the unmanaged process has left
  card.processes = {process(6, 40)};
  card.processes_at = at_second(990);
  card.sampled_at = at_second(999);
  EXPECT_EQ(capacity_on(card, {}, kPlaced, Seconds(10)).free / kGiB, 75u);
}

TEST(CardCapacity, IsZeroOnACardWithoutReadings) {
  auto card = card_of(0, 80);
  EXPECT_THAT(capacity_on(card, {}, kPlaced, Seconds(10)).why, HasSubstr("not been sampled"));
  card.sampled_at = at_second(985);
  auto capacity = capacity_on(card, {}, kPlaced, Seconds(10));
  EXPECT_EQ(capacity.free, 0u);
  EXPECT_THAT(capacity.why, HasSubstr("15.0 s old"));
  card.sampled_at = kPlaced;
  card.usable = false, card.why_unusable = "lost since 12:03";
  capacity = capacity_on(card, {}, kPlaced, Seconds(10));
  EXPECT_EQ(capacity.free, 0u);
  EXPECT_EQ(capacity.why, "lost since 12:03");
}

TEST(CardCapacity, CountsReturnedMemoryUntilALaterSample) {
  auto card = card_of(0, 80);
  card.sampled_at = at_second(999);
  Promise back[] = {promise(30, 5)};
  back[0].given_back_at = at_second(999);  // not before the sample was taken
  EXPECT_EQ(capacity_on(card, back, kPlaced, Seconds(10)).free / kGiB, 50u);
  card.sampled_at = at_second(999.1);
  EXPECT_EQ(capacity_on(card, back, kPlaced, Seconds(10)).free / kGiB, 80u);
}

struct Placement {
  std::vector<Part> parts;
  std::string reason;
};

Placement place(const LeaseRequest& request, std::span<const CandidateCard> candidates) {
  const auto choice = choose(request, candidates);
  Placement out;
  for (const auto i : choice.candidates)
    out.parts.push_back({candidates[i].card->uuid, choice.bytes});
  out.reason = explain(request, candidates, choice);
  return out;
}

// Cards with this much free, and all of it available.
struct TestCards {
  explicit TestCards(std::vector<std::uint64_t> free_gib) {
    for (std::size_t i = 0; i < free_gib.size(); ++i)
      cards.push_back(card_of(static_cast<int>(i), 80));
    for (std::size_t i = 0; i < cards.size(); ++i) {
      candidates.push_back({&cards[i], {}, 0});
      candidates.back().capacity.free = free_gib[i] * kGiB;
    }
  }
  std::vector<std::string> where(const LeaseRequest& request) const {
    std::vector<std::string> uuids;
    for (const auto& part : place(request, candidates).parts) uuids.push_back(part.uuid);
    return uuids;
  }
  std::vector<Card> cards;
  std::vector<CandidateCard> candidates;
};

TEST(Place, TakesTheCardThatItFillsBest) {
  EXPECT_THAT(TestCards({40, 12, 20}).where(want("a", 10)), ElementsAre("GPU-1"));
  EXPECT_THAT(TestCards({40, 8, 20}).where(want("a", 10)), ElementsAre("GPU-2"));
}

TEST(Place, TakesTheEmptiestCardToSpread) {
  auto request = want("a", 10);
  request.placement = PlacementPolicy::spread;
  EXPECT_THAT(TestCards({20, 40, 12}).where(request), ElementsAre("GPU-1"));
}

TEST(Place, TakesTheLowerBusOfTwoAlike) {
  TestCards all({20, 20});
  std::swap(all.cards[0].bus, all.cards[1].bus);
  EXPECT_THAT(all.where(want("a", 10)), ElementsAre("GPU-1"));
}

TEST(Place, NamesTheObstacleOnTheBestCardAndCountsTheOthers) {
  TestCards all({3, 20, 0});
  all.candidates[1].held_back = 15 * kGiB;
  all.candidates[2].capacity.why = "lost since 12:03";
  const auto placement = place(want("a", 10), all.candidates);
  EXPECT_TRUE(placement.parts.empty());
  EXPECT_EQ(placement.reason,
            "10.0 GiB requested; Card (0000:01:00.0) has 20.0 GiB free, 15.0 GiB of it kept for "
            "others, 1 other has no more, 1 other cannot be used");
  const auto found = obstacles(want("a", 10), all.candidates);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[1].uuid, "GPU-1");
  EXPECT_EQ(found[1].free, 20 * kGiB);
  EXPECT_EQ(found[1].kept, 15 * kGiB);
  EXPECT_EQ(found[2].why, "lost since 12:03");
}

TEST(Place, AReasonStaysASentenceOnAMachineWithManyCards) {
  const TestCards all({1, 2, 3, 4, 5, 6, 7, 8});
  const auto reason = place(want("a", 30), all.candidates).reason;
  EXPECT_EQ(reason,
            "30.0 GiB requested; Card (0000:07:00.0) has 8.0 GiB free, 7 others have no more");
  EXPECT_EQ(obstacles(want("a", 30), all.candidates).size(), 8u);
}

TEST(Place, SaysHowManyOfSeveralCardsWereFound) {
  auto request = want("a", 20);
  request.gpus = 4;
  const TestCards all({30, 25, 10, 5, 5});
  EXPECT_EQ(place(request, all.candidates).reason,
            "20.0 GiB on each of 4 GPUs requested, and 2 have it; Card (0000:02:00.0) has 10.0 GiB "
            "free, 2 others have no more");
  EXPECT_EQ(obstacles(request, all.candidates).size(), 3u);
}

TEST(Place, OneUnusableCardGivesTheReason) {
  TestCards all({8, 8, 8});
  for (auto& candidate : all.candidates)
    candidate.capacity = {0, 0, 0, "it has not been sampled yet"};
  EXPECT_EQ(
      place(want("a", 4), all.candidates).reason,
      "4.0 GiB requested; Card (0000:00:00.0): it has not been sampled yet, 2 others cannot be "
      "used");
}

TEST(Place, TakesLessRatherThanNothingWhenAllowed) {
  auto request = want("a", 30);
  request.min_bytes = 10 * kGiB;
  const auto placement = place(request, TestCards({12, 25, 8}).candidates);
  EXPECT_THAT(placement.parts, ElementsAre(Part{"GPU-1", 25 * kGiB}));
  EXPECT_THAT(placement.reason, HasSubstr("25.0 GiB of the 30.0 GiB"));
  EXPECT_TRUE(TestCards({9, 5}).where(request).empty());
}

TEST(Place, GivesTheSameOnEachOfSeveralGpus) {
  auto request = want("a", 30);
  request.gpus = 2, request.min_bytes = 10 * kGiB;
  EXPECT_THAT(place(request, TestCards({40, 15, 20}).candidates).parts,
              ElementsAre(Part{"GPU-2", 20 * kGiB}, Part{"GPU-0", 20 * kGiB}));
  EXPECT_TRUE(TestCards({40, 5, 5}).where(request).empty());
  request.gpus = 4;
  EXPECT_TRUE(TestCards({40, 40, 40}).where(request).empty());
}

TEST(Place, PrefersTheRequestedNumaNodeToTheBetterFit) {
  TestCards all({12, 40});
  all.cards[0].numa_node = 0, all.cards[1].numa_node = 1;
  auto request = want("a", 10);
  request.numa_node = 1;
  EXPECT_THAT(all.where(request), ElementsAre("GPU-1"));
  request.bytes = 50 * kGiB, request.min_bytes = 1;
  EXPECT_THAT(all.where(request), ElementsAre("GPU-1"));
}

TEST(Place, FindsGpusThatReachEachOtherBehindADeadEnd) {
  TestCards all({12, 13, 14, 15});  // the first two are linked, but to no third
  all.cards[0].linked_to = {"GPU-1", "GPU-2", "GPU-3"};
  all.cards[2].linked_to = {"GPU-3"};
  auto request = want("a", 10);
  request.gpus = 3, request.linked = true;
  EXPECT_THAT(all.where(request), ElementsAre("GPU-0", "GPU-2", "GPU-3"));
}

TEST(Place, KnowsACardByItsIndexAndTheBeginningOfItsUuid) {
  TestCards all({12, 13});
  all.cards[0].index = "0", all.cards[1].index = "1";
  auto request = want("a", 10);
  for (const auto* device : {"1", "GPU-1"}) {
    request.device = device;
    EXPECT_THAT(all.where(request), ElementsAre("GPU-1"));
  }
  request.device = "2";
  EXPECT_THAT(all.where(request), testing::IsEmpty());
}

TEST(Place, PrefersGpusThatReachEachOther) {
  TestCards all({12, 13, 40, 41});
  all.cards[2].linked_to = {"GPU-3"};
  auto request = want("a", 10);
  request.gpus = 2;
  EXPECT_THAT(all.where(request), ElementsAre("GPU-0", "GPU-1"));
  request.linked = true;
  EXPECT_THAT(all.where(request), ElementsAre("GPU-2", "GPU-3"));
  EXPECT_THAT(place(request, all.candidates).reason, HasSubstr("linked by NVLink"));
  all.candidates[3].capacity.free = 0;  // then any two
  EXPECT_THAT(all.where(request), ElementsAre("GPU-0", "GPU-1"));
}

TEST(Place, TakesTheNamedCardOnly) {
  auto request = want("a", 10);
  request.device = "GPU-1";
  EXPECT_THAT(TestCards({12, 40}).where(request), ElementsAre("GPU-1"));
  request.device = "0000:01:00.0";
  EXPECT_THAT(TestCards({12, 40}).where(request), ElementsAre("GPU-1"));
  EXPECT_TRUE(TestCards({12, 4}).where(request).empty());
}

TEST(NeverFits, SaysWhyWaitingWouldNotHelp) {
  auto small = card_of(0, 24), large = card_of(1, 80), other = card_of(2, 192);
  other.excluded = true;
  large.usable = false;  // it may return
  const Card* cards[] = {&small, &large, &other};
  const Card* none_chosen[] = {&other};
  auto request = want("a", 70);
  EXPECT_EQ(never_fits(request, cards), "");
  EXPECT_THAT(never_fits(want("a", 81), cards), HasSubstr("80.0 GiB in all"));
  EXPECT_THAT(never_fits(request, {}), HasSubstr("no GPU on this machine"));
  EXPECT_THAT(never_fits(request, none_chosen), HasSubstr("chosen for work"));
  request.gpus = 2;
  EXPECT_THAT(never_fits(request, cards), HasSubstr("only 1 here has"));
  request = want("a", 70);
  request.device = "GPU-0";
  EXPECT_THAT(never_fits(request, cards), HasSubstr("24.0 GiB in all"));
  request.device = "GPU-9";
  EXPECT_THAT(never_fits(request, cards), HasSubstr("named GPU-9"));
}

}  // namespace
}  // namespace sluice::broker
