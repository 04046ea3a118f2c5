#include "serve/exposition.h"

#include <gmock/gmock.h>

#include "serve/snapshot_for_tests.h"

namespace sluice::serve {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string page(const ExpositionOptions& options = {}) {
  Traffic traffic(1, {"GET /health"});
  traffic.counters(0).request(0, 200, 0.0012);
  traffic.counters(0).request(0, 503, 0.3);
  return exposition(snapshot_for_tests(), traffic.totals(), {"1.2.3", "host", ago(100)}, options,
                    kNow);
}

TEST(Exposition, SluiceMetricsHaveUnitsAndHelp) {
  EXPECT_THAT(page(),
              HasSubstr("# TYPE sluice_gpu_temperature_celsius gauge\n"
                        "sluice_gpu_temperature_celsius{uuid=\"GPU-a\",bus=\"0000:04:00.0\","
                        "name=\"NVIDIA H200\"} 72\n"));
  EXPECT_THAT(page(), HasSubstr("# TYPE sluice_gpu_energy_joules_total counter\n"));
}

TEST(Exposition, DcgmMetricsHaveDcgmNamesAndUnits) {
  EXPECT_THAT(page(), HasSubstr("DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-a\",pci_bus_id="
                                "\"0000:04:00.0\",device=\"nvidia0\",Hostname=\"host\"} 6144\n"));
  EXPECT_THAT(page(), HasSubstr("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{"));
}

TEST(Exposition, DcgmIndexesCountNvidiaGpusOnly) {
  auto snapshot = snapshot_for_tests();
  auto other = gpu_for_tests("GPU-amd", "Instinct");
  other.gpu.vendor = device::Vendor::amd;
  snapshot.gpus.insert(snapshot.gpus.begin(), other);
  const auto text = exposition(snapshot, {}, {"1.2.3", "host", ago(100)}, {}, kNow);
  EXPECT_THAT(text, HasSubstr("DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-a\""));
  EXPECT_THAT(text, Not(HasSubstr("nvidia1")));
}

TEST(Exposition, DcgmNamesThatPromtoolRejectsAreOptional) {
  EXPECT_THAT(page(), Not(HasSubstr("modelName")));
  EXPECT_THAT(page(), Not(HasSubstr("_COUNTER")));
  EXPECT_THAT(page({true}), HasSubstr("DCGM_FI_DEV_PCIE_REPLAY_COUNTER{"));
  EXPECT_THAT(page({true}), HasSubstr("modelName=\"NVIDIA H200\"} 6144\n"));
}

TEST(Exposition, TritonMetricsHaveTritonNamesAndUnits) {
  EXPECT_THAT(page(), HasSubstr("nv_gpu_utilization{gpu_uuid=\"GPU-a\"} 0.85"));
}

TEST(Exposition, ALostGpuHasAStateAndNoValues) {
  const auto text = page();
  EXPECT_THAT(text, HasSubstr("name=\"Tesla \\\"P4\\\"?\",state=\"lost\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("state=\"healthy\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("sluice_gpu_temperature_celsius{uuid=\"GPU-b\"")));
  EXPECT_THAT(text, HasSubstr("sluice_gpu_sample_age_seconds{uuid=\"GPU-b\""));
}

TEST(Exposition, UnmeasuredValuesAreAbsent) {
  EXPECT_THAT(page(), Not(HasSubstr("sluice_gpu_power_watts")));
}

TEST(Exposition, ProcessMetricsHaveTheProcessName) {
  EXPECT_THAT(page(), HasSubstr("sluice_gpu_process_memory_bytes{uuid=\"GPU-a\",pid=\"4711\","
                                "process=\"py?thon\",user=\"ann\",kind=\"compute\"} 1073741824\n"));
}

TEST(Exposition, TheServersRequestsAreCounted) {
  const auto text = page();
  EXPECT_THAT(text,
              HasSubstr("sluice_http_requests_total{route=\"GET /health\",code=\"200\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("sluice_http_request_duration_seconds_bucket{le=\"0.001\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("sluice_http_request_duration_seconds_bucket{le=\"0.0025\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("sluice_http_request_duration_seconds_bucket{le=\"+Inf\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("sluice_build_info{version=\"1.2.3\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("sluice_sampler_calls_total 99\n"));
}

}  // namespace
}  // namespace sluice::serve
