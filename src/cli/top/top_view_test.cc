// The screens of `sluice top` as people see them.
#include "cli/top/top_view.h"

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <sstream>

namespace sluice::cli {
namespace {

using device::HealthState;
using device::Metric;
using testing::HasSubstr;
using testing::Not;

constexpr double kGib = 1024.0 * 1024 * 1024;
const Instant kNow = Instant(std::chrono::hours(1));

Instant ago(double seconds) {
  return kNow - std::chrono::duration_cast<Instant::duration>(Seconds(seconds));
}

watch::GpuView gpu(int number, double utilization) {
  watch::GpuView g;
  g.gpu.vendor = device::Vendor::nvidia;
  g.gpu.uuid = fmt::format("GPU-{}", number);
  g.gpu.bus = fmt::format("0000:0{}:00.0", number);
  g.gpu.name = "NVIDIA H200";
  const std::pair<Metric, double> values[] = {
      {Metric::utilization, utilization},
      {Metric::memory_used, 70 * kGib},
      {Metric::memory_total, 140 * kGib},
      {Metric::temperature, 54},
      {Metric::power, 512},
      {Metric::power_limit, 700},
      {Metric::sm_clock, 1980},
  };
  for (const auto& [metric, value] : values) g.readings.set(metric, value, ago(0.5));
  g.sampled_at = ago(0.5);
  return g;
}

watch::Snapshot machine(int gpus) {
  watch::Snapshot s;
  s.sequence = 1;
  s.at = kNow;
  s.cpu.usable_cores = 16;
  s.host.set(Metric::cpu_utilization, 25, ago(0.5));
  s.host.set(Metric::cpu_load, 3.5, ago(0.5));
  s.host.set(Metric::host_memory_used, 32 * kGib, ago(0.5));
  s.host.set(Metric::host_memory_total, 128 * kGib, ago(0.5));
  s.sampler.state = "running";
  s.sampler.pid = 77;
  s.sampler.core_share = 0.0003;
  s.sampler.driver_share = 0.0001;
  for (int i = 1; i <= gpus; ++i) s.gpus.push_back(gpu(i, 10.0 * i));
  return s;
}

void add_process(watch::GpuView& g, std::int64_t pid, std::string name, double gib, double share) {
  device::Process p;
  p.pid = pid;
  p.name = std::move(name);
  p.user = "ana";
  p.kind = "compute";
  p.memory = static_cast<std::uint64_t>(gib * kGib);
  p.utilization = share;
  g.readings.processes.push_back(p);
}

void lose(watch::GpuView& g, std::string cause, std::string fix) {
  g.health.state = HealthState::lost;
  g.health.cause = std::move(cause);
  g.health.fix = std::move(fix);
  g.health.since = ago(12);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string drawn(const watch::Snapshot& s, Frame frame = {80, 24, {false, true}},
                  const TopState& state = {}) {
  return render(s, state, frame, kNow);
}

// Everything but the title, whose clock is local time.
std::string below_title(const std::string& text) { return text.substr(text.find('\n') + 1); }

TEST(Top, OneGpuFitsASmallScreen) {
  auto s = machine(1);
  add_process(s.gpus[0], 4242, "python3", 60, 90);
  EXPECT_EQ(below_title(drawn(s, {80, 12, {false, true}})),
            "CPU ██░░░░░░  25 %  16 cores  load 3.50  mem ██░░░░░░ 32.0/128.0 GiB\n"
            "\n"
            "01:00.0  NVIDIA H200  healthy\n"
            "  util █░░░░░░░  10 %  mem ████░░░░  70.0/140.0 GiB  54 °C  512/700 W  1980 MHz\n"
            "\n"
            "     PID USER       GPU           MEMORY   UTIL  KIND     COMMAND\n"
            "    4242 ana        01:00.0     60.0 GiB   90 %  compute  python3\n"
            "\n"
            "\n"
            "sampler running · 0.030 % of a core, 0.010 % in the driver\n"
            " q quit   ↑↓ scroll   s sort: memory   p pause   ? help\n");
}

TEST(Top, EightGpusFitInEightyByTwentyFourOneLineEach) {
  const auto lines = lines_of(drawn(machine(8)));
  EXPECT_EQ(lines.size(), 24u);
  EXPECT_THAT(lines[0], HasSubstr("8 GPUs, all healthy"));
  EXPECT_EQ(lines[3],
            "BUS     GPU       UTIL          MEMORY GiB         TEMP  POWER W   MHz HEALTH");
  EXPECT_EQ(lines[11],
            "08:00.0 H200      █████▌░  80 % ██▌░░  70.0/140.0  54 C  512/700  1980 healthy");
}

TEST(Top, EveryLineFitsWhateverTheScreen) {
  auto s = machine(8);
  s.gpus[2].health.state = HealthState::lost;
  s.gpus[2].health.cause = std::string(300, 'x');
  for (auto& g : s.gpus) add_process(g, 1, std::string(200, 'p'), 1, 1);
  for (const int width : {20, 40, 80, 81, 120, 200})
    for (const int height : {1, 2, 5, 10, 24, 40, 60})
      for (const bool utf8 : {true, false}) {
        const auto lines = lines_of(drawn(s, {width, height, {true, utf8}}));
        ASSERT_EQ(lines.size(), static_cast<std::size_t>(height)) << width;
        for (const auto& line : lines) ASSERT_LE(columns(line), width) << line;
      }
}

TEST(Top, RowsThatDoNotFitAreCounted) {
  EXPECT_THAT(drawn(machine(9), {80, 12, {false, true}}), HasSubstr("more GPUs"));
  auto s = machine(1);
  for (int i = 0; i < 50; ++i) add_process(s.gpus[0], 100 + i, "p", 1, 1);
  EXPECT_THAT(drawn(s), HasSubstr("of 50"));
}

TEST(Top, ALostGpuLeadsWithItsCauseAndFix) {
  auto s = machine(2);
  lose(s.gpus[1], "fell off the bus (XID 79)", "reboot the machine");
  const auto text = drawn(s);
  EXPECT_THAT(text, HasSubstr("2 GPUs: 1 lost"));
  EXPECT_THAT(text, HasSubstr("02:00.0 lost for 12 s: fell off the bus (XID 79)"));
  EXPECT_THAT(text, HasSubstr("fix: reboot the machine"));
}

TEST(Top, AnAlertThatRepeatsTheHealthIsShownOnce) {
  auto s = machine(1);
  lose(s.gpus[0], "fell off the bus", "reboot");
  watch::Alert alert{};
  alert.severity = watch::Severity::critical;
  alert.summary = "H200 is lost";
  alert.cause = "fell off the bus";
  s.alerts.push_back(alert);
  alert.summary = "temperature 84 C";
  alert.cause = "hot";
  s.alerts.push_back(alert);
  const auto text = drawn(s);
  EXPECT_THAT(text, Not(HasSubstr("H200 is lost")));
  EXPECT_THAT(text, HasSubstr("temperature 84 C"));
}

TEST(Top, AnOldValueIsMarkedAndAMissingOneIsADash) {
  auto s = machine(1);
  s.gpus[0].readings.set(Metric::utilization, 55, ago(30));
  s.gpus[0].readings.clear(Metric::power);
  s.gpus[0].sampled_at = ago(30);
  const auto text = drawn(s);
  EXPECT_THAT(text, HasSubstr("~55 %"));
  EXPECT_THAT(text, HasSubstr(" -/700 W"));
  EXPECT_THAT(text, HasSubstr("no answer for 30 s"));
}

TEST(Top, ValuesOfALostGpuAreMarkedAsOld) {
  auto s = machine(1);
  lose(s.gpus[0], "hangs in nvmlDeviceGetPowerUsage", "see dmesg");
  const auto text = drawn(s);
  EXPECT_THAT(text, HasSubstr("~10 %"));
  EXPECT_THAT(text, HasSubstr("~512 W"));
}

TEST(Top, AStuckCounterIsNotShownAsLoad) {
  auto s = machine(1);
  s.gpus[0].readings.set(Metric::utilization, 100, ago(0.5));
  s.gpus[0].ghost_utilization = true;
  const auto text = drawn(s);
  EXPECT_THAT(text, HasSubstr("util ░░░░░░░░ stuck"));
}

TEST(Top, WithoutAGpuTheScreenShowsWhyAndTheCpu) {
  auto s = machine(0);
  s.notes = {"NVIDIA: libnvidia-ml.so.1 not found; no NVIDIA driver here"};
  s.sampler = {};
  s.sampler.state = "not needed: no NVIDIA driver";
  const auto text = drawn(s);
  EXPECT_THAT(text, HasSubstr("no GPU, working on the CPU"));
  EXPECT_THAT(text, HasSubstr("libnvidia-ml.so.1 not found"));
  EXPECT_THAT(text, HasSubstr("CPU ██░░"));
}

TEST(Top, AFailedDriverBesideAHealthyGpuIsShownFirst) {
  auto s = machine(1);
  EXPECT_THAT(lines_of(drawn(s))[0], HasSubstr("1 GPU, all healthy"));
  s.sampler.driver_trouble = "NVIDIA: driver and library versions differ";
  EXPECT_THAT(lines_of(drawn(s))[0], HasSubstr("1 GPU: the NVIDIA driver does not start"));
}

TEST(Top, AnAsciiTerminalGetsNoOtherCharacters) {
  auto s = machine(3);
  s.gpus[0].gpu.name = "Karte Nr. 1 für München";
  TopState state;
  for (int i = 0; i < 5; ++i) state.past["GPU-1"].push_back(20.0 * i);
  for (const char c : drawn(s, {120, 40, {false, false}}, state))
    EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << static_cast<int>(c);
}

TEST(Top, EscapeSequencesInProcessNamesAreNotPrinted) {
  auto s = machine(1);
  add_process(s.gpus[0], 300, "a\x1b[2J\u009b31m\nb", 1, 99);
  const auto text = drawn(s, {160, 24, {false, true}});
  EXPECT_THAT(text, HasSubstr("a\\x1b[2J\\xc2\\x9b31m\\x0ab"));
  EXPECT_EQ(text.find("\u009b"), text.npos);
}

TEST(Top, ProcessesSortByTheChosenColumn) {
  auto s = machine(1);
  add_process(s.gpus[0], 300, "small-busy", 1, 99);
  add_process(s.gpus[0], 200, "large-idle", 50, 1);
  TopState state;
  const auto order = [&](ProcessOrder by) {
    state.order = by;
    const auto text = drawn(s, {80, 24, {false, true}}, state);
    return text.find("large-idle") < text.find("small-busy") ? "large first" : "small first";
  };
  EXPECT_STREQ(order(ProcessOrder::memory), "large first");
  EXPECT_STREQ(order(ProcessOrder::utilization), "small first");
  EXPECT_STREQ(order(ProcessOrder::pid), "large first");
}

TEST(Top, AnUnboundedScreenPrintsEverythingWithoutKeys) {
  auto s = machine(8);
  for (int i = 0; i < 50; ++i) add_process(s.gpus[0], 100 + i, fmt::format("p{}", i), 1, 1);
  const auto text = drawn(s, {100, 0, {false, true}});
  EXPECT_THAT(text, HasSubstr("p49"));
  EXPECT_THAT(text, Not(HasSubstr("q quit")));
}

TEST(TopKeys, ArrowAndLetterKeysAreReadAndUnknownSequencesIgnored) {
  EXPECT_THAT(keys_of("\x1b[A\x1b[Bmq"),
              testing::ElementsAre(Key::up, Key::down, Key::by_memory, Key::quit));
  EXPECT_THAT(keys_of("\x1b[1;5D"), testing::IsEmpty());
  EXPECT_THAT(keys_of("x"), testing::ElementsAre(Key::other));
}

TEST(TopKeys, ScrollingStopsAtBothEnds) {
  auto s = machine(1);
  for (int i = 0; i < 5; ++i) add_process(s.gpus[0], 100 + i, "p", 1, 1);
  TopState state;
  EXPECT_TRUE(press(state, Key::up, 10));
  EXPECT_EQ(state.scroll, 0);
  for (int i = 0; i < 50; ++i) press(state, Key::page_down, 10);
  observe(state, s);
  EXPECT_EQ(state.scroll, 4);
  EXPECT_FALSE(press(state, Key::quit, 10));
}

TEST(TopPast, HistoryHasOneValueASecondAndAGapWhileLost) {
  auto s = machine(1);
  TopState state;
  observe(state, s);
  observe(state, s);  // the same moment again
  s.at += std::chrono::seconds(1);
  observe(state, s);
  s.at += std::chrono::seconds(10);  // the reading is old now
  observe(state, s);
  EXPECT_THAT(state.past["GPU-1"],
              testing::ElementsAre(testing::Optional(10.0), testing::Optional(10.0), std::nullopt));
}

}  // namespace
}  // namespace sluice::cli
