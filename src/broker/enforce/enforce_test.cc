#include "broker/enforce/enforce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "broker/broker_for_tests.h"
#include "broker/enforce/enforce_cgroup.h"
#include "broker/enforce/enforce_mps.h"

namespace sluice::broker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

Lease held(std::vector<Part> parts = {{"GPU-0", 8 * kGb}}) {
  Lease l;
  l.id = 12;
  l.state = State::held;
  l.request.holder.pid = 4711;
  l.parts = std::move(parts);
  return l;
}

Evidence seen(bool lists_memory = true, bool holder_seen = true) {
  Evidence e;
  e.cards = {{lists_memory, holder_seen, false}};
  e.host_pids = true;
  return e;
}

TEST(Enforcement, WithoutEvidenceNothingIsClaimed) {
  EXPECT_EQ(enforcement_of(held(), {}), Enforcement::none);
  EXPECT_EQ(enforcement_of(held(), seen(false)), Enforcement::none);
}

TEST(Enforcement, ObservedNeedsTheDriversListAndTheHoldersPid) {
  EXPECT_EQ(enforcement_of(held(), seen()), Enforcement::observed);
  auto unknown = held();
  unknown.request.holder.pid = 0;
  EXPECT_EQ(enforcement_of(unknown, seen()), Enforcement::none);
}

TEST(Enforcement, InAContainerTheHolderMustHaveBeenSeen) {
  auto e = seen(true, false);
  EXPECT_EQ(enforcement_of(held(), e), Enforcement::observed);
  e.host_pids = false;
  EXPECT_EQ(enforcement_of(held(), e), Enforcement::none);
  e.cards[0].holder_seen = true;
  EXPECT_EQ(enforcement_of(held(), e), Enforcement::observed);
}

TEST(Enforcement, AClientThatOnlySaysItLimitsItselfIsObserved) {
  auto l = held();
  l.request.client_limits = true;
  EXPECT_EQ(enforcement_of(l, seen()), Enforcement::observed);
}

TEST(Enforcement, ClientNeedsALimitReadBackAndTheHolderSeenWithinTheLease) {
  auto l = held();
  l.request.client_limits = true, l.client_limit = 8 * kGb;
  EXPECT_EQ(enforcement_of(l, seen()), Enforcement::client);
  EXPECT_EQ(enforcement_of(l, seen(true, false)), Enforcement::observed);  // not on the card yet
  EXPECT_EQ(enforcement_of(l, seen(false)), Enforcement::none);            // nobody can tell
  l.client_limit = 8 * kGb + 1;
  EXPECT_EQ(enforcement_of(l, seen()), Enforcement::observed);
  l.client_limit = 8 * kGb, l.over_use = 1;  // refuted
  EXPECT_EQ(enforcement_of(l, seen()), Enforcement::observed);
  l.over_use = 0, l.request.client_limits = false;
  EXPECT_EQ(enforcement_of(l, seen()), Enforcement::observed);
  l.request.client_limits = true, l.request.holder = {};  // whoever it is
  EXPECT_EQ(enforcement_of(l, seen()), Enforcement::none);
}

TEST(Enforcement, AClientLimitIsComparedWithTheSmallestPart) {
  auto l = held({{"GPU-0", 8 * kGb}, {"GPU-1", 4 * kGb}});
  l.request.client_limits = true, l.client_limit = 8 * kGb;
  auto e = seen();
  e.cards.push_back(e.cards[0]);
  EXPECT_EQ(enforcement_of(l, e), Enforcement::observed);
  l.client_limit = 4 * kGb;
  EXPECT_EQ(enforcement_of(l, e), Enforcement::client);
}

TEST(Enforcement, MpsNeedsTheLimitAndTheHolderOnTheCardThroughMps) {
  auto e = seen();
  e.mps_limit_seen = true;
  EXPECT_EQ(enforcement_of(held(), e), Enforcement::observed);
  e.cards[0].holder_uses_mps = true;
  EXPECT_EQ(enforcement_of(held(), e), Enforcement::mps);
  e.mps_limit_seen = false;
  EXPECT_EQ(enforcement_of(held(), e), Enforcement::observed);
}

TEST(Enforcement, EveryCardOfALeaseMustShowIt) {
  const auto two = held({{"GPU-0", kGb}, {"GPU-1", kGb}});
  auto e = seen();
  e.cards.push_back({false, false, false});
  EXPECT_EQ(enforcement_of(two, e), Enforcement::none);
  e.cards.pop_back();  // one card is not known any more
  EXPECT_EQ(enforcement_of(two, e), Enforcement::none);
}

TEST(Enforcement, UseBeyondTheLeaseRefutesACgroupLimit) {
  auto l = held();
  l.over_use = 1;
  Evidence seen{{{true, true, false}}, true, false, true};
  EXPECT_EQ(enforcement_of(l, seen), Enforcement::observed);
}

