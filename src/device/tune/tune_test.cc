#include "device/tune/tune.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "device/detect/tree_for_tests.h"
#include "device/tune/tune_record.h"

namespace sluice::device {
namespace {

using nvml::Return;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Tuning kNow{false, 700.0, ClockPair{}};
const TuneLimits kLimits{200, 700, {{2619, {1980, 1965, 1950}}, {1593, {1980, 345}}}, true};

TEST(TunePlan, ListsOnlyWhatChanges) {
  const auto plan = plan_tuning(kNow, {true, 700.2, ClockPair{2619, 1950}}, kLimits);
  EXPECT_THAT(plan.problems, IsEmpty());
  EXPECT_EQ(plan.to.persistence, true);
  EXPECT_FALSE(plan.to.power_limit_w) << "within the driver's rounding it is the same";
  EXPECT_EQ(plan.to.clocks, (ClockPair{2619, 1950}));
  const auto list = steps(plan);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].setting, "persistence mode");
  EXPECT_EQ(list[1].from, "chosen by the driver");
  EXPECT_EQ(list[1].to, "memory 2619 MHz, SM 1950 MHz");
}

TEST(TunePlan, AnEmptyRequestChangesNothing) {
  EXPECT_TRUE(plan_tuning(kNow, {}, kLimits).to.empty());
  EXPECT_TRUE(plan_tuning(kNow, kNow, kLimits).to.empty());
}

TEST(TunePlan, AValueOutOfRangeNamesTheRangeAndIsNotMoved) {
  auto plan = plan_tuning(kNow, {{}, 900.0, {}}, kLimits);
  EXPECT_THAT(plan.problems, ElementsAre("power limit 900 W: allowed are 200 W to 700 W"));
  EXPECT_TRUE(plan.to.empty());

  plan = plan_tuning(kNow, {{}, {}, ClockPair{2619, 1960}}, kLimits);
  EXPECT_THAT(plan.problems, ElementsAre("SM clock 1960 MHz: allowed are steps from 1950 to 1980 "
                                         "MHz; the nearest are 1950 and 1965"));
  plan = plan_tuning(kNow, {{}, {}, ClockPair{2619, 5000}}, kLimits);
  EXPECT_THAT(plan.problems[0], HasSubstr("the nearest is 1980"));
  plan = plan_tuning(kNow, {{}, {}, ClockPair{2619, 1}}, kLimits);
  EXPECT_THAT(plan.problems[0], HasSubstr("the nearest is 1950"));
  plan = plan_tuning(kNow, {{}, {}, ClockPair{1000, 1980}}, kLimits);
  EXPECT_THAT(plan.problems, ElementsAre("memory clock 1000 MHz: allowed are 2619, 1593 MHz"));
}

TEST(TunePlan, NotANumberIsOutOfRange) {
  const auto plan = plan_tuning(kNow, {{}, std::numeric_limits<double>::quiet_NaN(), {}}, kLimits);
  EXPECT_EQ(plan.problems.size(), 1u);
}

TEST(TunePlan, EveryProblemIsReportedAtOnce) {
  const auto plan = plan_tuning({}, {true, 300.0, ClockPair{1, 1}}, {});
  EXPECT_EQ(plan.problems.size(), 3u);
}

TEST(TunePlan, WarnsThatWithoutPersistenceTheDriverForgets) {
  EXPECT_THAT(plan_tuning(kNow, {{}, 500.0, {}}, kLimits).warnings,
              ElementsAre(HasSubstr("add --persistence on")));
  EXPECT_THAT(plan_tuning(kNow, {true, 500.0, {}}, kLimits).warnings, IsEmpty());
}

TEST(TunePlan, ALockThatCannotBeReadIsAlwaysSetAgain) {
  auto limits = kLimits;
  limits.clocks_readable = false;
  EXPECT_TRUE(plan_tuning(kNow, {{}, {}, ClockPair{}}, limits).to.clocks);
}

// A GPU whose answers the test decides.
struct FakeKnobs final : Knobs {
  Tuning now = kNow;
  std::vector<std::string> calls;
  std::string fails_at, ignores;  // a call that is refused; one that does nothing
  Return refusal = Return::no_permission;

  Tuning read() override { return now; }
  bool takes(const std::string& call) {
    calls.push_back(call);
    return call != ignores;
  }
  template <class Set>
  Return turn(const std::string& call, Set set) {
    if (call == fails_at) return refusal;
    if (takes(call)) set();
    return Return::success;
  }
  Return set_persistence(bool on) override {
    return turn(on ? "on" : "off", [&] { now.persistence = on; });
  }
  Return set_power_limit(double w) override {
    return turn("power " + std::to_string(static_cast<int>(w)), [&] { now.power_limit_w = w; });
  }
  Return set_clocks(ClockPair c) override {
    return turn("clocks " + std::to_string(c.sm_mhz), [&] { now.clocks = c; });
  }
};

