#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "cli/common/commands.h"
#include "device/demo/demo.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

// Every call here goes to the fake library; a real GPU is never asked.
struct TuneCommand : testing::Test {
  std::istringstream in;
  std::ostringstream out, err;
  Io io{in, out, err};
  std::string scenario = "eight-gpus";
  fs::path folder = make_folder();

  static fs::path make_folder() {
    auto pattern = (fs::temp_directory_path() / "sluice-tune-XXXXXX").string();
    return mkdtemp(pattern.data());
  }
  ~TuneCommand() override { fs::remove_all(folder); }

  std::string state() const { return (folder / "state").string(); }

  int call(std::vector<std::string> args) {
    for (const auto& more : {std::string("--demo"), scenario, std::string("--state"), state()})
      args.push_back(more);
    const std::vector<std::string_view> views(args.begin(), args.end());
    out.str("");
    return tune(views, io);
  }

  // Reads from the first GPU what the next process would read.
  template <class F>
  auto first_gpu(F ask) {
    device::DemoOptions options;
    options.state_file = state() + "/gpus-demo-" + fs::path(scenario).stem().string() + ".json";
    const auto nvml = device::open_demo(scenario, options);
    return ask(*nvml, nvml->by_index(0).value);
  }
  double power_limit() {
    return first_gpu([](auto& nvml, auto gpu) { return nvml.power_limit_w(gpu).value; });
  }
  bool persistence() {
    return first_gpu([](auto& nvml, auto gpu) { return nvml.persistence(gpu).value; });
  }
  unsigned sm_clock() {
    return first_gpu([](auto& nvml, auto gpu) {
      return nvml.application_clock_mhz(gpu, device::nvml::Clock::sm).value;
    });
  }

  // A scenario of the test's own.
  void use(const std::string& json) {
    scenario = (folder / "scenario.json").string();
    std::ofstream(scenario) << json;
  }
};