TEST(Enforcement, CgroupOnlyWhenVerified) {
  auto e = seen();
  e.cgroup_verified = true;
  EXPECT_EQ(enforcement_of(held(), e), Enforcement::cgroup);
}

TEST(Env, NamesTheGpuByUuidAndTheMemoryInBytesAndAsAShareRoundedDown) {
  const EnvCard card{"GPU-0", "0000:04:00.0", true, 24 * kGb};
  EXPECT_THAT(
      env_for(held(), {&card, 1}, false),
      ElementsAre(Pair("SLUICE_LEASE_ID", "12"), Pair("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
                  Pair("CUDA_VISIBLE_DEVICES", "GPU-0"), Pair("SLUICE_GPU_BUS", "0000:04:00.0"),
                  Pair("SLUICE_GPU_MEMORY_BYTES", "8589934592"),
                  Pair("GPU_MEMORY_FRACTION", "0.3333")));
}

TEST(Env, WithAnMpsDaemonTheLimitOfEachGpuIsSet) {
  const auto two = held({{"GPU-0", 8 * kGb}, {"GPU-1", 8 * kGb}});
  const std::vector<EnvCard> cards{{"GPU-0", "a", true, 24 * kGb}, {"GPU-1", "b", true, 16 * kGb}};
  const auto env = env_for(two, cards, true);
  EXPECT_THAT(env, testing::Contains(Pair("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=8192M,1=8192M")));
  EXPECT_THAT(env, testing::Contains(Pair("CUDA_VISIBLE_DEVICES", "GPU-0,GPU-1")));
  EXPECT_THAT(env, testing::Contains(Pair("GPU_MEMORY_FRACTION", "0.3333")));  // the least share
}

TEST(Env, OtherVendorsAreNotNamedToCuda) {
  const EnvCard card{"AMD-0000:03:00.0", "0000:03:00.0", false, 16 * kGb};
  for (const auto& [name, value] : env_for(held(), {&card, 1}, true))
    EXPECT_THAT(name, testing::Not(HasSubstr("CUDA")));
}

TEST(Env, OnTheCpuTheGpusAreHidden) {
  EXPECT_THAT(env_for(Lease{}, {}, true), ElementsAre(Pair("CUDA_VISIBLE_DEVICES", "-1")));
}

// ---- files

void write_file(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Mps, ADaemonRunsWhenItsProcessIsOne) {
  const TemporaryFolder folder;
  const auto pipe = folder.path + "/mps", proc = folder.path + "/proc";
  EXPECT_FALSE(mps_daemon_runs(pipe, proc));
  write_file(pipe + "/nvidia-cuda-mps-control.pid", "77");
  EXPECT_FALSE(mps_daemon_runs(pipe, proc));  // it ended and left its file
  write_file(proc + "/77/comm", "bash\n");
  EXPECT_FALSE(mps_daemon_runs(pipe, proc));  // its number was used again
  write_file(proc + "/77/comm", "nvidia-cuda-mps\n");
  EXPECT_TRUE(mps_daemon_runs(pipe, proc));
}

// Any user may make /tmp/nvidia-mps where no daemon runs, and name the process of a daemon there.
TEST(Mps, AFolderOfAnotherUserIsNotBelieved) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to give a folder to another user";
  const TemporaryFolder folder;
  const auto pipe = folder.path + "/mps", proc = folder.path + "/proc";
  write_file(pipe + "/nvidia-cuda-mps-control.pid", "77");
  write_file(proc + "/77/comm", "nvidia-cuda-mps\n");
  ASSERT_EQ(::chown(pipe.c_str(), 65534, 65534), 0);
  EXPECT_FALSE(mps_daemon_runs(pipe, proc));
}

TEST(Mps, TheLimitIsReadFromTheEnvironmentAProcessWasStartedWith) {
  const TemporaryFolder proc;
  write_file(proc.path + "/5/environ", std::string("XA=1\0A=0=8M\0AB=2\0", 18));
  EXPECT_EQ(started_with(5, "A", proc.path), "0=8M");
  EXPECT_EQ(started_with(5, "B", proc.path), "");
  EXPECT_EQ(started_with(6, "A", proc.path), "");
}