const Tuning kWanted{true, 500.0, ClockPair{2619, 1950}};

TEST(TuneApply, SetsEverythingPersistenceFirst) {
  FakeKnobs gpu;
  const auto outcome = apply(gpu, plan_tuning(gpu.now, kWanted, kLimits));
  EXPECT_TRUE(outcome.done) << outcome.problem;
  EXPECT_THAT(gpu.calls, ElementsAre("on", "power 500", "clocks 1950"));
}

TEST(TuneApply, PersistenceGoesOffLast) {
  FakeKnobs gpu;
  gpu.now = kWanted;
  apply(gpu, plan_tuning(gpu.now, kNow, kLimits));
  EXPECT_THAT(gpu.calls, ElementsAre("power 700", "clocks 0", "off"));
}

TEST(TuneApply, AValueThatDoesNotReadBackIsAFailureAndEverythingIsRolledBack) {
  FakeKnobs gpu;
  gpu.ignores = "clocks 1950";
  const auto outcome = apply(gpu, plan_tuning(gpu.now, kWanted, kLimits));
  EXPECT_FALSE(outcome.done);
  EXPECT_THAT(outcome.problem, HasSubstr("clocks were set to memory 2619 MHz, SM 1950 MHz but "
                                         "read chosen by the driver"));
  EXPECT_TRUE(outcome.rolled_back);
  EXPECT_EQ(gpu.now.persistence, kNow.persistence);
  EXPECT_EQ(gpu.now.power_limit_w, kNow.power_limit_w);
  EXPECT_EQ(gpu.now.clocks, kNow.clocks);
}

TEST(TuneApply, WithoutPermissionItNamesSudoAndChangesNothing) {
  FakeKnobs gpu;
  gpu.fails_at = "on";
  const auto outcome = apply(gpu, plan_tuning(gpu.now, kWanted, kLimits));
  EXPECT_FALSE(outcome.done);
  EXPECT_THAT(outcome.problem, HasSubstr("sudo"));
  EXPECT_TRUE(outcome.rolled_back);
  EXPECT_EQ(gpu.now.power_limit_w, 700.0);
}

TEST(TuneApply, ReportsWhenTheRollbackFailedToo) {
  FakeKnobs gpu;
  gpu.fails_at = "clocks 1950";
  gpu.refusal = Return::unknown;
  gpu.ignores = "power 700";
  const auto outcome = apply(gpu, plan_tuning(gpu.now, kWanted, kLimits));
  EXPECT_FALSE(outcome.done);
  EXPECT_FALSE(outcome.rolled_back);
}

TEST(TuneApply, APlanWithProblemsIsRefused) {
  FakeKnobs gpu;
  EXPECT_THROW(apply(gpu, plan_tuning(gpu.now, {{}, 9000.0, {}}, kLimits)), Error);
  EXPECT_THAT(gpu.calls, IsEmpty());
}

TEST(TuneRecord, TheFirstOriginalIsKeptThroughLaterTunings) {
  Tree tree;
  {
    TuneRecord record(tree.root() / "state");
    record.lock();
    record.remember("GPU-1", {{}, 700.0, {}});
    record.save();
  }
  TuneRecord record(tree.root() / "state");
  record.remember("GPU-1", {false, 500.0, {}});
  ASSERT_NE(record.of("GPU-1"), nullptr);
  EXPECT_EQ(record.of("GPU-1")->power_limit_w, 700.0);
  EXPECT_EQ(record.of("GPU-1")->persistence, false) << "a setting not recorded yet is added";
}

TEST(TuneRecord, ComesBackFromItsFileAsItWas) {
  Tree tree;
  {
    TuneRecord record(tree.root());
    record.lock();
    record.remember("GPU-1", kWanted);
    record.remember("GPU-2", kNow);
    record.replace("GPU-2", nullptr);
    record.save();
  }
  TuneRecord record(tree.root());
  EXPECT_EQ(record.of("GPU-1")->clocks, kWanted.clocks);
  EXPECT_EQ(record.of("GPU-1")->persistence, true);
  EXPECT_EQ(record.of("GPU-2"), nullptr);
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(tree.root()))
    files.push_back(entry.path().filename());
  EXPECT_THAT(files, ::testing::UnorderedElementsAre("tune.json", "tune.json.lock"));
}

TEST(TuneRecord, AFileThatIsNotOursIsRefusedNotOverwritten) {
  Tree tree;
  for (const auto* text : {"nonsense", "{}", R"({"format": 99, "gpus": {}})",
                           R"({"format": 1, "gpus": {"GPU-1": {"before": {"clocks": 3}}}})"}) {
    tree.file("/tune.json", text);
    EXPECT_THROW(TuneRecord(tree.root()), Error) << text;
  }
}

TEST(TuneRecord, AFolderThatCannotBeMadeIsAnError) {
  TuneRecord record("/proc/sluice");
  EXPECT_THROW(record.lock(), Error);
}

}  // namespace
}  // namespace sluice::device
