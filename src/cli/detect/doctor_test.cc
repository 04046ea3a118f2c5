#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/json.h"
#include "cli/common/commands.h"
#include "cli/common/draw.h"
#include "device/demo/demo.h"

namespace sluice::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

struct DoctorCommand : testing::Test {
  std::istringstream in;
  std::ostringstream out, err;
  // A cache folder on the test's own disk, so that a full home does not matter here.
  Io io{in, out, err, "sluice", {{"HOME", std::filesystem::temp_directory_path().string()}}};

  int call(std::initializer_list<std::string_view> args) {
    out.str("");
    return doctor({args.begin(), args.size()}, io);
  }

  // The checks with this verdict.
  std::set<std::string> ids(const char* status) const {
    std::set<std::string> found;
    const auto json = Json::parse(out.str());
    for (const auto& check : json["checks"])
      if (check["status"] == status) found.insert(check["id"].get<std::string>());
    found.erase("cache");  // of this machine, like the next three
    found.erase("state-folder");
    found.erase("shared-memory");
    found.erase("host-memory");
    return found;
  }
};

TEST_F(DoctorCommand, TheStateFolderIsChecked) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("sluice-doctor-state-" + std::to_string(::getpid()));
  const auto check = [&] {
    call({"--json", "--demo", "eight-gpus", "--state", folder.string()});
    const auto json = Json::parse(out.str());
    for (const auto& one : json["checks"])
      if (one["id"] == "state-folder") return one;
    return Json();
  };
  EXPECT_TRUE(check().is_null());
  std::filesystem::create_directories(folder);
  EXPECT_THAT(check()["detail"].get<std::string>(), HasSubstr("free"));
  std::filesystem::permissions(folder, std::filesystem::perms(0777));
  EXPECT_EQ(check()["status"], "warn");
  EXPECT_THAT(check()["fix"].get<std::string>(), HasSubstr("chmod go-w"));
  std::filesystem::remove_all(folder);
}

struct Story {
  const char* scenario;
  const char* at_s;
  std::set<std::string> fails, warns;
};

TEST_F(DoctorCommand, EachScenarioGivesItsFinding) {
  const Story stories[] = {
      {"eight-gpus", "12", {}, {}},
      {"mixed-cards", "12", {}, {"persistence"}},
      {"driver-mismatch", "0", {"driver", "driver-match"}, {"gpu"}},
      {"old-driver", "0", {"driver-version"}, {"compute-capability", "persistence"}},
      {"low-memory", "0", {}, {"gpu-memory"}},
      {"ecc-errors", "12", {"ecc", "recovery"}, {"row-remap"}},
      {"ecc-errors", "60", {"ecc", "recovery", "row-remap"}, {}},
      {"throttling", "12", {}, {"throttling"}},
      {"gpu-falls-off", "7", {"gpu-answers"}, {}},
      {"gpu-falls-off", "12", {"gpu-answers"}, {}},  // no longer listed at all
      {"no-permission", "0", {}, {"persistence"}},
      {"version-errors", "12", {}, {}},
  };
  for (const auto& story : stories) {
    const int code = call({"--json", "--demo", story.scenario, "--demo-at", story.at_s});
    EXPECT_EQ(ids("fail"), story.fails) << story.scenario;
    EXPECT_EQ(ids("warn"), story.warns) << story.scenario;
    EXPECT_EQ(code, story.fails.empty() ? 0 : 1) << story.scenario;
  }
}

TEST_F(DoctorCommand, ProblemsHaveAFixAndPassesHaveNone) {
  for (const auto& name : device::demo_names()) {
    if (name == "hang") continue;  // takes its time; device/doctor/doctor_test.cc has it
    call({"--json", "--demo", name, "--demo-at", "12"});
    const auto json = Json::parse(out.str());
    for (const auto& check : json["checks"])
      EXPECT_EQ(check["fix"] == "", check["status"] == "pass") << name << ": " << check;
  }
}

TEST_F(DoctorCommand, PipedTextHasNoColoursAndFitsEightyColumns) {
  for (const auto& name : device::demo_names()) {
    if (name == "hang") continue;  // takes its time
    call({"--demo", name, "--demo-at", "12"});
    EXPECT_THAT(out.str(), Not(HasSubstr("\x1b")));
    std::istringstream lines(out.str());
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(columns(line), 80) << name << ": " << line;
  }
}

TEST_F(DoctorCommand, TheReportEndsWithASummary) {
  call({"--demo", "old-driver"});
  EXPECT_THAT(out.str(), HasSubstr(" passed, 2 warnings, 1 failure. "));
  EXPECT_THAT(out.str(), HasSubstr("FAIL  driver is new enough"));
  EXPECT_THAT(out.str(), HasSubstr("      fix: install a driver of the 535 branch"));
}

TEST_F(DoctorCommand, ABrokenConfigurationIsAFinding) {
  EXPECT_EQ(call({"--json", "--demo", "eight-gpus", "--set", "serve.port=eleven"}), 1);
  EXPECT_EQ(ids("fail"), std::set<std::string>{"configuration"});
}

TEST_F(DoctorCommand, ProblemsOfTheConfigurationAreListedOnOneLine) {
  call({"--json", "--demo", "eight-gpus", "--set", "serve.port=eleven", "--set", "gpu.enabled=7"});
  const auto json = Json::parse(out.str());
  const auto check = std::ranges::find(json["checks"], "configuration",
                                       [](const auto& c) -> std::string { return c["id"]; });
  ASSERT_NE(check, json["checks"].end());
  EXPECT_THAT((*check)["detail"].get<std::string>(),
              testing::MatchesRegex("2 problems in the configuration: flag --set serve.port: [^;]+"
                                    "; flag --set gpu.enabled: [^;]+"));
  EXPECT_THAT((*check)["detail"].get<std::string>(), Not(HasSubstr("  ")));
}

TEST_F(DoctorCommand, AProfileOfAnotherCardIsAWarningThatNamesBoth) {
  call({"--json", "--demo", "eight-gpus", "--set", "gpu.gpu_type=P4"});
  EXPECT_EQ(ids("warn"), std::set<std::string>{"gpu-profile"});
  EXPECT_THAT(out.str(), testing::AllOf(HasSubstr("P4"), HasSubstr("H200")));
  call({"--json", "--demo", "eight-gpus", "--set", "gpu.gpu_type=H200"});
  EXPECT_TRUE(ids("warn").empty());
  EXPECT_TRUE(ids("pass").contains("gpu-profile"));
}

TEST_F(DoctorCommand, AMachineWithoutAGpuDoesNotFail) {
  call({"--json"});
  const auto checks = Json::parse(out.str())["checks"];
  ASSERT_EQ(checks[0]["id"], "gpu");
  if (checks[0]["status"] == "pass") GTEST_SKIP() << "this machine has a GPU";
  EXPECT_FALSE(ids("fail").contains("gpu"));
}

}  // namespace
}  // namespace sluice::cli
