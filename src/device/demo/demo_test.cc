#include "device/demo/demo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace sluice::device {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

std::string file_with(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "sluice_demo_" + std::to_string(getpid()) + name;
  std::ofstream(path) << text;
  return path;
}

std::string complaint(const std::string& scenario) {
  try {
    open_demo(file_with("broken.json", scenario));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::invalid_argument);
    return e.what();
  }
  return "nothing was wrong";
}

TEST(Demo, ShipsTheCommonScenarios) {
  const auto names = demo_names();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const char* name : {"eight-gpus", "mixed-cards", "gpu-falls-off", "xid-storm", "ecc-errors",
                           "throttling", "hang", "version-errors", "driver-mismatch", "ghost-load",
                           "no-permission", "old-driver", "low-memory"})
    EXPECT_THAT(names, Contains(name));
}

TEST(Demo, NamesTheNearestScenarioForATypo) {
  try {
    open_demo("gpu-fals-off");
    FAIL() << "opened";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("did you mean 'gpu-falls-off'"), HasSubstr("xid-storm")));
  }
}

TEST(Demo, KeepsTwoMachinesApart) {
  const auto one = open_demo("eight-gpus"), other = open_demo("ghost-load");
  EXPECT_EQ(one->count().value, 8u);
  EXPECT_EQ(other->count().value, 2u);
}

TEST(Demo, ContinuesTheStoryForARestartedSampler) {
  const auto first = open_demo("gpu-falls-off", {.epoch_ns = 1, .state_file = ""});
  const auto second = open_demo("gpu-falls-off", {.epoch_ns = 1, .state_file = ""});
  const auto energy = [](const Nvml& n) { return n.energy_j(n.by_index(0).value).value; };
  EXPECT_NEAR(energy(*first) / energy(*second), 1, 0.01);
}

TEST(Demo, RemembersWhatTuneChangedForTheNextProcess) {
  const std::string state = file_with("state", "");
  std::filesystem::remove(state);
  const auto set = open_demo("no-permission", {.epoch_ns = {}, .state_file = state});
  EXPECT_FALSE(std::filesystem::exists(state));
  {
    const auto nvml = open_demo("eight-gpus", {.epoch_ns = {}, .state_file = state});
    const auto d = nvml->by_index(2).value;
    nvml->set_power_limit_w(d, 450);
    nvml->set_persistence(d, false);
    nvml->set_application_clocks(d, 3201, 1500);
  }
  const auto nvml = open_demo("eight-gpus", {.epoch_ns = {}, .state_file = state});
  const auto d = nvml->by_index(2).value;
  EXPECT_DOUBLE_EQ(nvml->power_limit_w(d).value, 450);
  EXPECT_FALSE(nvml->persistence(d).value);
  EXPECT_EQ(nvml->application_clock_mhz(d, nvml::Clock::sm).value, 1500u);
  EXPECT_DOUBLE_EQ(nvml->power_limit_w(nvml->by_index(1).value).value, 700);
  std::filesystem::remove(state);
}

TEST(Demo, HasNoCanaryForAGpuItDoesNotKnow) {
  const auto nvml = open_demo("eight-gpus");
  EXPECT_EQ(demo_canary(*nvml, "GPU-nobody"), std::nullopt);
}

