#include "device/sampler/sampler_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <set>
#include <utility>

#include "device/demo/demo.h"
#include "device/detect/tree_for_tests.h"

namespace sluice::device {
namespace {

using testing::HasSubstr;

struct Probed {
  Outcome outcome;
  Sample sample;
};

Probed ask(Probe& probe, std::initializer_list<Tier> tiers) {
  Probed probed;
  for (const auto tier : tiers) probed.outcome = probe.read(tier, probed.sample, 0.001);
  return probed;
}

std::set<Metric> known(const Sample& sample) {
  std::set<Metric> all;
  for (const auto& [metric, value] : sample.values) all.insert(metric);
  return all;
}

TEST(NvidiaProbe, AHealthyDriverGivesEveryReadingOfTheCard) {
  const auto nvml = open_demo("eight-gpus");
  const auto probe = make_nvidia_probe(*nvml, nvml->by_index(0).value, enrich_from_demo(*nvml));
  const auto probed = ask(*probe, {Tier::pulse, Tier::fast, Tier::slow, Tier::processes});
  EXPECT_TRUE(probed.outcome.answered);
  const auto got = known(probed.sample);
  for (const auto metric : {Metric::utilization, Metric::memory_used, Metric::memory_reserved,
                            Metric::temperature, Metric::power, Metric::energy, Metric::sm_clock,
                            Metric::ecc_uncorrected, Metric::rows_failed, Metric::process_count})
    EXPECT_TRUE(got.contains(metric)) << info(metric).name;
  ASSERT_TRUE(probed.sample.processes);
  ASSERT_FALSE(probed.sample.processes->empty());
  EXPECT_FALSE(probed.sample.processes->front().name.empty());
}

TEST(NvidiaProbe, ReadingsThatADriverDoesNotGiveAreAbsent) {
  const auto nvml = open_demo("version-errors");
  const auto probe = make_nvidia_probe(*nvml, nvml->by_index(0).value, [](Process&) {});
  const auto probed = ask(*probe, {Tier::pulse, Tier::fast, Tier::slow, Tier::processes});
  EXPECT_TRUE(probed.outcome.answered);
  EXPECT_FALSE(probed.sample.absent.empty());
  const auto got = known(probed.sample);
  for (const auto metric : probed.sample.absent) EXPECT_FALSE(got.contains(metric));
  for (const auto& [metric, value] : probed.sample.values) {
    EXPECT_TRUE(std::isfinite(value)) << info(metric).name;
    EXPECT_LT(value, 1e18) << info(metric).name;  // a sentinel that slipped through
  }
}

TEST(NvidiaProbe, ALostGpuIsGone) {
  const auto nvml = open_demo("gpu-falls-off");
  const auto probe = make_nvidia_probe(*nvml, nvml->by_index(1).value, [](Process&) {});
  EXPECT_TRUE(ask(*probe, {Tier::pulse}).outcome.answered);
  freeze_demo(*nvml, 6);
  const auto probed = ask(*probe, {Tier::pulse});
  EXPECT_TRUE(probed.outcome.gone);
  EXPECT_FALSE(probed.outcome.answered);
  EXPECT_THAT(probed.outcome.why, HasSubstr("lost"));
}

// One GPU of this kind with one event.
std::unique_ptr<Nvml> demo_with(const Tree& tree, const std::string& event) {
  const auto path = under(tree.root(), "/scenario.json");
  std::ofstream(path) << R"({"about": "test", "gpus": [{"card": "h100", "nvlinks": 2,)"
                      << R"("load": {"utilization": 60}, "events": [)" << event << "]}]}";
  return open_demo(path.string());
}

TEST(NvidiaProbe, LinksAreCountedAgainAfterATransientError) {
  const Tree tree;
  const auto nvml = demo_with(tree, R"({"type": "fail", "call": "nvmlDeviceGetNvLinkState",
                                        "error": "UNKNOWN", "at_s": 0, "until_s": 5})");
  freeze_demo(*nvml, 1);
  const auto probe = make_nvidia_probe(*nvml, nvml->by_index(0).value, [](Process&) {});
  EXPECT_THAT(ask(*probe, {Tier::slow}).sample.absent, testing::Contains(Metric::nvlink_active));
  freeze_demo(*nvml, 6);
  EXPECT_TRUE(known(ask(*probe, {Tier::slow}).sample).contains(Metric::nvlink_active));
}

TEST(NvidiaProbe, ASlowQueryRunsLessOften) {
  const Tree tree;
  const auto nvml = demo_with(tree, R"({"type": "slow", "seconds": 0.003,
                                        "call": "nvmlDeviceGetTotalEnergyConsumption"})");
  const auto probe = make_nvidia_probe(*nvml, nvml->by_index(0).value, [](Process&) {});
  const auto has_energy = [&] {
    const auto probed = ask(*probe, {Tier::slow});
    EXPECT_TRUE(known(probed.sample).contains(Metric::power));  // a cheap one
    return known(probed.sample).contains(Metric::energy);
  };
  EXPECT_TRUE(has_energy());
  EXPECT_TRUE(has_energy());  // slow once may be a coincidence
  EXPECT_FALSE(has_energy());
}