// The kernel's files as plain ones: what is written stands there, and no more happens.
class LeaseGroupsTest : public testing::Test {
 protected:
  LeaseGroupsTest() {
    write_file(root + "/cgroup.controllers", "cpu memory dmem\n");
    write_file(root + "/cgroup.subtree_control", "cpu memory dmem\n");
    write_file(root + "/dmem.capacity", "drm/0000:03:00.0/vram0 17179869184\n");
    write_file(root + "/sluice/cgroup.subtree_control", "dmem\n");
    write_file(group + "/dmem.max", "");
    write_file(group + "/dmem.current", "");
    write_file(group + "/cgroup.procs", "");
    write_file(root + "/user.slice/cgroup.procs", "");
    write_file(proc + "/4711/cgroup", "0::/user.slice\n");
  }
  TemporaryFolder folder;
  std::string root = folder.path + "/cgroup", proc = folder.path + "/proc";
  std::string group = root + "/sluice/lease-12";
  std::string record = folder.path + "/leases.groups";
  LeaseGroups groups{root, proc};
  const std::vector<DmemLimit> limits{{"0000:03:00.0", 8 * kGb}};
};

TEST_F(LeaseGroupsTest, ALimitStandsOnlyWhenItCanBeReadBack) {
  EXPECT_EQ(groups.limit(12, 4711, limits), "");
  EXPECT_EQ(read_file(group + "/dmem.max"), "drm/0000:03:00.0/vram0 8589934592");
  EXPECT_EQ(read_file(group + "/cgroup.procs"), "4711");
}

TEST_F(LeaseGroupsTest, AtTheEndTheLimitIsLiftedAndTheProcessGoesBack) {
  ASSERT_EQ(groups.limit(12, 4711, limits), "");
  groups.lift(12);
  EXPECT_THAT(read_file(group + "/dmem.max"), testing::StartsWith("drm/0000:03:00.0/vram0 max"));
  EXPECT_EQ(read_file(root + "/user.slice/cgroup.procs"), "4711");
}

TEST_F(LeaseGroupsTest, ALimitThatTheKernelDoesNotKeepIsNotTrusted) {
  std::filesystem::remove(group + "/dmem.max");
  std::filesystem::create_symlink("/dev/null", group + "/dmem.max");
  EXPECT_THAT(groups.limit(12, 4711, limits), HasSubstr("does not show the limit"));
  EXPECT_EQ(read_file(root + "/user.slice/cgroup.procs"), "4711");  // and it went back
}

TEST_F(LeaseGroupsTest, AProcessThatDidNotMoveIsNotLimited) {
  std::filesystem::remove(group + "/cgroup.procs");
  std::filesystem::create_symlink("/dev/null", group + "/cgroup.procs");
  EXPECT_THAT(groups.limit(12, 4711, limits), HasSubstr("process 4711 is not in"));
}

TEST_F(LeaseGroupsTest, AProcessThatHasMemoryAlreadyIsNotMoved) {
  const std::vector<DmemLimit> busy{{"0000:03:00.0", 8 * kGb, kGb}};
  EXPECT_THAT(groups.limit(12, 4711, busy), HasSubstr("took before would not be counted"));
  EXPECT_EQ(read_file(group + "/cgroup.procs"), "");
  write_file(proc + "/4711/cgroup", "0::/sluice/lease-12\n");  // there since before a restart
  write_file(group + "/dmem.current", "drm/0000:03:00.0/vram0 1073741824\n");
  EXPECT_EQ(groups.limit(12, 4711, busy), "");
}

TEST_F(LeaseGroupsTest, WhatTheDriverListsMustBeCountedInTheGroup) {
  ASSERT_EQ(groups.limit(12, 4711, limits), "");
  const std::vector<DmemLimit> more{{"0000:03:00.0", 8 * kGb, kGb}};
  EXPECT_THAT(groups.stands(12, 4711, more), HasSubstr("only 0 counted"));
  write_file(group + "/dmem.current", "drm/0000:03:00.0/vram0 1040000000\n");
  EXPECT_EQ(groups.stands(12, 4711, more), "");  // drivers and kernel round each in its own way
}

TEST_F(LeaseGroupsTest, SaysWhyThereIsNoLimit) {
  const std::vector<DmemLimit> other{{"0000:99:00.0", kGb}};
  EXPECT_THAT(groups.limit(12, 4711, other), HasSubstr("does not count the memory of 0000:99"));
  write_file(root + "/cgroup.controllers", "cpu memory\n");
  EXPECT_THAT(groups.why_not(), HasSubstr("no dmem controller"));
  std::filesystem::remove(root + "/cgroup.controllers");
  EXPECT_THAT(groups.why_not(), HasSubstr("no version 2 control group"));
}

TEST_F(LeaseGroupsTest, AfterARestartAProcessGoesBackToWhereItCameFrom) {
  {
    LeaseGroups before(root, proc, record);
    ASSERT_EQ(before.limit(12, 4711, limits), "");
  }
  write_file(proc + "/4711/cgroup", "0::/sluice/lease-12\n");
  write_file(root + "/cgroup.procs", "");
  LeaseGroups after(root, proc, record);
  after.sweep({});
  EXPECT_EQ(read_file(root + "/user.slice/cgroup.procs"), "4711");
  EXPECT_EQ(read_file(root + "/cgroup.procs"), "");  // and not free of its service's limits
}

