#include "cli/lease/lease_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/printable.h"

namespace sluice::cli {
namespace {

Terminal page() {
  Terminal terminal;
  terminal.width = 80;
  return terminal;
}

std::string listed(const Json& leases) {
  std::ostringstream out;
  print_leases(leases, out, page());
  return out.str();
}

Json held() {
  return {{"lease_id", "7"},
          {"agent", "scout"},
          {"state", "held"},
          {"priority", "high"},
          {"requested_gb", 8.0},
          {"memory_gb", 8.0},
          {"used_gb", 6.5},
          {"enforcement", "observed"},
          {"gpus", {{{"gpu_uuid", "GPU-a"}, {"memory_gb", 8.0}}}},
          {"granted_age_s", 90.0},
          {"expires_in_s", 30.0},
          {"pid", 4711},
          {"uid", 1000}};
}

Json card() {
  return {{"gpu_uuid", "GPU-a"}, {"gpu_device", 3},
          {"name", "Card"},      {"total_gb", 16.0},
          {"promised_gb", 8.0},  {"used_gb", 7.0},
          {"free_gb", 4.0},      {"usable", true},
          {"why", ""},           {"unmanaged", Json::array()}};
}

TEST(LeaseReport, ALeaseIsOneRowWithPromisedAndUsedMemory) {
  const auto text = listed({{"leases", {held()}}, {"cards", {card()}}});
  for (const auto* part : {"7      1000  scout  held   high      3 ", "8.00", "6.50", "observed",
                           "1 min 30 s", "30.0 s", "4711"})
    EXPECT_NE(text.find(part), text.npos) << part << "\n" << text;
}

TEST(LeaseReport, ALeaseWithoutMemoryShowsNoPromise) {
  auto lease = held();
  lease["state"] = "on_cpu", lease["gpus"] = Json::array(), lease["requested_gb"] = 120.0;
  lease.erase("uid");
  const auto text = listed({{"on_cpu", {lease}}, {"cards", {card()}}});
  EXPECT_NE(text.find("7      -     scout  on_cpu  high      -           120.00          -"),
            text.npos)
      << text;
  EXPECT_NE(text.find("LEASABLE GB"), text.npos) << text;
}

TEST(LeaseReport, EscapeSequencesInProcessNamesDoNotReachTheTerminal) {
  auto full = card();
  full["unmanaged"] = {{{"name", "\x1b[2Jx"}, {"pid", 41}, {"user", "ann"}, {"memory_gb", 4.0}}};
  const auto text = listed({{"cards", {full}}});
  EXPECT_EQ(text.find("\x1b[2J"), text.npos);
  EXPECT_NE(text.find("\\x1b[2Jx (41, ann, 4.00 GB)"), text.npos) << text;
}

TEST(LeaseReport, UnmanagedProcessesAreListedAndAnUnusableCardShowsWhy) {
  auto full = card(), lost = card();
  full["unmanaged"] = {{{"name", "trainer"}, {"pid", 41}, {"user", "ann"}, {"memory_gb", 4.0}}};
  lost["usable"] = false;
  lost["why"] = "lost since 12:03";
  const auto text = listed({{"cards", {full, lost}}});
  EXPECT_NE(text.find("trainer (41, ann, 4.00 GB)"), text.npos) << text;
  EXPECT_NE(text.find("lost since 12:03"), text.npos) << text;
}

TEST(LeaseReport, WithoutLeasesOrGpusTheReportShowsTheNextStep) {
  const auto text = listed(Json::object());
  EXPECT_NE(text.find("sluice lease request"), text.npos) << text;
  EXPECT_NE(text.find("No GPU"), text.npos) << text;
}

TEST(LeaseReport, AYieldingLeaseShowsItsRemainingTime) {
  auto lease = held();
  lease["state"] = "yielding";
  lease["yield_in_s"] = 8.0;
  lease["yield_reason"] = "urgent asks for 8.0 GiB with high priority";
  const auto text = listed({{"leases", {lease}}});
  EXPECT_NE(text.find("yields in 8.0 s"), text.npos) << text;
  EXPECT_NE(text.find("lease 7 of scout is requested to yield: urgent asks for 8.0 GiB"),
            text.npos);
  std::ostringstream one;
  print_lease(lease, one, page());
  EXPECT_NE(one.str().find("within 8.0 s: urgent asks"), std::string::npos) << one.str();
}

TEST(LeaseReport, OverUseIsMarkedInTheRowAndExplained) {
  auto lease = held();
  EXPECT_EQ(listed({{"leases", {lease}}}).find("over"), std::string::npos);
  lease["over_use"] = 3ull << 30;
  const auto text = listed({{"leases", {lease}}});
  EXPECT_NE(text.find("held, over"), text.npos) << text;
  EXPECT_NE(text.find("lease 7 of scout uses 3.0 GiB more than promised"), text.npos) << text;
  std::ostringstream one;
  print_lease(lease, one, page());
  EXPECT_NE(one.str().find("3.0 GiB more than promised"), std::string::npos) << one.str();
}

TEST(LeaseReport, ExportLinesSurviveAShell) {
  const Json answer{
      {"lease_id", "7"},
      {"token", "7.0.ff"},
      {"env", {{"CUDA_VISIBLE_DEVICES", "GPU-a"}, {"SLUICE_GPU_BUS", "it's $(here)"}}}};
  EXPECT_EQ(export_lines(answer),
            "export CUDA_VISIBLE_DEVICES='GPU-a'\n"
            "export SLUICE_GPU_BUS='it'\\''s $(here)'\n"
            "export SLUICE_LEASE_ID='7'\n"
            "export SLUICE_LEASE_TOKEN='7.0.ff'\n");
}

TEST(LeaseReport, OnlyTheVariablesOfALeaseAreExported) {
  for (const auto* name : {"LD_PRELOAD", "PATH", "", "A;touch x;B", "\x1b[2J",
                           "CUDA_VISIBLE_DEVICES\n", "SLUICE_SERVE_API_KEY"}) {
    const Json answer{{"lease_id", "7"}, {"env", {{name, "x"}}}};
    try {
      export_lines(answer);
      ADD_FAILURE() << name;
    } catch (const Error& e) {
      const std::string said(e.reason());
      EXPECT_EQ(said, "the server answered with a variable that a lease does not set: " +
                          printable(name));
    }
  }
}

TEST(LeaseReport, AValueThatNoVariableCanHaveIsRefused) {
  for (const auto& value : {Json(std::string("a\0b", 3)), Json(5), Json(), Json::array()}) {
    const Json answer{{"env", {{"CUDA_VISIBLE_DEVICES", value}}}};
    EXPECT_THROW(lease_environment(answer), Error) << value;
  }
  EXPECT_THROW(lease_environment({{"env", {1}}}), Error);
  EXPECT_TRUE(lease_environment(Json::object()).empty());
}

TEST(LeaseReport, ARefusalNamesTheBlockingLeasesAndWhenItMayFit) {
  const Json answer{
      {"status", "cpu_fallback"},
      {"agent", "late"},
      {"lease_id", "9"},
      {"reason", "no GPU has 8 GB free"},
      {"blocked_by",
       {{{"lease_id", "7"}, {"agent", "scout"}, {"priority", "low"}, {"memory_gb", 8}}}},
      {"obstacles",
       {{{"name", "Card"}, {"bus", "0000:01:00.0"}, {"free_gb", 5.0}, {"kept_gb", 2.0}},
        {{"name", "Card"}, {"bus", "0000:02:00.0"}, {"why", "lost since 12:03"}}}},
      {"may_fit_in_s", 60.0}};
  std::ostringstream out;
  print_lease(answer, out, page());
  for (const auto* part :
       {"cpu_fallback  lease 9 of late", "no GPU has 8 GB free", "lease 7 of scout, low, 8.00 GB",
        "1 min 0 s", "Card (0000:01:00.0) has 5.00 GB free, 2.00 kept for others",
        "Card (0000:02:00.0): lost since 12:03"})
    EXPECT_NE(out.str().find(part), std::string::npos) << part << "\n" << out.str();
}

TEST(LeaseReport, AnEventIsOneLine) {
  const Json event{{"time", "2026-11-15T07:17:29.066Z"},
                   {"lease_id", "7"},
                   {"agent", "scout"},
                   {"memory_gb", 8.0},
                   {"yield_in_s", 10.0},
                   {"reason", "urgent waits"}};
  EXPECT_EQ(event_line("lease_yield", event),
            "2026-11-15T07:17:29 yield           lease 7      scout            8.00 GB  within "
            "10.0 s  urgent waits");
}

TEST(LeaseReport, MissingAndNullFieldsAreAccepted) {
  EXPECT_NO_THROW(listed({{"leases", {Json::object()}}, {"cards", {Json::object()}}}));
  std::ostringstream out;
  EXPECT_NO_THROW(print_lease({{"status", nullptr}, {"gpus", {Json::object()}}}, out, page()));
  EXPECT_NO_THROW(event_line("", Json::object()));
}

}  // namespace
}  // namespace sluice::cli