// The name of this process as the kernel keeps it, until the end of the block.
struct OwnName {
  explicit OwnName(const char* name) {
    prctl(PR_GET_NAME, before);
    prctl(PR_SET_NAME, name);
  }
  ~OwnName() { prctl(PR_SET_NAME, before); }
  char before[16] = "";
};

TEST(Enrich, ANameThatCouldControlTheTerminalOrForgeALogLineIsEscaped) {
  const OwnName own("a\x1b[2J\nb\xff");
  Process process{getpid(), "", "", "", {}, {}, {}};
  enrich_from_proc(process);
  EXPECT_EQ(process.name, "a\\x1b[2J\\x0ab\\xff");
}

TEST(Enrich, ANameOfADemoIsEscapedToo) {
  const Tree tree;
  const auto path = under(tree.root(), "/scenario.json");
  std::ofstream(path) << R"({"about": "test", "gpus": [{"card": "h100", "processes": [)"
                      << R"({"pid": 7, "name": "/bin/\u001b]0;x", "memory_gib": 1}]}]})";
  const auto nvml = open_demo(path.string());
  Process process{7, "", "", "", {}, {}, {}};
  enrich_from_demo (*nvml)(process);
  EXPECT_EQ(process.name, "\\x1b]0;x");
}

TEST(SysfsProbe, ReadsWhatTheKernelOffers) {
  Tree tree;
  const std::string device = "/sys/class/drm/card0/device";
  tree.file(device + "/vendor", "0x1002\n")
      .file(device + "/gpu_busy_percent", "42\n")
      .file(device + "/mem_info_vram_total", "1000\n")
      .file(device + "/mem_info_vram_used", "400\n")
      .file(device + "/hwmon/hwmon3/temp1_input", "56000\n")
      .file(device + "/hwmon/hwmon3/power1_average", "123000000\n");
  DrmCard card;
  card.card = under(tree.root(), "/sys/class/drm/card0");
  card.device = under(tree.root(), device);
  const auto probe = make_sysfs_probe({}, card);
  const auto probed = ask(*probe, {Tier::pulse, Tier::fast, Tier::slow});
  EXPECT_TRUE(probed.outcome.answered);
  EXPECT_THAT(probed.sample.values,
              testing::IsSupersetOf(
                  {std::pair(Metric::utilization, 42.0), std::pair(Metric::memory_free, 600.0),
                   std::pair(Metric::temperature, 56.0), std::pair(Metric::power, 123.0)}));
  EXPECT_THAT(probed.sample.absent, testing::Contains(Metric::fan));

  std::filesystem::remove_all(card.device);
  EXPECT_TRUE(ask(*probe, {Tier::pulse}).outcome.gone);
}

}  // namespace
}  // namespace sluice::device
