#include "device/doctor/doctor.h"

#include <gmock/gmock.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "device/detect/tree_for_tests.h"

namespace sluice::device {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::uint64_t kGiB = 1ull << 30;

GpuFacts good_gpu() {
  GpuFacts g;
  g.uuid = "GPU-1";
  g.bus = "0000:04:00.0";
  g.name = "NVIDIA H200";
  g.compute = {9, 0};
  g.memory_total = 140 * kGiB;
  g.persistence = true;
  g.ecc_enabled = g.ecc_pending = true;
  g.ecc_uncorrected = 0;
  g.rows_pending = g.rows_failed = false;
  g.throttle = 0x1;  // idle
  g.temperature = 40;
  g.recovery_action = 0;
  return g;
}

Facts cpu_machine() {
  Facts f;
  f.container = "";
  f.cpu.architecture = "x86_64";
  f.cpu.usable_cores = 8;
  f.cpu.isa = {"avx2"};
  f.cpu.memory_total = 64 * kGiB;
  f.cache_dir = "/home/u/.cache/sluice";
  f.cache_free = 100 * kGiB;
  f.shared_memory = 8 * kGiB;
  f.nodes.emplace();
  f.libraries = {{"libcuda", "", "not found", true}, {"cuDNN", "", "not found", false}};
  return f;
}

Facts gpu_machine() {
  Facts f = cpu_machine();
  f.nvidia_cards = {"0000:04:00.0"};
  f.module_loaded = true;
  f.module_version = f.library_version = f.driver_version = "580.95.05";
  f.cuda = {13, 0};
  f.gpus = {good_gpu()};
  f.code = parse_gpu_code("90 ptx90", 1300);
  f.nodes = {{"/dev/nvidiactl", true, true}, {"/dev/nvidia0", true, true}};
  f.libraries = {{"libcuda", "13.0", "", true}, {"cuDNN", "9.13.0", "", false}};
  return f;
}

std::optional<Check> find(const std::vector<Check>& checks, std::string_view id) {
  for (const auto& c : checks)
    if (c.id == id) return c;
  return std::nullopt;
}

TEST(Doctor, AHealthyGpuMachinePassesEveryCheck) {
  const auto checks = diagnose(gpu_machine());
  for (const auto& c : checks) {
    EXPECT_EQ(c.status, Verdict::pass) << c.id << ": " << c.detail;
    EXPECT_NE(c.detail, "") << c.id;
    EXPECT_EQ(c.fix, "") << c.id;
  }
  EXPECT_GE(checks.size(), 18u);
}

TEST(Doctor, PtxForALaterCardIsCompiledByTheDriver) {
  auto facts = gpu_machine();
  facts.gpus[0].compute = {10, 0};
  const auto found = find(diagnose(facts), "gpu-code");
  EXPECT_EQ(found->status, Verdict::pass);
  EXPECT_THAT(found->detail, HasSubstr("compiles it when it is first used"));
}

TEST(Doctor, AnOlderMinorVersionOfCudaRunsMachineCode) {
  auto facts = gpu_machine();
  facts.code = parse_gpu_code("90 ptx90", 1302);
  EXPECT_EQ(find(diagnose(facts), "cuda-version")->status, Verdict::pass);
}

TEST(Doctor, AMachineWithoutAGpuIsAWarningAndNotAFailure) {
  const auto checks = diagnose(cpu_machine());
  EXPECT_FALSE(any_failed(checks));
  EXPECT_EQ(find(checks, "gpu")->status, Verdict::warn);
  EXPECT_THAT(find(checks, "gpu")->fix, HasSubstr("runs on the CPU"));
  EXPECT_FALSE(find(checks, "driver")) << "what does not apply is left out";
  EXPECT_FALSE(find(checks, "persistence"));
  EXPECT_EQ(find(checks, "compute-libraries")->status, Verdict::pass);
}

// One thing is wrong with an otherwise healthy GPU machine.
struct Case {
  const char* what;
  std::function<void(Facts&)> break_it;
  const char* id;
  Verdict status;
  const char* detail;  // part of it
  const char* fix;     // part of it
};

class Doctor : public testing::TestWithParam<Case> {};

TEST_P(Doctor, EachFaultHasItsFix) {
  const auto& c = GetParam();
  auto facts = gpu_machine();
  c.break_it(facts);
  const auto found = find(diagnose(facts), c.id);
  ASSERT_TRUE(found) << c.what;
  EXPECT_EQ(to_string(found->status), std::string(to_string(c.status))) << found->detail;
  EXPECT_THAT(found->detail, HasSubstr(c.detail));
  EXPECT_THAT(found->fix, HasSubstr(c.fix));
  EXPECT_NE(found->fix, "") << "trouble without a fix helps nobody";
}

void no_nvml(Facts& f, const char* why) {
  f.gpus.clear();
  f.driver_version.clear();
  f.nvml_problem = why;
}

const Case kCases[] = {
    {"DriverNotLoaded",
     [](Facts& f) {
       no_nvml(f, "driver is not loaded");
       f.module_loaded = false;
       f.module_version.clear();
     },
     "driver", Verdict::fail, "not loaded", "modprobe nvidia"},
    {"DriverTooOld", [](Facts& f) { f.driver_version = "535.54.03"; }, "driver-version",
     Verdict::fail, "535.54.03, at least 535.86.10", "535 branch or newer"},
    {"MismatchByFiles", [](Facts& f) { f.library_version = "580.105.08"; }, "driver-match",
     Verdict::fail, "kernel module 580.95.05, library 580.105.08", "reboot"},
    {"MismatchByAnswer",
     [](Facts& f) { no_nvml(f, "NVML does not start: driver and library versions differ"); },
     "driver-match", Verdict::fail, "upgraded without a restart", "rmmod"},
    {"NodeClosed", [](Facts& f) { f.nodes->at(1).usable = false; }, "device-nodes", Verdict::fail,
     "no permission: /dev/nvidia0", "usermod -aG"},
    {"NodeMissing",
     [](Facts& f) {
       f.nodes->at(0) = {"/dev/nvidiactl", false, false};
     },
     "device-nodes", Verdict::fail, "missing: /dev/nvidiactl", "nvidia-modprobe"},
    {"NodeMissingInAContainer",
     [](Facts& f) {
       f.container = "docker";
       f.nodes->at(0) = {"/dev/nvidiactl", false, false};
     },
     "device-nodes", Verdict::fail, "missing", "daemon-reload"},
    {"NoToolkit",
     [](Facts& f) {
       no_nvml(f, "libnvidia-ml.so.1 not found");
       f.container = "docker";
     },
     "container", Verdict::fail, "does not see its GPUs", "nvidia-container-toolkit"},
    {"NoComputeCapability",
     [](Facts& f) {
       f.container = "docker";
       f.capabilities = "utility";
     },
     "container", Verdict::warn, "NVIDIA_DRIVER_CAPABILITIES=utility", "compute,utility"},
    {"GpusHidden", [](Facts& f) { f.nvidia_visible = "void"; }, "visible-devices", Verdict::warn,
     "every GPU is hidden", "UUID"},
    {"CudaHidden", [](Facts& f) { f.cuda_visible = "-1"; }, "visible-devices", Verdict::warn,
     "CUDA_VISIBLE_DEVICES=-1: every GPU is hidden", "unset"},
    {"VisibleByNumber",
     [](Facts& f) {
       f.gpus.push_back(good_gpu());
       f.cuda_visible = "1";
     },
     "visible-devices", Verdict::warn, "another GPU after a reboot", "UUID"},
    {"DriverLibraryMissing", [](Facts& f) { f.libraries->at(0).version.clear(); },
     "driver-libraries", Verdict::fail, "not found: libcuda", "libcuda1"},
    {"ComputeLibraryMissing", [](Facts& f) { f.libraries->at(1).version.clear(); },
     "compute-libraries", Verdict::warn, "not found: cuDNN", "LD_LIBRARY_PATH"},
    {"GpuLost", [](Facts& f) { f.gpus[0].silence = "the GPU is lost"; }, "gpu-answers",
     Verdict::fail, "0000:04:00.0: the GPU is lost", "gpu-reset"},
    {"GpuMissing", [](Facts& f) { f.nvidia_cards.push_back("0000:14:00.0"); }, "gpu-answers",
     Verdict::fail, "0000:14:00.0: on the bus, but the driver does not show it", "gpu-reset"},
    {"OnlyAnOldGpu",
     [](Facts& f) {
       f.gpus[0].compute = {5, 2};
     },
     "compute-capability", Verdict::fail, "5.2; at least 6.0", "Pascal"},
    {"AnOldGpuBesideAGoodOne",
     [](Facts& f) {
       f.gpus.push_back(good_gpu());
       f.gpus[0].compute = {5, 2};
     },
     "compute-capability", Verdict::warn, "5.2", "will not use it"},
    {"NoCodeForACard",
     [](Facts& f) {
       f.gpus[0].compute = {7, 5};
     },
     "gpu-code", Verdict::fail,
     "code for 9.0, and PTX of 9.0, none for NVIDIA H200 at 0000:04:00.0: compute capability 7.5",
     "./run"},
    {"CodeForOneOfTwoCards",
     [](Facts& f) {
       f.gpus.push_back(good_gpu());
       f.gpus[0].compute = {8, 9};
     },
     "gpu-code", Verdict::warn, "compute capability 8.9", "-DSLUICE_CUDA_ARCHS=all"},
    {"ABuildWithoutCuda", [](Facts& f) { f.code = GpuCode{}; }, "gpu-code", Verdict::fail,
     "no GPU code", "./run"},
    {"ADriverOfAnOlderCuda",
     [](Facts& f) {
       f.cuda = {12, 9};
     },
     "cuda-version", Verdict::fail, "built with CUDA 13.0, the driver supports up to 12.9",
     "branch 580"},
    {"ADriverThatCannotCompileThePtx",
     [](Facts& f) {
       f.gpus[0].compute = {10, 0};
       f.code = parse_gpu_code("90 ptx90", 1302);
     },
     "cuda-version", Verdict::fail, "cannot compile this binary's PTX", "newer driver"},
    {"SmallGpu", [](Facts& f) { f.gpus[0].memory_total = 2 * kGiB; }, "gpu-memory", Verdict::fail,
     "2.0 GiB; at least 4 GB", "4 GB or more"},
    {"PersistenceOff", [](Facts& f) { f.gpus[0].persistence = false; }, "persistence",
     Verdict::warn, "off on 1 of 1", "sluice tune --persistence on"},
    {"EccPending", [](Facts& f) { f.gpus[0].ecc_pending = false; }, "ecc", Verdict::warn,
     "turns off at the next reset", "reset"},
    {"EccErrors", [](Facts& f) { f.gpus[0].ecc_uncorrected = 3; }, "ecc", Verdict::fail,
     "3 uncorrected errors", "drain"},
    {"RowsPending", [](Facts& f) { f.gpus[0].rows_pending = true; }, "row-remap", Verdict::warn,
     "waits for a reset", "gpu-reset"},
    {"RowsFailed", [](Facts& f) { f.gpus[0].rows_failed = true; }, "row-remap", Verdict::fail,
     "could not be remapped", "replaced"},
    {"Hot", [](Facts& f) { f.gpus[0].throttle = 0x40; }, "throttling", Verdict::warn,
     "hardware thermal slowdown at 40 C", "fans"},
    {"Brake", [](Facts& f) { f.gpus[0].throttle = 0x80; }, "throttling", Verdict::warn,
     "power brake", "power supply"},
    {"RecoveryAsked", [](Facts& f) { f.gpus[0].recovery_action = 2; }, "recovery", Verdict::fail,
     "requests a reboot", "reboot"},
    {"NoAvx2", [](Facts& f) { f.cpu.isa.clear(); }, "cpu", Verdict::warn, "no AVX2", "CPU model"},
    {"GroupNearlyFull",
     [](Facts& f) {
       f.cpu.memory_limit = 8 * kGiB;
       f.memory_used = 15 * kGiB / 2;
     },
     "host-memory", Verdict::warn, "8.0 GiB allowed by the cgroup, of 64.0 GiB, 7.5 GiB in use",
     "--memory"},
    {"GroupTooSmall", [](Facts& f) { f.cpu.memory_limit = kGiB; }, "host-memory", Verdict::warn,
     "1.0 GiB allowed", "at least 2 GiB"},
    {"DiskLow", [](Facts& f) { f.cache_free = 5 * kGiB; }, "cache", Verdict::warn, "5.0 GiB free",
     "free 10 GiB"},
    {"DiskFull", [](Facts& f) { f.cache_free = kGiB / 2; }, "cache", Verdict::fail,
     "512.0 MiB free", "free 10 GiB"},
    {"DiskClosed", [](Facts& f) { f.cache_free.reset(); }, "cache", Verdict::fail,
     "cannot be written", "writable"},
    {"SmallShm", [](Facts& f) { f.shared_memory = 64 << 20; }, "shared-memory", Verdict::warn,
     "64.0 MiB", "--shm-size"},
};

INSTANTIATE_TEST_SUITE_P(All, Doctor, testing::ValuesIn(kCases),
                         [](const auto& chosen) { return std::string(chosen.param.what); });

TEST(Doctor, AContainerThatWasGivenOneOfTwoCardsIsFine) {
  auto facts = gpu_machine();
  facts.container = "docker";
  facts.nvidia_cards.push_back("0000:14:00.0");
  EXPECT_EQ(find(diagnose(facts), "gpu-answers")->status, Verdict::pass);
}

TEST(Doctor, ABrokenDriverIsAFailureBesideAGpuOfAnotherVendorToo) {
  for (const bool has_other : {false, true}) {
    auto facts = cpu_machine();
    if (has_other) facts.other_gpus = {"AMD Radeon RX 7900"};
    facts.nodes = {{"/dev/nvidiactl", true, true}};  // all that a container was given
    facts.nvml_problem = "driver and library versions differ; reboot";
    auto checks = diagnose(facts);
    EXPECT_EQ(find(checks, "driver")->status, Verdict::fail);
    EXPECT_EQ(find(checks, "driver-match")->status, Verdict::fail);
    EXPECT_THAT(find(checks, "gpu")->detail, Not(HasSubstr("not computed on")));
    facts.nvidia_cards = {"0000:04:00.0"};
    facts.module_loaded = true;
    checks = diagnose(facts);
    EXPECT_THAT(find(checks, "driver")->detail, HasSubstr("versions differ"));
    EXPECT_THAT(find(checks, "gpu")->detail, HasSubstr("0000:04:00.0"));
  }
}

TEST(Doctor, ThePowerCapUnderLoadIsNoFault) {
  auto facts = gpu_machine();
  facts.gpus[0].throttle = 0x4;
  EXPECT_EQ(find(diagnose(facts), "throttling")->status, Verdict::pass);
}

TEST(Doctor, A4GbCardWithReservedMemoryIsLargeEnough) {
  auto facts = gpu_machine();
  facts.gpus[0].memory_total = 4'040'000'000;  // a GTX 1650 says about this
  EXPECT_EQ(find(diagnose(facts), "gpu-memory")->status, Verdict::pass);
}

TEST(Doctor, AGpuIsNotJudgedByMissingReadings) {
  auto facts = gpu_machine();
  facts.gpus[0] = GpuFacts{};
  facts.gpus[0].silence = "the GPU is lost";
  const auto checks = diagnose(facts);
  EXPECT_FALSE(find(checks, "compute-capability"));
  EXPECT_FALSE(find(checks, "gpu-memory"));
}

TEST(Doctor, VersionsCompareByNumberNotByLetter) {
  EXPECT_EQ(compare_versions("535.86.10", "535.86.10"), 0);
  EXPECT_LT(compare_versions("535.86.9", "535.86.10"), 0);
  EXPECT_LT(compare_versions("470.256.02", "535.86.10"), 0);
  EXPECT_GT(compare_versions("1000.1", "999.9.9"), 0);
  EXPECT_LT(compare_versions("535.86", "535.86.10"), 0);
  EXPECT_LT(compare_versions("", "535.86.10"), 0);
}

TEST(Doctor, JsonCountsTheVerdicts) {
  auto facts = gpu_machine();
  facts.gpus[0].persistence = false;
  facts.cache_free.reset();
  const auto json = to_json(diagnose(facts));
  EXPECT_EQ(json["summary"]["warn"], 1);
  EXPECT_EQ(json["summary"]["fail"], 1);
  EXPECT_EQ(json["summary"]["pass"].get<std::size_t>() + 2, json["checks"].size());
}

TEST(DoctorGather, SeesHardwareModuleAndContainerThroughTheRoot) {
  Tree tree;
  tree.file("/sys/bus/pci/devices/0000:04:00.0/vendor", "0x10de\n");
  tree.file("/sys/bus/pci/devices/0000:04:00.0/class", "0x030200\n");
  tree.file("/sys/bus/pci/devices/0000:05:00.0/vendor", "0x10de\n");
  tree.file("/sys/bus/pci/devices/0000:05:00.0/class", "0x068000\n");  // an NVSwitch
  tree.file("/proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n"
            "GCC version:  gcc version 12.2.0\n");
  tree.file("/.dockerenv", "");
  tree.file("/dev/nvidia0", "").file("/dev/nvidiactl", "");
  DoctorOptions options;
  options.root = tree.root();
  const auto facts = gather(options);
  EXPECT_THAT(facts.nvidia_cards, ElementsAre("0000:04:00.0"));
  EXPECT_TRUE(facts.module_loaded);
  EXPECT_EQ(facts.module_version, "580.95.05");
  EXPECT_EQ(facts.container, "docker");
  ASSERT_EQ(facts.nodes->size(), 3u);
  EXPECT_FALSE(facts.nodes->at(1).exists) << facts.nodes->at(1).path;
  EXPECT_TRUE(facts.nodes->at(2).usable);
}

TEST(DoctorGather, ReadsTheOlderModulesVersionLine) {
  Tree tree;
  tree.file("/proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC\n");
  DoctorOptions options;
  options.root = tree.root();
  EXPECT_EQ(gather(options).module_version, "535.54.03");
}

TEST(DoctorGather, FreeDiskIsThatOfTheNearestExistingFolder) {
  Tree tree;
  DoctorOptions options;
  options.root = tree.root();
  options.cache_dir = (tree.root() / "not/yet/there").string();
  EXPECT_TRUE(gather(options).cache_free.has_value());
  options.cache_dir = "/proc/sluice";
  EXPECT_FALSE(gather(options).cache_free.value_or(0) > 0);
}

// The demo machine of a scenario, some seconds into it.
std::vector<Check> diagnose_demo(const std::string& scenario, double at_s) {
  DoctorOptions options;
  options.demo = scenario;
  options.timeout = std::chrono::milliseconds(300);
  const auto epoch = Steady::now() - std::chrono::duration_cast<Steady::duration>(Seconds(at_s));
  options.demo_options.epoch_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(epoch.time_since_epoch()).count();
  return diagnose(gather(options));
}

TEST(Doctor, ADriverCallThatHangsIsAFailureThatNamesIt) {
  const auto checks = diagnose_demo("hang", 6);
  const auto driver = find(checks, "driver");
  ASSERT_TRUE(driver);
  EXPECT_EQ(driver->status, Verdict::fail);
  EXPECT_THAT(driver->detail, HasSubstr("hangs in nvmlDeviceGetPowerUsage"));
  EXPECT_THAT(driver->fix, HasSubstr("reboot"));
}

TEST(Doctor, AGpuThatIsCountedButCannotBeOpenedIsAFailure) {
  Tree tree;
  const auto scenario = under(tree.root(), "/scenario.json");
  for (const auto* call : {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID"}) {
    tree.file("/scenario.json", std::string(R"({"about": "test", "gpus": [{"card": "h200"}],
        "events": [{"type": "fail", "error": "UNKNOWN", "call": ")") +
                                    call + "\"}]}");
    const auto checks = diagnose_demo(scenario.string(), 1);
    const auto answers = find(checks, "gpu-answers");
    ASSERT_TRUE(answers) << call;
    EXPECT_EQ(answers->status, Verdict::fail) << call;
    EXPECT_THAT(answers->fix, Not(IsEmpty()));
  }
}

TEST(Doctor, ADriverThatCannotListItsGpusIsAFailure) {
  Facts f = gpu_machine();
  f.gpus.clear();
  f.list_problem = "unknown error";
  const auto checks = diagnose(f);
  EXPECT_EQ(checks.front().id, "gpu");
  EXPECT_EQ(checks.front().status, Verdict::fail);
}

}  // namespace
}  // namespace sluice::device
