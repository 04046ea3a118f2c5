#include "device/host/cgroup.h"

#include <gtest/gtest.h>

#include "device/detect/tree_for_tests.h"

namespace sluice::device {
namespace {

constexpr const char* kMountV2 =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n";

TEST(Cgroup, NoCgroupsAtAllIsNoLimit) {
  Tree tree;
  const auto limits = read_cgroup(tree.root());
  EXPECT_EQ(limits.version, 0);
  EXPECT_FALSE(limits.cpus);
  EXPECT_FALSE(limits.memory);
}

TEST(Cgroup, Version2InANamespaceReadsTheTopOfTheMount) {
  Tree tree;
  tree.file("/proc/self/cgroup", "0::/\n").file("/proc/self/mountinfo", kMountV2);
  tree.file("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  tree.file("/sys/fs/cgroup/memory.max", "4294967296\n");
  tree.file("/sys/fs/cgroup/memory.current", "1073741824\n");
  tree.file("/sys/fs/cgroup/cpuset.cpus.effective", "0-1\n");
  const auto limits = read_cgroup(tree.root());
  EXPECT_EQ(limits.version, 2);
  EXPECT_DOUBLE_EQ(limits.cpus.value(), 2.0);
  EXPECT_EQ(limits.memory, 4294967296u);
  EXPECT_EQ(limits.memory_used, 1073741824u);
  EXPECT_EQ(limits.cpuset, "0-1");
}

TEST(Cgroup, ALimitOnAParentBindsAGroupWhoseOwnFilesSayMax) {
  Tree tree;
  tree.file("/proc/self/cgroup", "0::/user.slice/app.scope\n");
  tree.file("/proc/self/mountinfo", kMountV2);
  tree.file("/sys/fs/cgroup/user.slice/app.scope/cpu.max", "max 100000\n");
  tree.file("/sys/fs/cgroup/user.slice/app.scope/memory.max", "max\n");
  tree.file("/sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n");
  tree.file("/sys/fs/cgroup/user.slice/memory.max", "1000000\n");
  tree.file("/sys/fs/cgroup/user.slice/memory.current", "999\n");
  const auto limits = read_cgroup(tree.root());
  EXPECT_DOUBLE_EQ(limits.cpus.value(), 1.5);
  EXPECT_EQ(limits.memory, 1000000u);
  EXPECT_EQ(limits.memory_used, 999u) << "of the group whose limit counts";
}

TEST(Cgroup, TheTightestOfSeveralLimitsCounts) {
  Tree tree;
  tree.file("/proc/self/cgroup", "0::/a/b\n").file("/proc/self/mountinfo", kMountV2);
  tree.file("/sys/fs/cgroup/a/b/cpu.max", "800000 100000\n");
  tree.file("/sys/fs/cgroup/a/cpu.max", "400000 100000\n");
  tree.file("/sys/fs/cgroup/a/b/memory.max", "100\n");
  tree.file("/sys/fs/cgroup/a/memory.max", "200\n");
  const auto limits = read_cgroup(tree.root());
  EXPECT_DOUBLE_EQ(limits.cpus.value(), 4.0);
  EXPECT_EQ(limits.memory, 100u);
}

TEST(Cgroup, APathThatLeavesTheNamespaceIsReadAtTheMount) {
  Tree tree;
  tree.file("/proc/self/cgroup", "0::/../../other\n").file("/proc/self/mountinfo", kMountV2);
  tree.file("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(read_cgroup(tree.root()).cpus.value(), 0.5);
}

constexpr const char* kMountsV1 =
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

TEST(Cgroup, Version1SaysNoLimitWithMinusOneAndWithAHugeNumber) {
  Tree tree;
  tree.file("/proc/self/cgroup", "4:memory:/\n2:cpu,cpuacct:/\n");
  tree.file("/proc/self/mountinfo", kMountsV1);
  tree.file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  tree.file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  tree.file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const auto limits = read_cgroup(tree.root());
  EXPECT_EQ(limits.version, 1);
  EXPECT_FALSE(limits.cpus);
  EXPECT_FALSE(limits.memory);
}

// Docker without a cgroup namespace shows the host's path in /proc, while the top of the
// mount is our own group.
TEST(Cgroup, Version1FollowsTheHostsPathThroughABindMount) {
  Tree tree;
  tree.file("/proc/self/cgroup", "4:memory:/docker/4f2a/inner\n2:cpu,cpuacct:/docker/4f2a\n");
  tree.file("/proc/self/mountinfo",
            "32 31 0:29 /docker/4f2a /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
            "35 31 0:32 /docker/4f2a /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  tree.file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
  tree.file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  tree.file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "8589934592\n");
  tree.file("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "4294967296\n");
  const auto limits = read_cgroup(tree.root());
  EXPECT_DOUBLE_EQ(limits.cpus.value(), 2.0);
  EXPECT_EQ(limits.memory, 4294967296u);
}

TEST(Cgroup, AHybridTakesLimitsFromBothVersions) {
  Tree tree;
  tree.file("/proc/self/cgroup", "4:memory:/app\n0::/app\n");
  tree.file("/proc/self/mountinfo",
            "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
            "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  tree.file("/sys/fs/cgroup/memory/app/memory.limit_in_bytes", "1024\n");
  tree.file("/sys/fs/cgroup/unified/app/cpu.max", "300000 100000\n");
  const auto limits = read_cgroup(tree.root());
  EXPECT_DOUBLE_EQ(limits.cpus.value(), 3.0);
  EXPECT_EQ(limits.memory, 1024u);
}

}  // namespace
}  // namespace sluice::device
