// The NVML wrapper against our fake library, one scenario after another. The
// scenario's clock is stopped, so nothing here waits.
#include "device/nvml/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

#include "base/error.h"
#include "device/demo/demo.h"

namespace sluice::device {
namespace {

using nvml::Return;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

std::unique_ptr<Nvml> demo_at(const std::string& name, double t_s) {
  auto nvml = open_demo(name);
  freeze_demo(*nvml, t_s);
  return nvml;
}

nvml::Device gpu(const Nvml& nvml, unsigned index) {
  const auto device = nvml.by_index(index);
  EXPECT_TRUE(device) << nvml::describe(device.code);
  return device.value;
}

std::string thrown_by(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::unavailable);
    return e.what();
  }
  return "nothing was thrown";
}

TEST(Nvml, SaysWhatToDoWhenThereIsNoLibrary) {
  EXPECT_THAT(thrown_by([] { Nvml::open("/nowhere/libnvidia-ml.so.1"); }),
              HasSubstr("/nowhere/libnvidia-ml.so.1"));
}

TEST(Nvml, SaysWhatToDoAfterADriverUpgrade) {
  const std::string text = thrown_by([] { open_demo("driver-mismatch"); });
  EXPECT_THAT(text, HasSubstr("reload the nvidia modules"));
  EXPECT_THAT(text, HasSubstr("reboot"));
}

TEST(Nvml, FindsTheSameDeviceByIndexUuidAndBus) {
  const auto nvml = demo_at("eight-gpus", 10);
  ASSERT_EQ(nvml->count().value, 8u);
  std::set<std::string> buses;
  for (unsigned i = 0; i < 8; ++i) {
    const auto device = gpu(*nvml, i);
    const std::string uuid = nvml->uuid(device).value, bus = nvml->bus(device).value;
    EXPECT_EQ(nvml->by_uuid(uuid).value, device);
    EXPECT_EQ(nvml->by_bus(bus).value, device);
    EXPECT_TRUE(buses.insert(bus).second);
  }
  EXPECT_EQ(nvml->by_uuid("GPU-nobody").code, Return::not_found);
  EXPECT_EQ(nvml->by_index(8).code, Return::invalid_argument);
}

TEST(Nvml, DescribesAnH200) {
  const auto nvml = demo_at("eight-gpus", 10);
  const auto d = gpu(*nvml, 0);
  EXPECT_EQ(nvml->name(d).value, "NVIDIA H200");
  EXPECT_EQ(nvml->bus(d).value, "0000:04:00.0");
  EXPECT_EQ(nvml->sm_count(d).value, 132u);
  EXPECT_EQ(nvml->compute_capability(d).value, std::pair(9, 0));
  EXPECT_EQ(nvml->cuda_version().value, std::pair(13, 0));
  EXPECT_EQ(nvml->driver_version().value, "580.95.05");
  EXPECT_EQ(nvml->numa_node(gpu(*nvml, 7)).value, 1);
  EXPECT_EQ(nvml->max_clock_mhz(d, nvml::Clock::sm).value, 1980u);
  EXPECT_DOUBLE_EQ(nvml->default_power_limit_w(d).value, 700);
  EXPECT_TRUE(nvml->nvlink_active(d, 17).value);
  EXPECT_EQ(nvml->nvlink_active(d, 18).code, Return::invalid_argument);
  EXPECT_EQ(nvml->nvlink_version(d, 0).value, 4u);
}

TEST(Nvml, ReadsABusyDeviceConsistently) {
  const auto nvml = demo_at("eight-gpus", 10);
  const auto d = gpu(*nvml, 0);
  const auto memory = nvml->memory(d).value;
  EXPECT_EQ(memory.used + memory.free + *memory.reserved, memory.total);
  EXPECT_NEAR(static_cast<double>(memory.used), 118.0 * (1u << 30), 1 << 26);
  EXPECT_GE(nvml->utilization(d).value.gpu, 94u);
  EXPECT_GT(nvml->power_w(d).value, 500);
  EXPECT_LE(nvml->power_w(d).value, nvml->enforced_power_limit_w(d).value);
  EXPECT_GT(nvml->temperature(d).value, 60);
  EXPECT_DOUBLE_EQ(nvml->temperature_margin(d).value + nvml->temperature(d).value, 90);
  EXPECT_GT(nvml->memory_temperature(d).value, nvml->temperature(d).value);
  EXPECT_EQ(nvml->fan(d).code, Return::not_supported);
  EXPECT_EQ(nvml->throttle_reasons(d).value & nvml::throttle::kIdle, 0u);
  EXPECT_EQ(nvml->recovery_action(d).value, 0);
}

