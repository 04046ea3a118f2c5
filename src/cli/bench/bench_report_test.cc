#include "cli/bench/bench_report.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "cli/common/commands.h"

namespace sluice::cli {
namespace {

using testing::HasSubstr;

constexpr Pen kNoColour{false, true};

device::BenchRow row(std::string title, std::string unit, std::optional<double> value,
                     std::optional<double> peak, std::string detail = "") {
  device::BenchRow r;
  r.name = r.title = std::move(title);
  r.unit = std::move(unit);
  r.value = value;
  r.peak = peak;
  r.detail = std::move(detail);
  r.samples = 20;
  r.spread = 0.012;
  return r;
}

BenchReport h200() {
  BenchReport report;
  report.command = "sluice bench device";
  report.version = "0.1.0";
  report.commit = "63ea77f";
  report.host = "gpu-1";
  report.started = WallTime(std::chrono::seconds(1'790'000'000));
  report.seconds = 42;
  report.subjects.push_back({"gpu",
                             "NVIDIA H200",
                             "GPU-1",
                             "0000:04:00.0",
                             "580.1",
                             "13.0",
                             {row("device copy", "B/s", 4.31e12, 4.8e12),
                              row("GEMM fp8", "FLOP/s", std::nullopt, 1979e12, "no kernel"),
                              row("kernel launch", "s", 2.314e-6, std::nullopt)}});
  return report;
}

TEST(BenchReport, TheTableShowsValueShareOfPeakAndSpread) {
  const auto text = table(h200(), 100, kNoColour);
  EXPECT_THAT(text, HasSubstr("NVIDIA H200  0000:04:00.0  GPU-1  driver 580.1  CUDA 13.0\n"));
  EXPECT_THAT(text, HasSubstr("  device copy                        4.31 TB/s  ███████████░  90 % "
                              "of 4.80 TB/s     ± 0.6 %\n"));
  EXPECT_THAT(text, HasSubstr("2.31 us"));
}

TEST(BenchReport, AnUnmeasuredResultShowsItsReason) {
  EXPECT_THAT(table(h200(), 100, kNoColour),
              HasSubstr("GEMM fp8                       not measured: no kernel\n"));
}

TEST(BenchReport, TheJsonHasSuiteDeviceAndDate) {
  const auto json = to_json(h200());
  EXPECT_EQ(json["date"], "2026-09-21T14:13:20Z");
  EXPECT_EQ(json["commit"], "63ea77f");
  EXPECT_EQ(json["devices"][0]["driver"], "580.1");
  EXPECT_NEAR(json["devices"][0]["results"][0]["percent_of_peak"].get<double>(), 89.79, 0.01);
  EXPECT_TRUE(json["devices"][0]["results"][1]["value"].is_null());
}

TEST(BenchReport, EveryPeerIsShownWithItsRatio) {
  auto report = h200();
  report.subjects[0].rows[0].peers = {{"a loop", 2e12}, {"another", 1e12}};
  const auto text = table(report, 100, kNoColour);
  EXPECT_THAT(text, HasSubstr("    2.15 x a loop (2.00 TB/s)\n    4.31 x another (1.00 TB/s)\n"));
  const auto json = to_json(report)["devices"][0]["results"];
  EXPECT_EQ(json[0]["peers"][1]["name"], "another");
  EXPECT_FALSE(json[1].contains("peers"));
}

TEST(BenchReport, AReportWithoutResultsFails) {
  auto report = h200();
  EXPECT_TRUE(measured(report));
  for (auto& r : report.subjects[0].rows) r.value.reset();
  EXPECT_FALSE(measured(report));
}

struct Bench : testing::Test {
  std::istringstream in;
  std::ostringstream out, err;
  Io io{in, out, err};
  int call(std::vector<std::string_view> args) { return bench(args, io); }
};

TEST_F(Bench, WithoutArgumentsTheSuitesAreListed) {
  EXPECT_EQ(call({}), 0);
  EXPECT_THAT(out.str(), HasSubstr("device"));
}

TEST_F(Bench, AMistypedSuiteOrBenchmarkNamesTheNearest) {
  EXPECT_THROW(call({"devise"}), Error);
  try {
    call({"device", "--only", "gem_fp32"});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::invalid_argument);
    EXPECT_THAT(e.what(), HasSubstr("did you mean 'gemm_fp32'"));
  }
  try {
    call({"market", "--only", "asain"});
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("bench market: no figure named 'asain'; did you mean 'asian'"));
  }
}

TEST_F(Bench, TheCpuIsMeasuredOnAnyMachine) {
  EXPECT_EQ(call({"device", "--cpu", "--quick", "--only", "memory_copy", "--json"}), 0);
  const auto json = Json::parse(out.str());
  EXPECT_EQ(json["devices"][0]["kind"], "cpu");
  EXPECT_GT(json["devices"][0]["results"][0]["value"].get<double>(), 1e8);
  EXPECT_EQ(json["command"], "sluice bench device --cpu --quick --only memory_copy --json");
}

TEST_F(Bench, AnUnwritableFileLosesNoResults) {
  EXPECT_THROW(call({"device", "--cpu", "--quick", "--only", "memory_copy", "--json", "--output",
                     "/nowhere/at/all.json"}),
               Error);
  EXPECT_TRUE(Json::parse(out.str(), nullptr, false).contains("devices"));
}

TEST_F(Bench, AnUnknownGpuIsNotFoundAndSaysWhichThereAre) {
  EXPECT_THROW(call({"device", "--gpu", "GPU-00000000-nowhere"}), Error);
}

}  // namespace
}  // namespace sluice::cli
