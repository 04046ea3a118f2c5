#include "watch/monitor/sampler_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "watch/history/history_for_tests.h"

namespace sluice::watch {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

Instant later(Instant t, double s) {
  return t + std::chrono::duration_cast<Steady::duration>(Seconds(s));
}

// Real children, invented time: a child ends at its own pace, the supervisor waits
// by the clock it is handed.
void let_it_end(SamplerProcess& sampler, Instant now) {
  const auto deadline = Steady::now() + 10s;
  while (sampler.cost().pid != 0 && Steady::now() < deadline) {
    sampler.advance(now, false);
    std::this_thread::sleep_for(1ms);
  }
  ASSERT_EQ(sampler.cost().pid, 0);
}

TEST(SamplerProcess, ACrashingSamplerIsRestartedWithGrowingDelays) {
  SamplerProcess::Options options;
  options.program = "/bin/false";
  options.timing.first_retry_s = 1;
  options.timing.longest_retry_s = 4;
  SamplerProcess sampler(options);
  Instant now{std::chrono::hours(1)};
  std::uint64_t restarts = 0;
  for (const double wait : {1., 2., 4., 4.}) {
    sampler.advance(now, false);
    ASSERT_GT(sampler.cost().pid, 0);
    let_it_end(sampler, now);
    EXPECT_EQ(sampler.cost().restarts, ++restarts);
    EXPECT_THAT(sampler.cost().state, HasSubstr("exit code 1"));
    sampler.advance(later(now, wait - 0.01), false);
    EXPECT_EQ(sampler.cost().pid, 0) << "too early after " << wait;
    now = later(now, wait);
  }
}

TEST(SamplerProcess, AProgramThatCannotStartIsReportedAndTriedAgain) {
  SamplerProcess::Options options;
  options.program = "/no/such/program";
  SamplerProcess sampler(options);
  sampler.advance(Instant{std::chrono::hours(1)}, false);
  EXPECT_THAT(sampler.cost().state, HasSubstr("/no/such/program"));
  EXPECT_EQ(sampler.cost().pid, 0);
  EXPECT_TRUE(sampler.fds().empty());
}

TEST(SamplerProcess, ADriverThatIsDownBesideAnotherVendorsGpuIsReported) {
  const Folder folder;
  device::Gpu amd{};
  amd.vendor = device::Vendor::amd;
  amd.uuid = "AMD-0000:03:00.0";
  std::ofstream(folder / "said") << device::encode(
      device::Found{{amd}, {"NVIDIA: reboot"}, "NVIDIA: reboot"});
  const std::string script = folder / "sampler";
  std::ofstream(script)
      << "#!/bin/sh\ncat \"${0%/*}/said\" >&3\nwhile read -r line <&3; do :; done\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  SamplerProcess::Options options;
  options.program = script;
  SamplerProcess sampler(options);
  const auto deadline = Steady::now() + 10s;
  while (sampler.cost().driver_trouble.empty() && Steady::now() < deadline) {
    sampler.advance(Steady::now(), false);
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(sampler.cost().driver_trouble, "NVIDIA: reboot");
  EXPECT_EQ(sampler.cost().state, "running");
}

// Stands in for processes inside the driver, which nothing ends: these only ignore
// the request to.
TEST(SamplerProcess, NoMoreAreStartedWhileFourCannotBeEnded) {
  const Folder folder;
  const std::string script = folder / "stuck";
  std::ofstream(script) << "#!/bin/sh\ntrap '' TERM\n: > \"$0.$$\"\n"
                           "while :; do sleep 0.05; done\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  SamplerProcess::Options options;
  options.program = script;
  options.timing.start_limit_s = 0.01;
  options.timing.first_retry_s = options.timing.longest_retry_s = 0.001;
  options.timing.grace_s = 0.5;
  SamplerProcess sampler(options);
  Instant now{std::chrono::hours(1)};
  for (int i = 0; i < 4; ++i) {
    sampler.advance(now, false);
    ASSERT_GT(sampler.cost().pid, 0);
    const auto ready = script + "." + std::to_string(sampler.cost().pid);
    const auto deadline = Steady::now() + 10s;
    while (!std::filesystem::exists(ready) && Steady::now() < deadline)
      std::this_thread::sleep_for(1ms);
    sampler.advance(now = later(now, 0.011), false);  // it has not beaten: another one is due
    now = later(now, 0.002);
  }
  sampler.advance(now, false);
  EXPECT_EQ(sampler.cost().pid, 0);
  EXPECT_THAT(sampler.cost().state, HasSubstr("4 earlier samplers"));
  EXPECT_TRUE(sampler.fds().empty());
}

TEST(Child, ReportsHowItEnded) {
  Child child("/bin/sh", {"-c", "echo hello >&3; exit 7"});
  std::vector<std::string> lines;
  for (int i = 0; i < 2000 && !(child.closed() && child.has_ended()); ++i) {
    for (auto& line : child.lines()) lines.push_back(line);
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_THAT(lines, testing::ElementsAre("hello"));
  EXPECT_EQ(child.how_it_ended(), "exit code 7");
}

TEST(Child, IsKilledWhenItDoesNotEndInTime) {
  Child child("/bin/sh", {"-c", "trap '' TERM; echo ready >&3; while :; do sleep 1; done"});
  for (int i = 0; i < 2000 && child.lines().empty(); ++i) std::this_thread::sleep_for(1ms);
  const auto now = Steady::now();
  child.end(now, 5);
  child.advance(later(now, 4.9));
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(child.has_ended());
  child.advance(later(now, 5));
  for (int i = 0; i < 2000 && !child.has_ended(); ++i) std::this_thread::sleep_for(1ms);
  EXPECT_THAT(child.how_it_ended(), HasSubstr("signal 9"));
}

TEST(Child, SeesOnlyItsSocketAndNoSignalOfOurs) {
  sigset_t term, before;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, &before);
  Child child("/bin/sh", {"-c",
                          "ls /proc/$$/fd | tr '\\n' ' ' >&3; echo >&3;"
                          // by itself: a shell that starts a program blocks signals meanwhile
                          "while read -r name mask; do [ \"$name\" = SigBlk: ] && "
                          "echo \"$name $mask\" >&3; done </proc/self/status"});
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  std::string all;
  for (int i = 0; i < 2000 && !child.closed(); ++i) {
    for (const auto& line : child.lines()) all += line + "\n";
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_THAT(all, HasSubstr("0 1 2 3 "));
  EXPECT_THAT(all, HasSubstr("SigBlk: 0000000000000000"));
}

}  // namespace
}  // namespace sluice::watch
