#include "device/health/health.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

namespace sluice::device {
namespace {

using enum HealthState;

constexpr Instant kStart{std::chrono::hours(1)};
Instant at(double s) { return kStart + std::chrono::duration_cast<Steady::duration>(Seconds(s)); }

const HealthPolicy kPolicy{};  // 1.5 s to lost, 10 s to clear, back-off 1 s to 300 s

// Evidence as a person would say it.
Evidence fine() { return {}; }
Evidence gone() {
  Evidence e;
  e.gone = true;
  e.silence = "GPU is lost";
  return e;
}
Evidence silent_since(double s) {
  Evidence e;
  e.silent_since = at(s);
  e.silence = "hangs in nvmlDeviceGetPowerUsage";
  return e;
}
Evidence action(int value) {
  Evidence e;
  e.recovery_action = value;
  return e;
}
Evidence xid(unsigned code) {
  static std::deque<Xid> kept;  // the span must outlive the step
  Evidence e;
  e.xids = {&kept.emplace_back(Xid{code, kStart, {}}), 1};
  return e;
}
Evidence throttled() {
  Evidence e;
  e.throttled = true;
  return e;
}
Evidence ecc() {
  Evidence e;
  e.uncorrected_ecc_grew = true;
  return e;
}
Evidence rows_failed() {
  Evidence e;
  e.rows_failed = true;
  return e;
}
Evidence errors(double rate) {
  Evidence e;
  e.error_rate = rate;
  return e;
}
Evidence canary(Canary result) {
  Evidence e;
  e.canary = result;
  return e;
}

struct Step {
  double at_s;
  Evidence evidence;
  HealthState expected;
};

struct Story {
  const char* name;
  std::vector<Step> steps;
};

Health play(const Story& story) {
  Health health;
  health.since = kStart;
  for (const auto& s : story.steps) {
    health = step(health, s.evidence, kPolicy, at(s.at_s));
    EXPECT_EQ(to_string(health.state), to_string(s.expected))
        << story.name << " at " << s.at_s << " s: " << health.cause;
    EXPECT_EQ(health.cause.empty(), health.state == healthy) << story.name << " at " << s.at_s;
  }
  return health;
}

// clang-format off
std::vector<Story> stories() {
  return {
      {"nothing happens", {{0, fine(), healthy}, {1000, fine(), healthy}}},

      // healthy -> degraded, by every fault that has one
      {"heat", {{1, throttled(), degraded}}},
      {"uncorrected memory errors", {{1, ecc(), degraded}}},
      {"no spare rows", {{1, rows_failed(), degraded}, {100, rows_failed(), degraded}}},
      {"work on it fails", {{1, errors(0.05), healthy}, {2, errors(0.06), degraded}}},
      {"double-bit error", {{1, xid(48), degraded}}},
      {"row replacement failed", {{1, xid(64), degraded}}},
      {"NVLink error", {{1, xid(74), degraded}}},
      {"an unknown XID", {{1, xid(777), degraded}}},
      {"drain P2P", {{1, action(3), degraded}}},
      {"drain and reset", {{1, action(4), degraded}}},
      {"recover IMEX", {{1, action(5), degraded}}},
      {"an unknown action", {{1, action(42), degraded}}},

      // errors of programs say nothing about the GPU
      {"graphics exception", {{1, xid(13), healthy}}},
      {"MMU fault", {{1, xid(31), healthy}}},
      {"reset channel", {{1, xid(43), healthy}}},
      {"preemptive cleanup", {{1, xid(45), healthy}}},
      {"row marked for replacement", {{1, xid(63), healthy}}},
      {"contained memory error", {{1, xid(94), healthy}}},

      // healthy -> lost
      {"gone", {{1, gone(), lost}}},
      {"silent for long", {{1, silent_since(0), healthy}, {1.4, silent_since(0), healthy},
                           {1.5, silent_since(0), lost}}},
      {"silent for a moment", {{1, silent_since(0), healthy}, {1.6, fine(), healthy},
                               {2.5, silent_since(2), healthy}}},
      {"off the bus", {{1, xid(79), lost}}},
      {"PMU halted", {{1, xid(62), lost}}},
      {"uncontained memory error", {{1, xid(95), lost}}},
      {"GSP timeout", {{1, xid(119), lost}}},
      {"GSP error", {{1, xid(120), lost}}},
      {"unrecovered memory error", {{1, xid(140), lost}}},
      {"reset asked", {{1, action(1), lost}}},
      {"reboot asked", {{1, action(2), lost}}},
      {"bus reset asked", {{1, action(6), lost}}},

      // degraded -> healthy only after the fault has stayed away, counted from its end
      {"heat that ends", {{1, throttled(), degraded}, {5, throttled(), degraded}, {6, fine(), degraded},
                          {14.9, fine(), degraded}, {15, fine(), healthy}}},
      {"heat that flickers", {{1, throttled(), degraded}, {9, fine(), degraded}, {10, throttled(), degraded},
                              {19, fine(), degraded}, {20, fine(), healthy}}},
      {"drain done", {{1, action(4), degraded}, {2, action(0), degraded}, {11, action(0), healthy}}},
      {"degraded, then gone", {{1, throttled(), degraded}, {2, gone(), lost}}},

      // lost -> probation after the back-off and only when it answers
      {"returns", {{1, gone(), lost}, {1.5, fine(), lost}, {2, fine(), probation},
                   {2.1, canary(Canary::running), probation}, {2.2, canary(Canary::passed), healthy}}},
      {"stays away", {{1, gone(), lost}, {100, gone(), lost}, {100.9, fine(), lost}, {101, fine(), probation}}},
      {"still silent", {{3, silent_since(1), lost}, {50, silent_since(49.9), lost}, {51, fine(), probation}}},
      {"reset still asked", {{1, action(1), lost}, {60, action(1), lost}, {61, action(0), probation}}},
      {"drain asked of a lost one", {{1, gone(), lost}, {5, action(4), probation},
                                     {6, [] { auto e = action(4); e.canary = Canary::passed; return e; }(), degraded}}},

      // probation -> lost
      {"canary fails", {{1, gone(), lost}, {3, fine(), probation}, {4, canary(Canary::failed), lost}}},
      {"gone again in probation", {{1, gone(), lost}, {3, fine(), probation}, {4, gone(), lost}}},
      {"hangs in probation", {{1, gone(), lost}, {3, fine(), probation}, {5, silent_since(3), lost}}},
      {"hot in probation", {{1, gone(), lost}, {3, fine(), probation}, {4, throttled(), probation}}},
  };
}
// clang-format on

TEST(Health, FollowsTheStateDiagram) {
  for (const auto& story : stories()) play(story);
}

TEST(Health, WaitsTwiceAsLongAfterEachFailedCanaryUpToALimit) {
  Health health;
  health = step(health, gone(), kPolicy, at(0));
  double now = 0;
  for (const double wait : {1., 2., 4., 8., 16., 32., 64., 128., 256., 300., 300.}) {
    health = step(health, fine(), kPolicy, at(now + wait - 0.01));
    ASSERT_EQ(health.state, lost) << "before " << wait;
    health = step(health, fine(), kPolicy, at(now + wait));
    ASSERT_EQ(health.state, probation) << "after " << wait;
    ASSERT_TRUE(health.wants_canary);
    now += wait;
    health = step(health, canary(Canary::failed), kPolicy, at(now));
    ASSERT_EQ(health.state, lost);
    ASSERT_FALSE(health.wants_canary);
  }
  EXPECT_EQ(health.failed_canaries, 11);
}

TEST(Health, StartsNoSecondCanaryWhileOneRuns) {
  auto health = step({}, gone(), kPolicy, at(0));
  health = step(health, fine(), kPolicy, at(2));
  EXPECT_TRUE(health.wants_canary);
  health = step(health, canary(Canary::running), kPolicy, at(2.1));
  EXPECT_FALSE(health.wants_canary);
  health = step(health, canary(Canary::none), kPolicy, at(2.2));  // it never started
  EXPECT_TRUE(health.wants_canary);
}

TEST(Health, AGpuThatKeepsFallingOffWaitsLongerEachTime) {
  auto health = step({}, gone(), kPolicy, at(0));
  health = step(health, fine(), kPolicy, at(1));
  health = step(health, canary(Canary::passed), kPolicy, at(1));
  ASSERT_EQ(health.state, healthy);
  health = step(health, gone(), kPolicy, at(5));
  EXPECT_EQ(step(health, fine(), kPolicy, at(6)).state, lost);
  EXPECT_EQ(step(health, fine(), kPolicy, at(7)).state, probation);
}

TEST(Health, ALongHealthyTimeForgivesEarlierFalls) {
  auto health = step({}, gone(), kPolicy, at(0));
  health = step(health, fine(), kPolicy, at(1));
  health = step(health, canary(Canary::passed), kPolicy, at(1));
  health = step(health, fine(), kPolicy, at(61));
  health = step(health, gone(), kPolicy, at(62));
  EXPECT_EQ(step(health, fine(), kPolicy, at(63)).state, probation);
}

TEST(Health, KeepsTheCauseThatSaysWhy) {
  auto health = step({}, xid(79), kPolicy, at(0));
  health = step(health, gone(), kPolicy, at(1));
  EXPECT_EQ(health.cause, "XID 79: the GPU has fallen off the bus");
  EXPECT_FALSE(health.fix.empty());

  health = step({}, gone(), kPolicy, at(0));
  health = step(
      health,
      [] {
        auto e = xid(79);
        e.gone = true;
        return e;
      }(),
      kPolicy, at(0.1));
  EXPECT_EQ(health.cause, "XID 79: the GPU has fallen off the bus");
}

TEST(Health, SinceIsWhenTheStateBegan) {
  auto health = step({}, throttled(), kPolicy, at(1));
  health = step(health, ecc(), kPolicy, at(2));
  EXPECT_EQ(health.since, at(1));
  EXPECT_EQ(health.cause, "memory errors that could not be corrected");
}

Readings load(double utilization, double used, double processes) {
  Readings r;
  r.set(Metric::utilization, utilization, kStart);
  r.set(Metric::memory_used, used, kStart);
  r.set(Metric::process_count, processes, kStart);
  return r;
}

TEST(Health, FullUtilizationWithoutProcessesIsAGhost) {
  EXPECT_TRUE(is_ghost_utilization(load(100, 0, 0)));
  EXPECT_TRUE(is_ghost_utilization(load(100, 4 << 20, 0)));
  EXPECT_FALSE(is_ghost_utilization(load(80, 0, 0)));
  EXPECT_FALSE(is_ghost_utilization(load(100, 0, 1)));
  EXPECT_FALSE(is_ghost_utilization(load(100, 5e8, 0)));  // its process list is not here yet

  auto unknown = load(100, 0, 0);
  unknown.clear(Metric::process_count);
  EXPECT_FALSE(is_ghost_utilization(unknown));
}

TEST(Xid, TheCatalogueKnowsWhatToDo) {
  EXPECT_EQ(xid_info(79).action, XidAction::reboot);
  EXPECT_EQ(xid_info(31).action, XidAction::restart_app);
  EXPECT_EQ(xid_info(48).action, XidAction::drain_and_reset);
  EXPECT_EQ(xid_info(119).action, XidAction::reset_gpu);
  EXPECT_EQ(xid_info(4242).action, XidAction::check);
  EXPECT_EQ(xid_info(4242).code, 4242U);
  EXPECT_EQ(recovery_action_name(0), "none");
  EXPECT_EQ(recovery_action_name(-1), "unknown action");
}

}  // namespace
}  // namespace sluice::device
