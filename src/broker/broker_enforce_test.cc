// Enforcement tiers: claimed only while the limit can be read back.
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "broker/broker_case_for_tests.h"

namespace sluice::broker {
namespace {

TEST_F(BrokerTest, AClientLimitCountsFromItsRenewalAndWhileTheHolderKeepsWithinIt) {
  open();
  auto w = lease_request("scout", 4);
  w.holder.pid = ::getpid(), w.client_limits = true;
  host.run(0, ::getpid(), kGb);
  broker->observe(host.sample());
  auto a = broker->request(w);
  EXPECT_EQ(a.lease.enforcement, Enforcement::observed);
  a = broker->renew(token(a), 4 * kGb);
  EXPECT_EQ(a.lease.enforcement, Enforcement::client);
  EXPECT_THROW(broker->renew({a.lease.id, 0, a.lease.secret}, kGb), LeaseError);  // replayed
  a = broker->renew(token(a));  // what was said before holds
  EXPECT_EQ(a.lease.enforcement, Enforcement::client);
  a = broker->renew(token(a), 4 * kGb + 1);
  EXPECT_EQ(a.lease.enforcement, Enforcement::observed);
  a = broker->renew(token(a), 4 * kGb);
  open();  // nobody has read it back since
  EXPECT_EQ(broker->status(a.lease.id).lease.enforcement, Enforcement::observed);
  EXPECT_EQ(broker->renew(token(a), 4 * kGb).lease.enforcement, Enforcement::client);
  host.run(0, ::getpid(), 4 * kGb);
  host.pass(1);
  broker->observe(host.sample());  // refuted: it has 5
  EXPECT_EQ(broker->status(a.lease.id).lease.enforcement, Enforcement::observed);
}

constexpr std::int64_t kPid = 4711;

// The kernel's files as plain ones: what is written stands there, and no more happens.
class CgroupTest : public BrokerTest {
 protected:
  CgroupTest() {
    for (auto& g : host.snapshot.gpus) g.gpu.vendor = device::Vendor::amd;
    host.options.config.cgroups = true;
    host.options.cgroup = root, host.options.proc = proc;
    write(root + "/cgroup.controllers", "cpu dmem\n");
    write(root + "/cgroup.subtree_control", "dmem\n");
    write(root + "/sluice/cgroup.subtree_control", "dmem\n");
    write(root + "/dmem.capacity", region + " 17179869184\n");
    for (const char* file : {"/dmem.max", "/dmem.current", "/cgroup.procs"})
      write(group + file, "");
    write(root + "/user.slice/cgroup.procs", "");
    write(proc + "/4711/cgroup", "0::/user.slice\n");
    write(proc + "/4711/stat", "4711 (job) S 1 0 0 0 0 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0\n");
  }
  static void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
  }
  static std::string read(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  LeaseResponse ask_as_holder(double gb) {
    auto w = lease_request("scout", gb);
    w.holder.pid = kPid;
    return broker->request(w);
  }
  // As the broker judges it with the next sample.
  Enforcement tier(LeaseId id) {
    host.pass(1);
    broker->observe(host.sample());
    return broker->status(id).lease.enforcement;
  }

  std::string root = folder.path + "/cgroup", proc = folder.path + "/proc";
  std::string group = root + "/sluice/lease-" + std::to_string(host.first_id());
  std::string region = "drm/0000:00:00.0/vram0";
};

TEST_F(CgroupTest, AProcessThatReusesTheHoldersPidIsNotPutIntoItsGroup) {
  open();
  auto w = lease_request("scout", 4);
  w.holder.pid = kPid, w.holder.start_time = 76;  // /proc has one of 77
  broker->request(w);
  EXPECT_EQ(read(group + "/cgroup.procs"), "");
}

TEST_F(CgroupTest, TheTierIsClaimedWhileTheGroupCanBeReadBack) {
  open();
  const auto a = ask_as_holder(4);
  EXPECT_EQ(a.lease.enforcement, Enforcement::cgroup);
  EXPECT_EQ(read(group + "/dmem.max"), region + " 4294967296");
  EXPECT_EQ(read(group + "/cgroup.procs"), "4711");
  EXPECT_EQ(tier(a.lease.id), Enforcement::cgroup);
  write(group + "/cgroup.procs", "");  // somebody moved it away
  EXPECT_EQ(tier(a.lease.id), Enforcement::none);
  write(group + "/cgroup.procs", "4711\n");
  EXPECT_EQ(tier(a.lease.id), Enforcement::cgroup);
  write(group + "/dmem.max", region + " max\n");  // or lifted the limit
  EXPECT_EQ(tier(a.lease.id), Enforcement::none);
}

TEST_F(CgroupTest, ALeaseIsOnlyObservedWhileItsGroupDoesNotCountItsMemory) {
  open();
  const auto a = ask_as_holder(4);
  host.run(0, kPid, 2 * kGb);  // by a child that was started before, for one
  EXPECT_EQ(tier(a.lease.id), Enforcement::observed);
  EXPECT_EQ(read(group + "/cgroup.procs"), "4711");  // it stays: what it takes now does count
  write(group + "/dmem.current", region + " 2147483648\n");
  EXPECT_EQ(tier(a.lease.id), Enforcement::cgroup);
}

TEST_F(CgroupTest, AProcessThatHasMemoryAlreadyIsNotMoved) {
  host.run(0, kPid, kGb);
  open();
  const auto a = ask_as_holder(4);
  EXPECT_EQ(a.lease.enforcement, Enforcement::observed);
  EXPECT_EQ(tier(a.lease.id), Enforcement::observed);
  EXPECT_EQ(read(group + "/cgroup.procs"), "");
}

TEST_F(CgroupTest, AfterARestartAProcessInItsGroupIsClaimedAgainThoughItHasMemory) {
  write(proc + "/sys/kernel/random/boot_id", "one\n");
  open();
  const auto a = ask_as_holder(4);
  host.run(0, kPid, 2 * kGb);
  write(group + "/dmem.current", region + " 2147483648\n");
  write(proc + "/4711/cgroup", "0::/" + std::filesystem::relative(group, root).string() + "\n");
  open();
  EXPECT_EQ(tier(a.lease.id), Enforcement::cgroup);
}

TEST_F(CgroupTest, AfterARestartTheProcessGoesBackThoughNoSampleCameMeanwhile) {
  write(proc + "/sys/kernel/random/boot_id", "one\n");
  open();
  const auto a = ask_as_holder(4);
  write(proc + "/4711/cgroup", "0::/" + std::filesystem::relative(group, root).string() + "\n");
  broker = std::make_unique<Broker>((broker.reset(), host.options));
  broker->release(token(a));
  EXPECT_THAT(read(group + "/dmem.max"), testing::StartsWith(region + " max"));
  EXPECT_EQ(read(root + "/user.slice/cgroup.procs"), "4711");
}

TEST_F(CgroupTest, AProcessWithSeveralLeasesIsInNoGroup) {
  open();
  const auto a = ask_as_holder(4);
  const auto b = ask_as_holder(2);
  EXPECT_EQ(tier(a.lease.id), Enforcement::none);
  EXPECT_EQ(tier(b.lease.id), Enforcement::none);
  EXPECT_EQ(read(root + "/user.slice/cgroup.procs"), "4711");
}

TEST_F(CgroupTest, TheLimitEndsWithTheLeaseAndTheProcessMovesBack) {
  open();
  const auto a = ask_as_holder(4);
  broker->release(token(a));
  EXPECT_THAT(read(group + "/dmem.max"), testing::StartsWith(region + " max"));
  EXPECT_EQ(read(root + "/user.slice/cgroup.procs"), "4711");
}

// The driver's part is a program of its own; here, a script that notes its arguments.
class DriverTest : public CgroupTest {
 protected:
  void open_with(const std::string& response) {
    for (auto& g : host.snapshot.gpus) g.gpu.vendor = device::Vendor::nvidia;
    host.options.program = folder.path + "/program";
    write(host.options.program, "#!/bin/sh\necho \"$@\" >> " + arguments + "\n" + response + "\n");
    ::chmod(host.options.program.c_str(), 0700);
    open();
  }
  // Until the program has answered, and the broker has heard it.
  bool comes_true(const std::function<bool()>& what) {
    for (int i = 0; i < 1000 && !what(); ++i) {
      broker->tick();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return what();
  }
  bool has_gone_back() { return read(root + "/user.slice/cgroup.procs") == "4711"; }

  std::string arguments = folder.path + "/arguments";
};

TEST_F(DriverTest, TheTierIsClaimedWhenTheDriverHasReadTheLimitBack) {
  open_with("echo '{\"stands\": true}' >&3");
  const auto a = ask_as_holder(4);
  EXPECT_EQ(a.lease.enforcement, Enforcement::none);  // nobody has answered yet
  EXPECT_TRUE(comes_true(
      [&] { return broker->status(a.lease.id).lease.enforcement == Enforcement::cgroup; }));
  EXPECT_EQ(read(arguments),
            "gpu-limit --group " + group + " --bytes 4294967296 --fd 3 --uuid GPU-0\n");
  EXPECT_EQ(tier(a.lease.id), Enforcement::cgroup);
  write(group + "/cgroup.procs", "");  // somebody moved it away
  EXPECT_EQ(tier(a.lease.id), Enforcement::none);
  write(group + "/cgroup.procs", "4711\n");
  host.run(0, kPid, 5 * kGb);  // refuted: whatever it is, it is not held to 4
  EXPECT_EQ(tier(a.lease.id), Enforcement::observed);
  broker->release(token(a));
  EXPECT_TRUE(has_gone_back());
}

TEST_F(DriverTest, ADriverWithoutLimitsIsAskedOnceAndTheProcessGoesBack) {
  open_with("echo '{\"stands\": false, \"why_not\": \"older than r615\"}' >&3");
  const auto a = ask_as_holder(4);
  EXPECT_TRUE(comes_true([&] { return has_gone_back(); }));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(tier(a.lease.id), Enforcement::none);
  const auto text = read(arguments);
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
}

TEST_F(DriverTest, ADriverThatHangsBlocksNoCaller) {
  open_with("exec sleep 60");
  const auto began = Steady::now();
  const auto a = ask_as_holder(4);
  broker->tick();
  EXPECT_EQ(tier(a.lease.id), Enforcement::none);
  EXPECT_LT(seconds_between(began, Steady::now()), 5);
  EXPECT_FALSE(has_gone_back());
  host.pass(11);
  broker->tick();
  EXPECT_TRUE(has_gone_back());  // given up
}

TEST_F(DriverTest, ALeaseThatEndsMeanwhileLeavesNoLimitBehind) {
  open_with("while [ ! -e " + folder.path +
            "/go ]; do sleep 0.01; done; "
            "echo '{\"stands\": true}' >&3");
  const auto a = ask_as_holder(4);
  broker->release(token(a));
  write(folder.path + "/go", "");
  EXPECT_TRUE(comes_true([&] { return has_gone_back(); }));
  EXPECT_NE(broker->status(a.lease.id).lease.enforcement, Enforcement::cgroup);
}

}  // namespace
}  // namespace sluice::broker