TEST(Nvml, CountsEnergyAndLinkTrafficUpwards) {
  const auto nvml = demo_at("eight-gpus", 10);
  const auto d = gpu(*nvml, 0);
  const double energy = nvml->energy_j(d).value;
  const auto sent = nvml->nvlink_tx_bytes(d).value;
  EXPECT_NEAR(energy, 10 * nvml->power_w(d).value, 0.1 * energy);
  freeze_demo(*nvml, 20);
  EXPECT_NEAR(nvml->energy_j(d).value, 2 * energy, 0.1 * energy);
  EXPECT_GT(nvml->nvlink_tx_bytes(d).value, sent);
}

TEST(Nvml, ListsProcessesWithKindMemoryAndName) {
  const auto nvml = demo_at("mixed-cards", 10);
  const auto all = nvml->processes(gpu(*nvml, 1));
  ASSERT_TRUE(all);
  ASSERT_EQ(all.value.size(), 2u);
  EXPECT_EQ(all.value[0].pid, 5202);
  EXPECT_EQ(all.value[0].kind, ProcessKind::compute);
  EXPECT_NEAR(static_cast<double>(*all.value[0].memory), 5.1 * (1u << 30), 1 << 20);
  EXPECT_EQ(all.value[1].kind, ProcessKind::graphics);
  EXPECT_EQ(nvml->process_name(5202).value, "/usr/bin/analyst");
  EXPECT_FALSE(nvml->process_name(1));
}

TEST(Nvml, GivesEachProcessSampleOnce) {
  const auto nvml = demo_at("eight-gpus", 10);
  const auto d = gpu(*nvml, 0);
  const auto first = nvml->process_utilization(d, 0);
  ASSERT_EQ(first.value.size(), 1u);
  EXPECT_GE(first.value[0].sm, 94u);
  const auto again = nvml->process_utilization(d, first.value[0].timestamp_us);
  EXPECT_TRUE(again);
  EXPECT_TRUE(again.value.empty());
}

TEST(Nvml, ReadsTheProcessLayoutOf535AndOldStructVersions) {
  const auto nvml = demo_at("version-errors", 10);
  const auto d = gpu(*nvml, 0);
  const auto all = nvml->processes(d);
  ASSERT_EQ(all.value.size(), 2u);
  EXPECT_EQ(all.value[1].pid, 7502);
  EXPECT_NEAR(static_cast<double>(*all.value[1].memory), 6.0 * (1u << 30), 1 << 20);
  const auto memory = nvml->memory(d);
  ASSERT_TRUE(memory) << nvml::describe(memory.code);
  EXPECT_FALSE(memory.value.reserved);
  EXPECT_EQ(memory.value.used + memory.value.free, memory.value.total);
  EXPECT_GT(nvml->temperature(d).value, 30);
  EXPECT_DOUBLE_EQ(nvml->temperature_margin(d).value + nvml->temperature(d).value, 90);
}

TEST(Nvml, CallsAnOldDriverThroughItsOldFunctions) {
  const auto nvml = demo_at("old-driver", 10);
  const auto d = gpu(*nvml, 0);
  EXPECT_TRUE(nvml->memory(d));
  EXPECT_TRUE(nvml->temperature(d));
  EXPECT_TRUE(nvml->throttle_reasons(d));
  EXPECT_EQ(nvml->sm_count(d).code, Return::function_not_found);
  EXPECT_EQ(nvml->processes(d).value.size(), 1u);
  EXPECT_EQ(nvml->compute_capability(gpu(*nvml, 1)).value, std::pair(5, 2));
}

