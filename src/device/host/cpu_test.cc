#include "device/host/cpu.h"

#include <gmock/gmock.h>

#include "device/detect/tree_for_tests.h"

namespace sluice::device {
namespace {

using testing::Contains;
using testing::Not;

// Two sockets of two cores with two threads each: CPUs 0-7.
void two_sockets(Tree& tree) {
  tree.file("/proc/cpuinfo",
            "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Platinum 8480C\n"
            "flags\t\t: fpu sse4_2 avx f16c fma avx2 avx512f avx512_vnni avx512_bf16 "
            "avx512_fp16 amx_tile amx_int8 amx_bf16\n\nprocessor\t: 1\nmodel name\t: second\n");
  tree.file("/proc/meminfo", "MemTotal:       1000 kB\nMemAvailable:    600 kB\n");
  tree.file("/sys/devices/system/cpu/online", "0-7\n");
  for (unsigned n = 0; n < 8; ++n) {
    const auto cpu = "/sys/devices/system/cpu/cpu" + std::to_string(n);
    const auto first = n % 4;
    tree.file(cpu + "/topology/core_cpus_list",
              std::to_string(first) + "," + std::to_string(first + 4));
    tree.file(cpu + "/topology/physical_package_id", std::to_string(first / 2));
    tree.file(cpu + "/cache/index0/level", "1").file(cpu + "/cache/index0/type", "Data");
    tree.file(cpu + "/cache/index0/size", n < 4 ? "32K" : "48K");
    tree.file(cpu + "/cache/index3/level", "3").file(cpu + "/cache/index3/type", "Unified");
    tree.file(cpu + "/cache/index3/size", "105M");
  }
  tree.file("/sys/devices/system/node/node0/cpulist", "0-1,4-5");
  tree.file("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:     400 kB\n");
  tree.file("/sys/devices/system/node/node1/cpulist", "2-3,6-7");
}

TEST(DetectCpu, CountsSocketsCoresAndThreadsBySharing) {
  Tree tree;
  two_sockets(tree);
  const auto cpu = detect_cpu(tree.root());
  EXPECT_EQ(cpu.sockets, 2u);
  EXPECT_EQ(cpu.physical_cores, 4u);
  EXPECT_EQ(cpu.logical_cores, 8u);
  EXPECT_EQ(cpu.usable_cores, 8);
  EXPECT_EQ(cpu.limited_by, "");
  EXPECT_EQ(cpu.model, "Intel(R) Xeon(R) Platinum 8480C");
  EXPECT_EQ(cpu.architecture, "x86_64");
}

TEST(DetectCpu, NamesInstructionSetsUpToAmxAndNoOthers) {
  Tree tree;
  two_sockets(tree);
  const auto isa = detect_cpu(tree.root()).isa;
  for (const auto* name : {"avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"})
    EXPECT_THAT(isa, Contains(name));
  EXPECT_THAT(isa, Not(Contains("fpu")));
  EXPECT_THAT(isa, Not(Contains("avx512cd")));
}

TEST(DetectCpu, EachCacheLevelAndTypeAppearsOnceWithItsLargestSize) {
  Tree tree;
  two_sockets(tree);
  const auto caches = detect_cpu(tree.root()).caches;
  ASSERT_EQ(caches.size(), 2u);
  EXPECT_EQ(caches[0].level, 1u);
  EXPECT_EQ(caches[0].type, "data");
  EXPECT_EQ(caches[0].bytes, 48u << 10);
  EXPECT_EQ(caches[1].bytes, 105u << 20);
}

TEST(DetectCpu, NumaNodesCarryTheirCpusAndMemory) {
  Tree tree;
  two_sockets(tree);
  const auto numa = detect_cpu(tree.root()).numa;
  ASSERT_EQ(numa.size(), 2u);
  EXPECT_EQ(numa[0].cpus, "0-1,4-5");
  EXPECT_EQ(numa[0].memory_total, 400u * 1024);
  EXPECT_FALSE(numa[1].memory_total) << "unknown is absent";
}

TEST(DetectCpu, AContainersQuotaIsReportedNotTheHostsCores) {
  Tree tree;
  two_sockets(tree);
  tree.file("/proc/self/cgroup", "0::/\n");
  tree.file("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  tree.file("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  tree.file("/sys/fs/cgroup/memory.max", "512000\n");
  const auto cpu = detect_cpu(tree.root());
  EXPECT_EQ(cpu.logical_cores, 8u);
  EXPECT_EQ(cpu.usable_cores, 2);
  EXPECT_EQ(cpu.limited_by, "cgroup quota 2.0");
  EXPECT_EQ(cpu.memory_limit, 512000u);
}

TEST(DetectCpu, AMemoryLimitAboveTheMachinesMemoryLimitsNothing) {
  Tree tree;
  two_sockets(tree);
  tree.file("/proc/self/cgroup", "0::/\n");
  tree.file("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  tree.file("/sys/fs/cgroup/memory.max", "2000000\n");
  EXPECT_FALSE(detect_cpu(tree.root()).memory_limit);
}

TEST(DetectCpu, AffinityAndCpusetAreDistinguished) {
  Tree tree;
  two_sockets(tree);
  tree.file("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-1,6\n");
  auto cpu = detect_cpu(tree.root());
  EXPECT_EQ(cpu.usable_cores, 3);
  EXPECT_EQ(cpu.limited_by, "affinity 0-1,6");

  tree.file("/proc/self/cgroup", "0::/\n");
  tree.file("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  tree.file("/sys/fs/cgroup/cpuset.cpus.effective", "0-1,6\n");
  EXPECT_EQ(detect_cpu(tree.root()).limited_by, "cgroup cpuset 0-1,6");
}

TEST(DetectCpu, TheTighterOfAffinityAndQuotaCounts) {
  Tree tree;
  two_sockets(tree);
  tree.file("/proc/self/status", "Cpus_allowed_list:\t0\n");
  tree.file("/proc/self/cgroup", "0::/\n");
  tree.file("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  tree.file("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(detect_cpu(tree.root()).limited_by, "affinity 0");
  tree.file("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  const auto cpu = detect_cpu(tree.root());
  EXPECT_EQ(cpu.usable_cores, 0.5);
  EXPECT_EQ(cpu.limited_by, "cgroup quota 0.50");
}

TEST(DetectCpu, AnArmServerIsNamedFromItsPartNumber) {
  Tree tree;
  tree.file("/proc/cpuinfo",
            "processor\t: 0\nFeatures\t: fp asimd asimddp sve sve2 bf16 i8mm\n"
            "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd4f\n");
  const auto cpu = detect_cpu(tree.root());
  EXPECT_EQ(cpu.model, "Arm Neoverse-V2");
  EXPECT_EQ(cpu.architecture, "aarch64");
  for (const auto* name : {"neon", "asimddp", "sve", "sve2", "bf16", "i8mm"})
    EXPECT_THAT(cpu.isa, Contains(name));
}

TEST(DetectCpu, AnEmptyMachineStillHasOneUsableCore) {
  Tree tree;
  const auto cpu = detect_cpu(tree.root());
  EXPECT_GE(cpu.usable_cores, 1);
  EXPECT_EQ(cpu.model, "unknown");
}

TEST(DetectCpu, ThisMachineHasACpu) {
  const auto cpu = detect_cpu();
  EXPECT_GT(cpu.usable_cores, 0);
  EXPECT_GT(cpu.memory_total, 1u << 20);
  EXPECT_LE(cpu.usable_cores, cpu.logical_cores);
}

}  // namespace
}  // namespace sluice::device
