#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/line_buffer.h"
#include "device/demo/demo.h"
#include "device/sampler/sampler_cost.h"
#include "device/sampler/sampler_protocol.h"
#include "device/sampler/sampler_search.h"
#include "device/sampler/sampler_worker.h"

namespace sluice::device {
namespace {

using testing::ElementsAre;

constexpr Instant kStart{std::chrono::hours(1)};
Instant at(double s) { return kStart + std::chrono::duration_cast<Steady::duration>(Seconds(s)); }

// ---- protocol

TEST(SamplerProtocol, ASampleArrivesAsItWasSent) {
  Sample sent{
      "GPU-1", at(1.5), {{Metric::utilization, 87}, {Metric::energy, 0.1}}, {Metric::fan}, {}};
  sent.processes = {{4711, "tra\"in", "ann", "compute", 1ull << 33, 80.5, {}}};
  const auto line = encode(sent);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto got = std::get<Sample>(decode(line));
  EXPECT_EQ(got.gpu, "GPU-1");
  EXPECT_EQ(got.at, sent.at);
  EXPECT_EQ(got.values, sent.values);
  EXPECT_EQ(got.absent, sent.absent);
  ASSERT_TRUE(got.processes);
  EXPECT_EQ(got.processes->at(0).name, "tra\"in");
  EXPECT_EQ(got.processes->at(0).memory, 1ull << 33);
  EXPECT_EQ(got.processes->at(0).utilization, 80.5);
  EXPECT_EQ(got.processes->at(0).memory_activity, std::nullopt);
}

TEST(SamplerProtocol, AValueThatIsNotANumberIsLeftOut) {
  const Sample sent{"GPU-1", at(0), {{Metric::power, NAN}, {Metric::fan, INFINITY}}, {}, {}};
  EXPECT_TRUE(std::get<Sample>(decode(encode(sent))).values.empty());
}

TEST(SamplerProtocol, EveryOtherMessageArrivesToo) {
  const auto beat = std::get<Beat>(decode(encode(
      Beat{at(2), {{"GPU-1", "nvmlDeviceGetPowerUsage", at(1)}}, {0.001, 0.002, 1.5, 10, 1}})));
  EXPECT_EQ(beat.at, at(2));
  ASSERT_EQ(beat.busy.size(), 1U);
  EXPECT_EQ(beat.busy[0].call, "nvmlDeviceGetPowerUsage");
  EXPECT_EQ(beat.busy[0].since, at(1));
  EXPECT_EQ(beat.cost.interval_scale, 1.5);
  EXPECT_EQ(beat.cost.calls, 10U);

  const auto trouble = std::get<Trouble>(decode(encode(Trouble{"GPU-1", at(3), "lost", true})));
  EXPECT_TRUE(trouble.gone);
  EXPECT_EQ(trouble.why, "lost");

  const auto xid = std::get<XidSeen>(decode(encode(XidSeen{"GPU-1", {79, at(4), WallTime{}}})));
  EXPECT_EQ(xid.xid.code, 79U);
  EXPECT_EQ(xid.xid.at, at(4));

  const auto end = std::get<End>(decode(encode(End{"no driver", true})));
  EXPECT_EQ(end.why, "no driver");
  EXPECT_TRUE(end.fault);

  Gpu gpu{};
  gpu.vendor = Vendor::nvidia;
  gpu.uuid = "GPU-1";
  gpu.bus = "0000:04:00.0";
  gpu.memory_total = 1ull << 37;
  const auto found = std::get<Found>(decode(encode(Found{{gpu}, {"AMD: none"}, "down"})));
  EXPECT_EQ(found.driver_trouble, "down");
  EXPECT_EQ(std::get<Found>(decode(encode(Found{}))).driver_trouble, "");
  EXPECT_TRUE(found.has_all);
  EXPECT_FALSE(std::get<Found>(decode(encode(Found{{}, {}, "", false}))).has_all);
  ASSERT_EQ(found.gpus.size(), 1U);
  EXPECT_EQ(found.gpus[0].bus, "0000:04:00.0");
  EXPECT_EQ(found.gpus[0].memory_total, 1ull << 37);
  EXPECT_THAT(found.notes, ElementsAre("AMD: none"));

  const auto intervals =
      std::get<SamplingIntervals>(decode_order(encode(SamplingIntervals{0.5, 2, 7, 0.01})));
  EXPECT_EQ(intervals.interval_s, 0.5);
  EXPECT_EQ(intervals.process_interval_s, 7);

  const Follow follow{{{"GPU-1", 3}, {"GPU-\"2", 1ull << 60}}};
  EXPECT_EQ(std::get<Follow>(decode_order(encode(follow))), follow);
}

TEST(SamplerProtocol, NonsenseIsRefused) {
  for (const auto* line : {"", "{", "[]", "{}", R"({"is":"cake"})", R"({"is":"beat"})"})
    EXPECT_THROW(decode(line), Error) << line;
  for (const auto* line : {"", "[]", R"({"is":"beat"})", R"({"is":"intervals"})",
                           R"({"is":"follow"})", R"({"is":"follow","gpus":{"a":"b"}})"})
    EXPECT_THROW(decode_order(line), Error) << line;
}

TEST(SamplerProtocol, LinesAreFoundHoweverTheBytesArrive) {
  LineBuffer buffer;
  buffer.add("one\ntw");
  EXPECT_EQ(buffer.next(), "one");
  EXPECT_EQ(buffer.next(), std::nullopt);
  buffer.add("o\n\n");
  EXPECT_EQ(buffer.next(), "two");
  EXPECT_EQ(buffer.next(), "");
  EXPECT_EQ(buffer.next(), std::nullopt);
}

// ---- cost

TEST(SamplerCost, IntervalsGrowUntilTheBudgetHoldsAndShrinkAgain) {
  // A driver whose calls cost 4 ms a second at the normal intervals.
  const double budget = 0.001;
  double interval_scale = 1;
  for (int i = 0; i < 10; ++i)
    interval_scale = next_interval_scale(interval_scale, 0.004 / interval_scale, budget);
  EXPECT_NEAR(0.004 / interval_scale, budget, budget * 0.25);
  EXPECT_LE(0.004 / interval_scale, budget * 1.0001);
  for (int i = 0; i < 30; ++i)
    interval_scale = next_interval_scale(interval_scale, 0.0001 / interval_scale, budget);
  EXPECT_EQ(interval_scale, 1);
}

TEST(SamplerCost, TheIntervalScaleStaysWithinBoundsAndDoesNotOscillate) {
  EXPECT_EQ(next_interval_scale(1, 100, 0.001), 4);
  EXPECT_EQ(next_interval_scale(20, 100, 0.001), kMaxIntervalScale);
  EXPECT_EQ(next_interval_scale(1, 0, 0.001), 1);
  EXPECT_EQ(next_interval_scale(3, 0.0009, 0.001), 3);  // close to the budget: leave it
  EXPECT_DOUBLE_EQ(next_interval_scale(10, 0, 0.001), 8);
}

TEST(SamplerCost, SharesAreOverTheLastMinute) {
  CostMeter meter;
  meter.add(at(0), {5, 2}, 1, 1e9);  // what came before the first call does not count
  meter.add(at(10), {5.1, 2.02}, 1, 1e9);
  EXPECT_NEAR(meter.core_share(), 0.01, 1e-9);
  EXPECT_NEAR(meter.driver_share(), 0.002, 1e-9);
  for (int i = 2; i <= 20; ++i) meter.add(at(i * 10), {5.1, 2.02}, 1, 1e9);
  EXPECT_EQ(meter.core_share(), 0);
}

TEST(SamplerCost, EarlyListsAreReportedButDoNotScaleTheIntervals) {
  CostMeter meter;
  meter.add(at(0), {}, 0.001, 5);
  meter.add(at(10), {0.05, 0.04, 0.049, 0.039}, 0.001, 5);
  EXPECT_NEAR(meter.core_share(), 0.005, 1e-9);
  EXPECT_NEAR(meter.driver_share(), 0.004, 1e-9);
  EXPECT_EQ(meter.interval_scale(), 1);
  meter.add(at(20), {0.1, 0.04, 0.049, 0.039}, 0.001, 5);  // all of it at the usual intervals
  EXPECT_GT(meter.interval_scale(), 1);
}

TEST(SamplerCost, TheWatchNamesTheCallThatHasNotReturned) {
  CallWatch watch;
  EXPECT_FALSE(watch.now());
  watch.before("nvmlInit_v2");
  ASSERT_TRUE(watch.now());
  EXPECT_STREQ(watch.now()->function, "nvmlInit_v2");
  watch.after("nvmlInit_v2", nvml::Return::success, std::chrono::seconds(50));
  EXPECT_FALSE(watch.now());
  EXPECT_EQ(watch.driver_s(), 0.1);  // a hang is not a cost
  watch.before("x");
  watch.after("x", nvml::Return::not_supported, {});
  watch.before("x");
  watch.after("x", nvml::Return::unknown, {});
  EXPECT_EQ(watch.calls(), 3U);
  EXPECT_EQ(watch.errors(), 1U);
}

// ---- search

// The lists that the search sent, up to the first complete one.
std::vector<Found> lists_until_all(Search& search, int fd) {
  std::vector<Found> all;
  LineBuffer lines;
  const auto timeout = Steady::now() + std::chrono::seconds(10);
  while ((all.empty() || !all.back().has_all) && Steady::now() < timeout) {
    char bytes[4096];
    const auto n = recv(fd, bytes, sizeof bytes, 0);
    if (n <= 0) break;
    lines.add({bytes, static_cast<std::size_t>(n)});
    while (const auto line = lines.next()) {
      auto message = decode(*line);
      if (auto* found = std::get_if<Found>(&message)) all.push_back(std::move(*found));
      if (!all.empty() && all.back().has_all) break;
    }
  }
  for (const auto& worker : search.workers()) worker->stop();
  return all;
}

TEST(Search, NoListClaimsToHaveAllGpusBeforeItHasThem) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  {
    MessageWriter out(ends[1]);
    SamplerOptions options;
    options.demo = "eight-gpus";
    Search search(options, out);
    ASSERT_TRUE(search.open());
    const auto lists = lists_until_all(search, ends[0]);
    ASSERT_FALSE(lists.empty());
    EXPECT_TRUE(lists.back().has_all);
    EXPECT_EQ(lists.back().gpus.size(), 8U);
    EXPECT_TRUE(search.has_sent_all());
    shutdown(ends[0], SHUT_RDWR);  // nobody reads what the workers still say
  }
  close(ends[0]);
  close(ends[1]);
}

TEST(Search, ALostGpuIsNoLongerAmongTheGoodHandles) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  {
    MessageWriter out(ends[1]);
    SamplerOptions options;
    options.demo = "gpu-falls-off";
    Search search(options, out);
    ASSERT_TRUE(search.open());
    const auto all = search.handles().size();
    const auto generation = search.generation();
    freeze_demo(*search.nvml(), 6);
    for (const auto& worker : search.workers()) worker->sample_now();
    const auto timeout = Steady::now() + std::chrono::seconds(10);
    while (!search.any_missing() && Steady::now() < timeout)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(search.handles().size(), all - 1);
    EXPECT_GT(search.generation(), generation);  // so that events are listened for anew
    for (const auto& worker : search.workers()) worker->stop();
  }
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace sluice::device