TEST(Nvml, ReportsALostGpuAndFindsItAgain) {
  const auto nvml = demo_at("gpu-falls-off", 4);
  const auto d = gpu(*nvml, 1);
  const std::string uuid = nvml->uuid(d).value;
  EXPECT_EQ(demo_canary(*nvml, uuid), true);
  freeze_demo(*nvml, 6);
  EXPECT_EQ(nvml->count().value, 2u);
  EXPECT_EQ(nvml->utilization(d).code, Return::gpu_is_lost);
  EXPECT_EQ(nvml->processes(d).code, Return::gpu_is_lost);
  EXPECT_EQ(nvml->temperature(d).code, Return::gpu_is_lost);
  EXPECT_EQ(nvml->recovery_action(d).code, Return::gpu_is_lost);
  EXPECT_EQ(nvml->by_uuid(uuid).code, Return::gpu_is_lost);
  EXPECT_EQ(demo_canary(*nvml, uuid), false);
  EXPECT_TRUE(nvml->utilization(gpu(*nvml, 0)));
  freeze_demo(*nvml, 10);
  EXPECT_EQ(nvml->count().value, 1u);
  EXPECT_EQ(nvml->by_uuid(uuid).code, Return::not_found);
  freeze_demo(*nvml, 16);
  EXPECT_TRUE(nvml->utilization(nvml->by_uuid(uuid).value));
  EXPECT_EQ(demo_canary(*nvml, uuid), true);
  freeze_demo(*nvml, 66);
  EXPECT_EQ(nvml->utilization(d).code, Return::gpu_is_lost);
}

TEST(Nvml, DeliversEachXidOnceFromTheMomentOfRegistration) {
  const auto nvml = demo_at("xid-storm", 4.25);
  auto events = nvml->event_set();
  ASSERT_TRUE(events);
  const auto d = gpu(*nvml, 1);
  EXPECT_EQ(events.value.add(d, nvml::event::kXid | nvml::event::kGpuUnavailable).value,
            nvml::event::kXid);
  EXPECT_EQ(events.value.wait(0).code, Return::timeout);
  freeze_demo(*nvml, 5.75);
  for (int i = 0; i < 3; ++i) {  // at 4.5, 5.0 and 5.5
    const auto event = events.value.wait(0);
    ASSERT_TRUE(event);
    EXPECT_EQ(event.value.device, d);
    EXPECT_EQ(event.value.data, 31u);
  }
  EXPECT_EQ(events.value.wait(0).code, Return::timeout);
  freeze_demo(*nvml, 26);
  std::uint64_t last = 0;
  while (const auto event = events.value.wait(0)) last = event.value.data;
  EXPECT_EQ(last, 94u);
  EXPECT_EQ(nvml->recovery_action(d).value, 4);
}

TEST(Nvml, WaitsForAnEventThatIsStillToCome) {
  const std::string path = testing::TempDir() + "sluice_soon.json";
  std::filesystem::remove(path);
  {
    std::FILE* file = std::fopen(path.c_str(), "w");
    std::fputs(
        R"({"gpus": [{"card": "t4", "events": [{"type": "xid", "code": 48, "at_s": 0.1}]}]})",
        file);
    std::fclose(file);
  }
  const auto nvml = open_demo(path);
  auto events = nvml->event_set();
  events.value.add(gpu(*nvml, 0), nvml::event::kXid);
  const auto event = events.value.wait(5000);
  ASSERT_TRUE(event) << nvml::describe(event.code);
  EXPECT_EQ(event.value.data, 48u);
}