TEST_F(LeaseGroupsTest, ALimitOfBeforeARestartKeepsItsOrigin) {
  {
    LeaseGroups before(root, proc, record);
    ASSERT_EQ(before.limit(12, 4711, limits), "");
  }
  write_file(proc + "/4711/cgroup", "0::/sluice/lease-12\n");
  LeaseGroups after(root, proc, record);
  const std::vector<LeaseId> live{12};
  after.sweep(live);
  EXPECT_EQ(after.limit(12, 4711, limits), "");
  after.lift(12);
  EXPECT_EQ(read_file(root + "/user.slice/cgroup.procs"), "4711");
}

TEST_F(LeaseGroupsTest, WithoutARecordAProcessStaysWhereItIs) {
  ASSERT_EQ(groups.limit(12, 4711, limits), "");
  write_file(root + "/cgroup.procs", "");
  LeaseGroups(root, proc).sweep({});
  EXPECT_EQ(read_file(root + "/cgroup.procs"), "");
  EXPECT_THAT(read_file(group + "/dmem.max"), testing::StartsWith("drm/0000:03:00.0/vram0 max"));
}

TEST_F(LeaseGroupsTest, NoRecordSendsAProcessWhereTheKernelDidNotSeeIt) {
  const auto elsewhere = folder.path + "/elsewhere";
  write_file(elsewhere + "/cgroup.procs", "");
  write_file(root + "/cgroup.procs", "");
  for (const char* line : {"12 /../elsewhere", "12 /user.slice/../../elsewhere", "12 elsewhere",
                           "12 /sluice/lease-13", "12", "12 ", "-1 /x", "x /user.slice"}) {
    write_file(group + "/cgroup.procs", "4711");
    write_file(record, line + std::string("\n"));
    LeaseGroups(root, proc, record).sweep({});
    EXPECT_EQ(read_file(elsewhere + "/cgroup.procs"), "") << line;
    EXPECT_EQ(read_file(root + "/cgroup.procs"), "") << line;
  }
  std::filesystem::remove(record);
  write_file(folder.path + "/planted", "12 /user.slice\n");
  std::filesystem::create_symlink(folder.path + "/planted", record);
  LeaseGroups(root, proc, record).sweep({});
  EXPECT_EQ(read_file(root + "/user.slice/cgroup.procs"), "");
}

// A child of a holder asks for a lease of its own: it goes back to where the holder came from.
TEST_F(LeaseGroupsTest, AGroupOfAnotherLeaseIsNoOrigin) {
  ASSERT_EQ(groups.limit(12, 4711, limits), "");
  const auto other = root + "/sluice/lease-13";
  for (const char* file : {"/dmem.max", "/dmem.current", "/cgroup.procs"})
    write_file(other + file, "");
  write_file(proc + "/4712/cgroup", "0::/sluice/lease-12\n");
  ASSERT_EQ(groups.limit(13, 4712, limits), "");
  groups.lift(13);
  EXPECT_EQ(read_file(root + "/user.slice/cgroup.procs"), "4712");
  write_file(proc + "/4713/cgroup", "0::/sluice/lease-99\n");  // of which nobody knows
  EXPECT_THAT(groups.limit(13, 4713, limits), HasSubstr("no group that it could go back to"));
}

TEST_F(LeaseGroupsTest, WhereItsOriginIsGoneAProcessGoesToTheNextAbove) {
  write_file(root + "/user.slice/job/cgroup.procs", "");
  write_file(proc + "/4711/cgroup", "0::/user.slice/job\n");
  ASSERT_EQ(groups.limit(12, 4711, limits), "");
  std::filesystem::remove_all(root + "/user.slice/job");
  groups.lift(12);
  EXPECT_EQ(read_file(root + "/user.slice/cgroup.procs"), "4711");
}

TEST_F(LeaseGroupsTest, AProcessWhoseOriginCannotBeRecordedIsNotMoved) {
  LeaseGroups unable(root, proc, folder.path + "/no/such/folder/record");
  EXPECT_NE(unable.limit(12, 4711, limits), "");
  EXPECT_EQ(read_file(group + "/cgroup.procs"), "");
}

TEST_F(LeaseGroupsTest, GroupsOfLeasesThatAreGoneAreSwept) {
  ASSERT_EQ(groups.limit(12, 4711, limits), "");
  LeaseGroups next(root, proc);
  const std::vector<LeaseId> live{12};
  next.sweep(live);
  EXPECT_EQ(read_file(group + "/dmem.max"), "drm/0000:03:00.0/vram0 8589934592");
  next.sweep({});
  EXPECT_THAT(read_file(group + "/dmem.max"), testing::StartsWith("drm/0000:03:00.0/vram0 max"));
}

}  // namespace
}  // namespace sluice::broker