TEST(Demo, NamesThePlaceOfAMistakeInAScenario) {
  EXPECT_THAT(complaint("{"), HasSubstr("line 1"));
  EXPECT_THAT(complaint("[]"), HasSubstr("must be an object"));
  EXPECT_THAT(complaint("{}"), AllOf(HasSubstr("no 'gpus'"), HasSubstr(R"("card": "h200")")));
  EXPECT_THAT(complaint(R"({"gpu": []})"), HasSubstr("'gpu' is not known; did you mean 'gpus'"));
  EXPECT_THAT(complaint(R"({"gpus": [{"card": "h2000"}]})"),
              AllOf(HasSubstr("gpus[0].card"), HasSubstr("h200")));
  EXPECT_THAT(complaint(R"({"gpus": [{}]})"), HasSubstr("needs a 'card'"));
  EXPECT_THAT(complaint(R"({"gpus": [{"card": "t4", "events": [{"type": "xids"}]}]})"),
              AllOf(HasSubstr("events[0].type"), HasSubstr("did you mean 'xid'")));
  EXPECT_THAT(complaint(R"({"gpus": [{"card": "t4", "load": {"utilization": {"sine": 3}}}]})"),
              HasSubstr("load.utilization.sine"));
  EXPECT_THAT(complaint(R"({"gpus": [{"card": "t4", "load": {"utilization": {"noise": 3}}}]})"),
              HasSubstr("exactly one of"));
  EXPECT_THAT(complaint(R"({"gpus": [{"card": "t4", "processes": [{"memory_gib": 3}]}]})"),
              HasSubstr("'pid' is missing"));
  EXPECT_THAT(complaint(R"({"gpus": [{"card": "t4", "uuid": "a"}, {"card": "t4", "uuid": "a"}]})"),
              HasSubstr("same uuid"));
  EXPECT_THAT(complaint(R"({"init": "LOST"})"), HasSubstr("init"));
  EXPECT_THAT(
      complaint(
          R"({"gpus": [{"card": "t4", "events": [{"type": "lost", "at_s": 5, "until_s": 4}]}]})"),
      HasSubstr("after at_s"));
}

TEST(Demo, ADriverWithoutAGpuIsReported) {
  EXPECT_EQ(open_demo(file_with("none.json", R"({"gpus": []})"))->count().value, 0u);
  EXPECT_THAT(complaint(R"({"about": "a typo away", "driver": "580.1"})"), HasSubstr("no 'gpus'"));
}

TEST(Demo, ReadingsNeverExceedTheCardWhateverTheScriptSays) {
  const auto nvml = open_demo(file_with("wild.json", R"({"gpus": [{"card": "t4", "load": {
      "utilization": {"steps": [[0, 1e300]]}, "memory_gib": 1e300, "temperature": -1e300,
      "power": 1e15, "sm_clock": 1e300, "memory_activity": -5},
      "processes": [{"pid": 9, "memory_gib": 1e300, "utilization": 1e300}],
      "events": [{"type": "ecc", "corrected": 1000000, "repeat_every_s": 0.001}]}]})"));
  freeze_demo(*nvml, 1e6);
  const auto d = nvml->by_index(0).value;
  const auto memory = nvml->memory(d).value;
  EXPECT_EQ(memory.used + *memory.reserved, memory.total);
  EXPECT_EQ(nvml->utilization(d).value.gpu, 100u);
  EXPECT_EQ(nvml->utilization(d).value.memory, 0u);
  EXPECT_EQ(nvml->clock_mhz(d, nvml::Clock::sm).value, 477u);  // 30 %: the power limit
  EXPECT_DOUBLE_EQ(nvml->power_w(d).value, 70);
  EXPECT_EQ(nvml->process_utilization(d, 0).value[0].sm, 100u);
}

TEST(Demo, FailsACallAfterAGivenNumberOfCalls) {
  const auto nvml = open_demo(file_with("fail.json", R"({"gpus": [{"card": "t4", "events": [
      {"type": "fail", "call": "nvmlDeviceGetPowerUsage", "error": "UNKNOWN", "after_calls": 2}
  ]}]})"));
  const auto d = nvml->by_index(0).value;
  EXPECT_TRUE(nvml->power_w(d));
  EXPECT_TRUE(nvml->power_w(d));
  EXPECT_EQ(nvml->power_w(d).code, nvml::Return::unknown);
  EXPECT_TRUE(nvml->temperature(d));
}

TEST(Demo, HoldsACallThatHangs) {
  const auto nvml = open_demo(file_with("hang.json", R"({"gpus": [{"card": "t4", "events": [
      {"type": "hang", "call": "nvmlDeviceGetPowerUsage", "seconds": 0.05}]}]})"));
  const auto d = nvml->by_index(0).value;
  const Instant start = Steady::now();
  EXPECT_TRUE(nvml->power_w(d));
  EXPECT_GE(seconds_between(start, Steady::now()), 0.05);
}

}  // namespace
}  // namespace sluice::device