TEST(Nvml, CountsEccErrorsRowsAndPages) {
  const auto nvml = demo_at("ecc-errors", 9);
  using nvml::EccCounter;
  using nvml::EccError;
  const auto d = gpu(*nvml, 0), old = gpu(*nvml, 1);
  EXPECT_EQ(nvml->ecc_errors(d, EccError::corrected, EccCounter::volatile_count).value, 12u);
  EXPECT_EQ(nvml->ecc_errors(d, EccError::corrected, EccCounter::aggregate).value, 24u);
  EXPECT_EQ(nvml->ecc_errors(d, EccError::uncorrected, EccCounter::volatile_count).value, 0u);
  EXPECT_FALSE(nvml->remapped_rows(d).value.pending);
  freeze_demo(*nvml, 41);
  EXPECT_EQ(nvml->ecc_errors(d, EccError::uncorrected, EccCounter::volatile_count).value, 1u);
  EXPECT_TRUE(nvml->remapped_rows(d).value.pending);
  EXPECT_TRUE(nvml->remapped_rows(d).value.failed);
  EXPECT_EQ(nvml->retired_pages(d).code, Return::not_supported);
  EXPECT_EQ(nvml->remapped_rows(old).code, Return::not_supported);
  EXPECT_EQ(nvml->retired_pages(old).value, 3u);
}

TEST(Nvml, DistinguishesThermalPowerAndOrdinaryLimits) {
  const auto nvml = demo_at("throttling", 12);
  using namespace nvml::throttle;
  EXPECT_EQ(nvml->throttle_reasons(gpu(*nvml, 0)).value, kSwThermal | kHwThermal | kHwSlowdown);
  EXPECT_EQ(nvml->throttle_reasons(gpu(*nvml, 1)).value, kPowerBrake | kHwSlowdown);
  EXPECT_EQ(nvml->throttle_reasons(gpu(*nvml, 2)).value, kPowerCap);
  EXPECT_LT(nvml->temperature_margin(gpu(*nvml, 0)).value, 0);
  EXPECT_LT(nvml->clock_mhz(gpu(*nvml, 0), nvml::Clock::sm).value, 1000u);
}

TEST(Nvml, ReadsGhostUtilizationAsHundredPercentWithoutProcesses) {
  const auto nvml = demo_at("ghost-load", 10);
  const auto d = gpu(*nvml, 0);
  EXPECT_EQ(nvml->utilization(d).value.gpu, 100u);
  EXPECT_TRUE(nvml->processes(d));
  EXPECT_TRUE(nvml->processes(d).value.empty());
  EXPECT_LT(nvml->memory(d).value.used, 16u << 20);
  EXPECT_LT(nvml->power_w(d).value, 200);
  EXPECT_EQ(nvml->processes(gpu(*nvml, 1)).value.size(), 1u);
}

TEST(Nvml, HasNoUtilizationInMigModeAndNoMemoryOnAJetson) {
  const auto nvml = demo_at("mixed-cards", 10);
  EXPECT_EQ(nvml->mig_instances(gpu(*nvml, 4)).value, 3u);
  EXPECT_EQ(nvml->utilization(gpu(*nvml, 4)).code, Return::not_supported);
  EXPECT_EQ(nvml->memory(gpu(*nvml, 7)).code, Return::not_supported);
  auto events = nvml->event_set();
  EXPECT_EQ(events.value.add(gpu(*nvml, 7), nvml::event::kXid).code, Return::not_supported);
}

TEST(Nvml, ChangesSettingsWithinTheirRangeAndReadsThemBack) {
  const auto nvml = demo_at("eight-gpus", 10);
  const auto d = gpu(*nvml, 0);
  EXPECT_EQ(nvml->set_power_limit_w(d, 400), Return::success);
  EXPECT_DOUBLE_EQ(nvml->power_limit_w(d).value, 400);
  EXPECT_LE(nvml->power_w(d).value, 400);
  EXPECT_NE(nvml->throttle_reasons(d).value & nvml::throttle::kPowerCap, 0u);
  EXPECT_EQ(nvml->set_power_limit_w(d, 2000), Return::invalid_argument);
  EXPECT_EQ(nvml->set_persistence(d, false), Return::success);
  EXPECT_FALSE(nvml->persistence(d).value);
  EXPECT_EQ(nvml->set_application_clocks(d, 3201, 1200), Return::success);
  EXPECT_EQ(nvml->application_clock_mhz(d, nvml::Clock::sm).value, 1200u);
  EXPECT_EQ(nvml->set_application_clocks(d, 3201, 1201), Return::invalid_argument);
  EXPECT_EQ(nvml->reset_application_clocks(d), Return::success);
  EXPECT_EQ(nvml->lock_sm_clock(d, 900, 990), Return::success);
  EXPECT_EQ(nvml->clock_mhz(d, nvml::Clock::sm).value, 990u);
  EXPECT_EQ(nvml->unlock_sm_clock(d), Return::success);
  EXPECT_GT(nvml->clock_mhz(d, nvml::Clock::sm).value, 990u);
  EXPECT_EQ(nvml->supported_sm_clocks(d, 3201).value.front(), 1980u);
  EXPECT_EQ(nvml->supported_memory_clocks(d).value.front(), 3201u);
}

