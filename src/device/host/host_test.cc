#include "device/host/host.h"

#include <gtest/gtest.h>

#include "device/detect/tree_for_tests.h"

namespace sluice::device {
namespace {

constexpr Instant kBoot{std::chrono::hours(1)};
Instant boot_and(int s) { return kBoot + std::chrono::seconds(s); }

Cpu two_cores() {
  Cpu cpu;
  cpu.logical_cores = 2;
  cpu.usable_cores = 2;
  return cpu;
}

void put_basics(Tree& tree) {
  tree.file("/proc/loadavg", "1.25 0.80 0.50 2/345 6789\n")
      .file("/proc/meminfo", "MemTotal: 8192 kB\nMemFree: 100 kB\nMemAvailable: 6144 kB\n");
}

TEST(Host, UtilizationIsTheBusyShareBetweenTwoSamples) {
  Tree tree;
  put_basics(tree);
  tree.file("/proc/stat", "cpu  0 0 0 0\ncpu0 100 0 0 900 0 0 0 0 0 0\n");
  HostSampler host(two_cores(), tree.root());
  Readings r;
  host.sample(r, boot_and(0));
  EXPECT_EQ(r.value(Metric::cpu_utilization), std::nullopt);
  // 25 more ticks of user, 25 of system in 2 s at 100 ticks/s on one core; waiting
  // for the disk is not being busy.
  tree.file("/proc/stat", "cpu  0 0 0 0\ncpu0 125 0 25 950 100 0 0 0 0 0\n");
  host.sample(r, boot_and(2));
  ASSERT_TRUE(r.value(Metric::cpu_utilization));
  EXPECT_NEAR(*r.value(Metric::cpu_utilization), 25, 0.01);
}

TEST(Host, AQuotaMeansOurGroupsShareOfIt) {
  Tree tree;
  put_basics(tree);
  tree.file("/proc/self/cgroup", "0::/job\n")
      .file("/proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
      .file("/sys/fs/cgroup/job/cpu.max", "50000 100000\n")
      .file("/sys/fs/cgroup/job/cpu.stat", "usage_usec 1000000\nuser_usec 1\n")
      .file("/proc/stat", "cpu0 0 0 0 0\n");
  HostSampler host(two_cores(), tree.root());
  Readings r;
  host.sample(r, boot_and(0));
  tree.file("/sys/fs/cgroup/job/cpu.stat", "usage_usec 1200000\nuser_usec 1\n");
  host.sample(r, boot_and(1));
  EXPECT_NEAR(r.value(Metric::cpu_utilization).value_or(-1), 40, 0.01);  // 0.2 s of half a core
}

TEST(Host, MemoryIsWhatOurGroupMayUse) {
  Tree tree;
  put_basics(tree);
  HostSampler whole(two_cores(), tree.root());
  Readings r;
  whole.sample(r, boot_and(0));
  EXPECT_EQ(r.value(Metric::host_memory_total), 8192 * 1024.0);
  EXPECT_EQ(r.value(Metric::host_memory_free), 6144 * 1024.0);
  EXPECT_EQ(r.value(Metric::host_memory_used), 2048 * 1024.0);
  EXPECT_EQ(r.value(Metric::cpu_load), 1.25);

  tree.file("/proc/self/cgroup", "0::/job\n")
      .file("/proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
      .file("/sys/fs/cgroup/job/memory.max", "4194304\n")
      .file("/sys/fs/cgroup/job/memory.current", "3145728\n")
      .file("/sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 1048576\n");
  HostSampler limited(two_cores(), tree.root());
  limited.sample(r, boot_and(1));
  EXPECT_EQ(r.value(Metric::host_memory_total), 4194304.0);
  EXPECT_EQ(r.value(Metric::host_memory_used), 2097152.0);  // the idle file cache is not use
}

TEST(Host, ReadingsThatTheMachineLacksAreAbsent) {
  Tree tree;
  HostSampler host(two_cores(), tree.root());
  Readings r;
  r.set(Metric::cpu_load, 7, boot_and(0));
  host.sample(r, boot_and(1));
  for (const auto& m : metrics()) EXPECT_EQ(r.value(m.id), std::nullopt) << m.name;
}

TEST(Host, TemperatureComesFromTheCpusOwnSensor) {
  Tree tree;
  put_basics(tree);
  tree.file("/sys/class/hwmon/hwmon0/name", "nvme\n")
      .file("/sys/class/hwmon/hwmon0/temp1_input", "30000\n")
      .file("/sys/class/hwmon/hwmon1/name", "k10temp\n")
      .file("/sys/class/hwmon/hwmon1/temp1_input", "61250\n");
  HostSampler host(two_cores(), tree.root());
  Readings r;
  host.sample(r, boot_and(0));
  EXPECT_EQ(r.value(Metric::cpu_temperature), 61.25);
}

}  // namespace
}  // namespace sluice::device