TEST_F(TuneCommand, WithoutYesItPrintsThePlanAndChangesNothing) {
  EXPECT_EQ(call({"--power-limit", "500"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("700 W -> 500 W"));
  EXPECT_THAT(out.str(), HasSubstr("Add --yes"));
  EXPECT_FALSE(fs::exists(state()));
  EXPECT_EQ(power_limit(), 700);
}

TEST_F(TuneCommand, WithYesItSetsVerifiesAndRecordsThePreviousValues) {
  EXPECT_EQ(call({"--power-limit", "500", "--yes"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("set and read back"));
  EXPECT_EQ(power_limit(), 500);
  std::ifstream file(state() + "/tune-demo-eight-gpus.json");
  const auto json = Json::parse(file);
  EXPECT_EQ(json["gpus"].size(), 8u);
  EXPECT_EQ(json["gpus"].begin().value()["before"]["power_limit_w"], 700.0);
}

TEST_F(TuneCommand, ResetAfterTwoTuningsRestoresTheTrueOriginal) {
  const auto clock = sm_clock();
  EXPECT_EQ(call({"--power-limit", "500", "--yes"}), 0);
  EXPECT_EQ(call({"--power-limit", "400", "--persistence", "off", "--yes"}), 0);
  EXPECT_EQ(call({"--clocks", "3201,1755", "--yes"}), 0);
  EXPECT_EQ(power_limit(), 400);
  EXPECT_EQ(sm_clock(), 1755u);
  EXPECT_FALSE(persistence());

  EXPECT_EQ(call({"--reset"}), 0);
  EXPECT_EQ(power_limit(), 400) << "a reset is a plan too";
  EXPECT_EQ(call({"--reset", "--yes"}), 0);
  EXPECT_EQ(power_limit(), 700);
  EXPECT_EQ(sm_clock(), clock);
  EXPECT_TRUE(persistence());

  EXPECT_EQ(call({"--reset", "--yes"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("nothing to restore"));
}

TEST_F(TuneCommand, GpusWithTheSameChangesAreShownTogether) {
  call({"--gpu", "0000:14:00.0", "--power-limit", "500", "--yes"});
  call({"--power-limit", "500"});
  EXPECT_THAT(out.str(), HasSubstr("7 GPUs  NVIDIA H200"));
  EXPECT_THAT(out.str(), HasSubstr("0000:14:00.0  NVIDIA H200\n  already so"));
}

TEST_F(TuneCommand, OnlyTheGpuThatIsNamedIsChanged) {
  EXPECT_EQ(call({"--gpu", "00000000:14:00.0", "--power-limit", "500", "--yes", "--json"}), 0);
  const auto json = Json::parse(out.str());
  ASSERT_EQ(json["gpus"].size(), 1u);
  EXPECT_EQ(json["gpus"][0]["bus"], "0000:14:00.0");
  EXPECT_TRUE(json["gpus"][0]["outcome"]["done"]);
  EXPECT_EQ(power_limit(), 700);
}

TEST_F(TuneCommand, ABusIsAcceptedInLspciAndDriverForm) {
  scenario = "mixed-cards";
  call({"--persistence", "on", "--json"});
  const auto bus = Json::parse(out.str())["gpus"].back()["bus"].get<std::string>();
  auto upper = bus;
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  for (const auto& written : {bus, upper, bus.substr(5), upper.substr(5), "0000" + bus}) {
    EXPECT_EQ(call({"--gpu", written, "--persistence", "on", "--json"}), 0) << written;
    const auto json = Json::parse(out.str());
    ASSERT_EQ(json["gpus"].size(), 1u) << written;
    EXPECT_EQ(json["gpus"][0]["bus"], bus);
  }
}

TEST_F(TuneCommand, TheResetCommandIsPrintedWithTheFlagsThatFindTheRecord) {
  EXPECT_EQ(call({"--power-limit", "500", "--yes"}), 0);
  EXPECT_THAT(out.str(),
              HasSubstr("sluice tune --reset --yes --demo eight-gpus --state " + state()));
}

TEST_F(TuneCommand, AnUnknownGpuIsNotFound) {
  try {
    call({"--gpu", "GPU-nowhere", "--power-limit", "500"});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::not_found);
    EXPECT_THAT(e.what(), HasSubstr("sluice detect"));
  }
}

TEST_F(TuneCommand, AValueOutOfRangeForOneGpuChangesNone) {
  scenario = "mixed-cards";
  EXPECT_EQ(call({"--power-limit", "72", "--yes"}), 2);
  EXPECT_THAT(out.str(), HasSubstr("allowed are 120 W to 300 W"));
  EXPECT_THAT(out.str(), HasSubstr("Nothing was changed"));
  EXPECT_EQ(power_limit(), 75);
}

TEST_F(TuneCommand, WithoutPermissionItSuggestsSudoAndKeepsNoRecord) {
  scenario = "no-permission";
  EXPECT_EQ(call({"--persistence", "on", "--yes"}), 1);
  EXPECT_THAT(out.str(), HasSubstr("run it again with sudo"));
  EXPECT_THAT(out.str(), HasSubstr("everything is as it was"));
  EXPECT_EQ(call({"--reset", "--yes"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("nothing to restore"));
}

TEST_F(TuneCommand, AFailureOnTheSecondGpuRollsBackTheFirst) {
  use(R"({"gpus": [
    {"card": "h200"},
    {"card": "h200", "events": [
      {"type": "fail", "call": "nvmlDeviceSetPowerManagementLimit", "error": "UNKNOWN"}]}]})");
  EXPECT_EQ(call({"--power-limit", "500", "--yes"}), 1);
  EXPECT_THAT(out.str(), HasSubstr("undone because another GPU failed"));
  EXPECT_EQ(power_limit(), 700);
  EXPECT_EQ(call({"--reset", "--yes"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("nothing to restore")) << "what was undone is not recorded";
}

TEST_F(TuneCommand, ADriverWithoutApplicationClocksLocksThemInstead) {
  use(R"({"missing": ["nvmlDeviceGetApplicationsClock", "nvmlDeviceSetApplicationsClocks",
                      "nvmlDeviceGetDefaultApplicationsClock"],
          "gpus": [{"card": "h200"}]})");
  EXPECT_EQ(call({"--clocks", "3201,1200", "--yes"}), 0) << out.str();
  EXPECT_EQ(call({"--reset", "--yes", "--json"}), 0);
  const auto json = Json::parse(out.str());
  EXPECT_EQ(json["gpus"][0]["changes"][0]["to"], "chosen by the driver");
}

TEST_F(TuneCommand, ImpossibleArgumentsAreRefusedBeforeTheDriverIsAsked) {
  EXPECT_THROW(call({}), Error);
  EXPECT_THROW(call({"--clocks", "1755"}), Error);
  EXPECT_THROW(call({"--clocks", "-1,1755"}), Error);
  EXPECT_THROW(call({"--power-limit", "500", "--clocks", ""}), Error);  // an unset variable
  EXPECT_THROW(call({"--persistence", "maybe"}), Error);
  EXPECT_THROW(call({"--reset", "--power-limit", "300"}), Error);
}

}  // namespace
}  // namespace sluice::cli