TEST(Nvml, RefusesChangesWithoutPermission) {
  const auto nvml = demo_at("no-permission", 10);
  const auto d = gpu(*nvml, 0);
  EXPECT_EQ(nvml->set_power_limit_w(d, 60), Return::no_permission);
  EXPECT_EQ(nvml->set_persistence(d, true), Return::no_permission);
  EXPECT_EQ(nvml->lock_sm_clock(d, 500, 600), Return::no_permission);
  EXPECT_FALSE(nvml->persistence(d).value);
}

class Recorder : public CallObserver {
 public:
  void before(const char* function) noexcept override { now = function; }
  void after(const char* function, Return code, Steady::duration took) noexcept override {
    EXPECT_EQ(now, function);
    EXPECT_GE(took.count(), 0);
    now.clear();
    calls.emplace_back(function);
    last = code;
  }
  std::string now;
  std::vector<std::string> calls;
  Return last = Return::unknown;
};

TEST(Nvml, ShowsEveryCallOfTheObservingThreadOnly) {
  const auto nvml = demo_at("eight-gpus", 10);
  const auto d = gpu(*nvml, 0);
  Recorder recorder;
  {
    const CallScope scope(recorder);
    nvml->fan(d);
    std::thread([&] { nvml->power_w(d); }).join();
  }
  nvml->power_w(d);
  EXPECT_THAT(recorder.calls, UnorderedElementsAre("nvmlDeviceGetFanSpeed"));
  EXPECT_EQ(recorder.last, Return::not_supported);
}

TEST(NvmlProcesses, ReadsPlainAndWideEntriesAndDropsNonsense) {
  const nvml::ProcessInfo a{100, 5u << 20, ~0u, ~0u}, b{200, nvml::kNotAvailable, 1, 0};
  const nvml::ProcessInfo wrong{0xfffffff0, ~0ull - 7, 12345678, 5};
  const auto parse = [](const auto& entries, std::size_t count) {
    std::vector<std::byte> bytes(count * 32);
    std::memcpy(bytes.data(), &entries, sizeof entries);
    std::vector<std::uint32_t> pids;
    for (const auto& p : nvml::parse_processes(bytes, count)) pids.push_back(p.pid);
    return pids;
  };
  using testing::ElementsAre;
  EXPECT_THAT(parse(std::array{a, b}, 2), ElementsAre(100, 200));
  EXPECT_THAT(parse(std::array{nvml::ProcessInfo535{a, 0}, nvml::ProcessInfo535{b, 4096}}, 2),
              ElementsAre(100, 200));
  EXPECT_THAT(parse(std::array{a, wrong, b}, 3), ElementsAre(100, 200));
  EXPECT_TRUE(nvml::parse_processes({}, 5).empty());
}

TEST(NvmlText, NormalizesBusIds) {
  EXPECT_EQ(nvml::normalize_bus("00000000:0A:00.0"), "0000:0a:00.0");
  EXPECT_EQ(nvml::normalize_bus("0000:04:00.0"), "0000:04:00.0");
  EXPECT_EQ(nvml::normalize_bus("00010000:04:00.0"), "00010000:04:00.0");
}

TEST(NvmlText, DescribesEveryCode) {
  EXPECT_STREQ(nvml::describe(Return::gpu_is_lost), "the GPU is lost");
  EXPECT_STREQ(nvml::describe(static_cast<Return>(77)), "unknown error");
}

}  // namespace
}  // namespace sluice::device
