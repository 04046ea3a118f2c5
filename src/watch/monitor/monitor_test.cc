// The monitor with a real sampler process over the fake driver. Every story is
// short and measured in real time, because its subject is time. The limits leave headroom
// for a machine that is busy with other tests; the strict ones are measured apart.
#include "watch/monitor/monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/process/child.h"
#include "base/sqlite/sqlite.h"
#include "device/sampler/sampler_protocol.h"

namespace sluice::watch {
namespace {

using device::HealthState;
using device::Metric;
using testing::HasSubstr;
using testing::StartsWith;

double now_s() { return Seconds(Steady::now().time_since_epoch()).count(); }

// Two H200; `events` happen to the second.
class Scenario {
 public:
  explicit Scenario(const std::string& events, const std::string& of_each = "") {
    char name[] = "/tmp/sluice-monitor-test-XXXXXX";
    close(mkstemp(name));
    path_ = name;
    std::ofstream(path_) << R"({"gpus":[{)" << of_each << R"("card":"h200"},{)" << of_each
                         << R"("card":"h200","events":)" << events << "}]}";
  }
  ~Scenario() { std::filesystem::remove(path_); }
  Scenario(const Scenario&) = delete;
  Scenario& operator=(const Scenario&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Monitor::Options quick(const std::string& demo) {
  Monitor::Options o;
  o.program = std::filesystem::read_symlink("/proc/self/exe");
  o.demo = demo;
  o.config.interval_s = 0.5;
  o.config.slow_interval_s = 0.5;
  o.config.process_interval_s = 1;
  o.config.cost_budget = 1;  // a sanitizer's build is slow; cost has its own test
  o.health.first_backoff_s = 0.2;
  o.health.clear_after_s = 1;
  o.timing.kill_after_s = 2.5;
  o.timing.hung_call_s = 2;
  o.timing.gone_s = 1;
  o.timing.grace_s = 0.3;
  o.timing.first_refresh_s = 1;
  return o;
}

class Watched {
 public:
  explicit Watched(const Monitor::Options& options) : began_s(now_s()), monitor(options) {}

  using Condition = std::function<bool(const Snapshot&)>;
  // The first snapshot for which it holds; fails the test after `limit_s`.
  std::shared_ptr<const Snapshot> until(const Condition& holds, double limit_s = 10) {
    const double end = now_s() + limit_s;
    for (;;) {
      auto s = monitor.snapshot();
      if (holds(*s)) return s;
      if (now_s() > end) {
        ADD_FAILURE() << "waited " << limit_s
                      << " s in vain; last: " << to_json(*s, Steady::now()).dump(1).substr(0, 4000);
        return s;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  std::shared_ptr<const Snapshot> until_sampled(std::size_t gpus) {
    return until([gpus](const Snapshot& s) {
      return s.gpus.size() == gpus &&
             std::ranges::all_of(s.gpus, [](const GpuView& g) { return g.sampled_at.has_value(); });
    });
  }
  std::shared_ptr<const Snapshot> until_state(std::size_t gpu, HealthState state,
                                              double limit_s = 10) {
    return until(
        [=](const Snapshot& s) { return s.gpus.size() > gpu && s.gpus[gpu].health.state == state; },
        limit_s);
  }
  double elapsed() const { return now_s() - began_s; }

  const double began_s;  // a little before the scenario's time 0
  Monitor monitor;
};

double age_s(const GpuView& gpu, const Snapshot& s) {
  return seconds_between(gpu.sampled_at.value(), s.at);
}

TEST(Monitor, AGpuThatFallsOffIsLostSoonAndReturnsByCanary) {
  const Scenario story(R"([{"type":"xid","code":79,"at_s":2},
                           {"type":"lost","at_s":2,"until_s":7,"hidden_after_s":1}])");
  Watched watched(quick(story.path()));
  watched.until_sampled(2);
  auto s = watched.until_state(1, HealthState::lost);
  EXPECT_LT(watched.elapsed(), 2 + 4);
  EXPECT_GT(watched.elapsed(), 2);
  EXPECT_FALSE(s->gpus[1].health.fix.empty());

  s = watched.until([&](const Snapshot& later) { return age_s(later.gpus[1], later) > 3.5; });
  EXPECT_EQ(s->gpus[1].health.state, HealthState::lost);
  EXPECT_EQ(s->gpus[1].health.cause, "XID 79: the GPU has fallen off the bus");
  EXPECT_TRUE(s->gpus[1].readings.value(Metric::power)) << "its last values stay, with their age";
  EXPECT_EQ(s->gpus[0].health.state, HealthState::healthy);
  EXPECT_LT(age_s(s->gpus[0], *s), 3) << "the other GPU goes on";

  s = watched.until_state(1, HealthState::healthy);
  EXPECT_GT(watched.elapsed(), 7);
  EXPECT_LT(watched.elapsed(), 7 + 8);
  EXPECT_EQ(s->gpus[1].xids.size(), 1U);
}

TEST(Monitor, AHangingCallCostsOneGpuAndNoOther) {
  const Scenario story(R"([{"type":"hang","call":"nvmlDeviceGetPowerUsage","seconds":60,
                            "at_s":2,"until_s":6}])");
  Watched watched(quick(story.path()));
  watched.until_sampled(2);
  auto s = watched.until_state(1, HealthState::lost);
  EXPECT_LT(watched.elapsed(), 2 + 0.5 + 4);  // asked every half second
  EXPECT_EQ(s->gpus[1].health.cause, "hangs in nvmlDeviceGetPowerUsage");
  EXPECT_THAT(s->sampler.state, HasSubstr("hung in nvmlDeviceGetPowerUsage"));

  // A fresh process takes over while the other GPU stays in sight.
  double worst = 0;
  s = watched.until([&](const Snapshot& later) {
    worst = std::max(worst, age_s(later.gpus[0], later));
    return later.gpus[1].health.state == HealthState::healthy;
  });
  EXPECT_LT(worst, 4);
  EXPECT_GE(s->sampler.restarts, 1U);
  EXPECT_EQ(s->gpus[0].health.state, HealthState::healthy);
}

TEST(Monitor, AKilledSamplerIsReplacedBeforeAnyGpuIsMissed) {
  auto options = quick("eight-gpus");
  options.health.lost_after_s = 4.5;
  Watched watched(options);
  const auto before = watched.until_sampled(8);
  ASSERT_GT(before->sampler.pid, 0);
  kill(static_cast<pid_t>(before->sampler.pid), SIGKILL);
  bool any_lost = false;
  const auto after = watched.until([&](const Snapshot& s) {
    for (const auto& gpu : s.gpus) any_lost = any_lost || gpu.health.state == HealthState::lost;
    return s.sampler.pid != 0 && s.sampler.pid != before->sampler.pid &&
           s.gpus[7].sampled_at > before->gpus[7].sampled_at && s.sampler.state == "running";
  });
  EXPECT_EQ(after->sampler.restarts, 1U);
  EXPECT_FALSE(any_lost);
}

TEST(Monitor, AStoppedSamplerIsNoticedSoonAndReplaced) {
  Watched watched(quick("eight-gpus"));
  const auto before = watched.until_sampled(8);
  kill(static_cast<pid_t>(before->sampler.pid), SIGSTOP);
  const double stopped = now_s();
  const auto lost = watched.until_state(0, HealthState::lost);
  EXPECT_LT(now_s() - stopped, 4);
  EXPECT_THAT(lost->gpus[0].health.cause, HasSubstr("hangs"));
  const auto after = watched.until_state(0, HealthState::healthy);
  EXPECT_NE(after->sampler.pid, before->sampler.pid);
}

TEST(Monitor, AGpuThatIsDeadFromTheStartIsNotedAndJoinsWhenItAnswers) {
  const Scenario story(R"([{"type":"lost","at_s":0,"until_s":3}])");
  Watched watched(quick(story.path()));
  auto s = watched.until([](const Snapshot& now) {
    return now.gpus.size() == 1 && std::ranges::any_of(now.notes, [](const std::string& note) {
             return note.find("does not answer") != std::string::npos;
           });
  });
  EXPECT_LT(watched.elapsed(), 3 + 4);
  const std::string first = s->gpus[0].gpu.uuid;
  s = watched.until_sampled(2);
  EXPECT_GT(watched.elapsed(), 3);
  EXPECT_TRUE(s->gpus[0].gpu.uuid == first || s->gpus[1].gpu.uuid == first);
  s = watched.until([](const Snapshot& now) { return now.notes.empty(); });
  ASSERT_EQ(s->gpus.size(), 2U);
  EXPECT_TRUE(s->gpus[1].readings.value(Metric::power));
}

TEST(Monitor, FullUtilizationWithoutProcessesIsReportedAsGhost) {
  const Scenario story(R"([{"type":"ghost","at_s":0}])");
  Watched watched(quick(story.path()));
  const auto s = watched.until([](const Snapshot& now) {
    return std::ranges::any_of(now.gpus, &GpuView::ghost_utilization);
  });
  ASSERT_EQ(s->gpus.size(), 2U);
  EXPECT_TRUE(s->gpus[1].ghost_utilization);
  EXPECT_EQ(s->gpus[1].readings.value(Metric::utilization), 100);
  EXPECT_FALSE(s->gpus[0].ghost_utilization) << "only the second card has a ghost";
}

TEST(Monitor, ReadingsThatTheDriverDoesNotGiveAreAbsent) {
  Watched watched(quick("version-errors"));
  const auto s = watched.until_sampled(2);
  const auto j = to_json(*s, Steady::now());
  EXPECT_TRUE(j["gpus"][0]["readings"].contains("utilization"));
  EXPECT_FALSE(j["gpus"][0]["readings"].contains("memory_reserved"));
  for (const auto& [name, reading] : j["gpus"][0]["readings"].items()) {
    EXPECT_TRUE(reading["value"].is_number()) << name;
    EXPECT_GE(reading["age_s"].get<double>(), 0) << name;
  }
}

TEST(Monitor, ADriverThatDoesNotStartIsAStateANoteAndAnAlertWithItsFix) {
  auto options = quick("driver-mismatch");
  for (auto& rule : options.config.rules)
    if (rule.name == "driver-down") rule.for_s = 0;
  Watched watched(options);
  const auto s = watched.until([](const Snapshot& snapshot) {
    return snapshot.sampler.state.starts_with("no driver: ") && !snapshot.alerts.empty();
  });
  ASSERT_FALSE(s->notes.empty());
  EXPECT_THAT(s->notes.front(), StartsWith("NVIDIA: "));
  EXPECT_TRUE(s->gpus.empty());
  EXPECT_EQ(s->alerts[0].rule, "driver-down");
  EXPECT_THAT(s->alerts[0].cause, HasSubstr("driver and library versions differ"));
  EXPECT_THAT(s->alerts[0].fix, HasSubstr("reload the nvidia modules"));
}

// A process of 1 GiB on each GPU takes 3 GiB more after three seconds.
TEST(Monitor, TheProcessThatTookMemoryOnAFollowedGpuComesWithTheSampleThatShowsIt) {
  const Scenario story("[]", R"("processes":[{"pid":4711,"name":"greedy",
      "memory_gib":{"steps":[[0,1],[3,4]]}}],)");
  auto options = quick(story.path());
  options.config.process_interval_s = 600;
  Watched watched(options);
  const auto first = watched.until([](const Snapshot& s) {
    return s.gpus.size() == 2 && s.gpus[0].readings.processes_at && s.gpus[1].readings.processes_at;
  });
  watched.monitor.follow({{first->gpus[1].gpu.uuid, 1}});
  const auto listed = [](const GpuView& gpu) {
    return gpu.readings.processes.empty() ? 0 : gpu.readings.processes[0].memory.value_or(0) >> 30;
  };
  const auto s = watched.until([&](const Snapshot& later) { return listed(later.gpus[1]) == 4; });
  EXPECT_LT(watched.elapsed(), 3 + 2 * 0.5 + 1);  // within two periods, and the start
  EXPECT_EQ(s->gpus[1].readings.processes_at, s->gpus[1].sampled_at);
  EXPECT_EQ(listed(s->gpus[0]), 1U) << "the other one is listed in its time";
}

// Every word is a wake-up on both sides, for ever.
TEST(Sampler, SendsLittleBesidesItsSamplesWhileHealthy) {
  const Scenario story("[]");
  Child child(std::filesystem::read_symlink("/proc/self/exe"),
              {"sampler", "--fd", std::to_string(Child::kFd), "--demo", story.path()});
  child.say(device::encode(device::SamplingIntervals{1, 5, 10, 1}));
  int samples = 0, others = 0;
  for (const double until = now_s() + 20; samples < 8 && now_s() < until;) {
    pollfd ready{child.fd(), POLLIN, 0};
    poll(&ready, 1, 1000);
    for (const auto& line : child.lines()) {
      const bool sample = std::holds_alternative<device::Sample>(device::decode(line));
      (sample ? samples : others) += samples > 1 || sample ? 1 : 0;  // once it has begun
    }
  }
  EXPECT_GE(samples, 8);  // of two GPUs
  EXPECT_LE(others, 3);
}

TEST(Monitor, AMachineWithoutADriverNeedsNoSampler) {
  Watched watched(quick(""));
  const auto s =
      watched.until([](const Snapshot& snapshot) { return snapshot.sampler.state != "starting"; });
  if (!s->gpus.empty() || s->sampler.state == "running") GTEST_SKIP() << "this machine has a GPU";
  EXPECT_THAT(s->sampler.state, StartsWith("not needed: "));
  EXPECT_EQ(s->sampler.driver_trouble, "");
}

TEST(Monitor, TheCpuIsMonitoredOnEveryMachine) {
  Watched watched(quick(""));
  const auto s = watched.until([](const Snapshot& snapshot) {
    return snapshot.host.value(Metric::cpu_utilization).has_value();
  });
  EXPECT_GE(s->cpu.usable_cores, 1);
  EXPECT_GT(s->host.value(Metric::host_memory_total).value_or(0), 0);
  EXPECT_TRUE(s->host.value(Metric::cpu_load));
}

TEST(Monitor, SubscribersReceiveSnapshotsAndHealthUntilTheyUnsubscribe) {
  const Scenario story(R"([{"type":"lost","at_s":2,"until_s":100}])");
  Watched watched(quick(story.path()));
  std::mutex mutex;
  std::vector<std::string> events;
  std::uint64_t last = 0;
  auto token = watched.monitor.subscribe(
      [&](std::shared_ptr<const Snapshot> s) {
        const std::lock_guard lock(mutex);
        EXPECT_GT(s->sequence, last);
        last = s->sequence;
      },
      [&](const Event& e) {
        const std::lock_guard lock(mutex);
        events.push_back(e.type + " " + e.json);
      });
  watched.until_state(1, HealthState::lost);
  watched.until([&](const Snapshot&) {
    const std::lock_guard lock(mutex);
    return std::ranges::any_of(events, [](const std::string& e) {
      return e.starts_with("health ") && e.find(R"("state":"lost")") != std::string::npos;
    });
  });
  token.reset();
  const auto heard = last;
  watched.until([&](const Snapshot& s) { return s.sequence > heard + 2; });
  EXPECT_EQ(last, heard);
}

TEST(Monitor, HistoryAndAlertsReceiveSnapshots) {
  auto options = quick("eight-gpus");
  Watched watched(options);
  const auto s = watched.until_sampled(8);
  const auto& uuid = s->gpus[0].gpu.uuid;
  watched.monitor.report_server(Metric::request_rate, 12);
  watched.until(
      [](const Snapshot& later) { return later.server.value(Metric::request_rate) == 12; });

  const auto now_ms = unix_ms(std::chrono::system_clock::now());
  const auto history =
      watched.monitor.history({uuid, {"power"}, now_ms - 60'000, now_ms + 5'000, 60});
  EXPECT_EQ(history["device"], uuid);
  EXPECT_TRUE(history["metrics"].contains("power"));
  EXPECT_THROW(watched.monitor.history({"no-such-gpu", {}, 0, now_ms, 60}), Error);

  const auto alerts = watched.monitor.alerts_json();
  ASSERT_FALSE(alerts["rules"].empty());
  const auto rule = alerts["rules"][0]["name"].get<std::string>();
  watched.monitor.silence(rule, uuid, 60);
  EXPECT_EQ(watched.monitor.alerts_json()["silences"].size(), 1U);
  watched.monitor.unsilence(rule, uuid);
  EXPECT_EQ(watched.monitor.alerts_json()["silences"].size(), 0U);
  EXPECT_THROW(watched.monitor.silence(rule, "no-such-gpu", 60), Error);

  options.config.rules.clear();
  watched.monitor.reload(options.config);
  EXPECT_TRUE(watched.monitor.alerts_json()["rules"].empty());
}

TEST(Monitor, ADamagedPageOfStoredAlertsDoesNotStopTheMonitor) {
  char folder[] = "/tmp/sluice-monitor-test-XXXXXX";
  auto options = quick("");
  options.state_dir = mkdtemp(folder);
  const auto file = options.state_dir + "/history.db";
  { const Monitor first(options); }
  const auto page =
      Database(file, true).number("SELECT rootpage FROM sqlite_master WHERE name='kept'");
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp((page - 1) * 8192)
      << std::string(8192, '\xee');
  EXPECT_NO_THROW(Watched(options).until([](const Snapshot& s) { return s.sequence > 1; }));
  std::filesystem::remove_all(options.state_dir);
}

TEST(Monitor, AProgramThatIsNotThereIsReportedNotFatal) {
  auto options = quick("");
  options.program = "/no/such/program";
  Watched watched(options);
  const auto s = watched.until([](const Snapshot& snapshot) {
    return snapshot.sampler.state.find("/no/such/program") != std::string::npos;
  });
  EXPECT_EQ(s->sampler.pid, 0);
}

}  // namespace
}  // namespace sluice::watch
