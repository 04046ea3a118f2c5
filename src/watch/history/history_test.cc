#include "watch/history/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "base/error.h"
#include "watch/history/history_for_tests.h"
#include "watch/history/history_row.h"

namespace sluice::watch {
namespace {

using device::Metric;
using testing::ElementsAre;
using testing::HasSubstr;

const HistoryOptions kInMemory{.path = "", .flush_s = 3600};

Json power(const Json& answer) { return answer["metrics"]["power"]; }

TEST(History, AValueIsAvailableAtOnceWithMinimumMeanAndMaximum) {
  History history(kInMemory);
  Feeder feed(history);
  for (const double v : {100, 300, 200}) feed.put("GPU-1", Metric::power, kEpoch + 0.2, v);
  const auto answer =
      history.query(ask("GPU-1", "power", kEpoch, kEpoch + 10), wall_at(kEpoch + 10));
  EXPECT_EQ(answer["device"], "GPU-1");
  EXPECT_EQ(answer["step_s"], 1);
  EXPECT_EQ(power(answer), Json::parse(R"({"unit": "watts", "t": [1794711600000], "mean": [200.0],
                                           "min": [100.0], "max": [300.0]})"));
}

TEST(History, WaitingAndStoredValuesOfOneStepAreOne) {
  History history(kInMemory);
  Feeder feed(history);
  feed.put("GPU-1", Metric::power, kEpoch, 100);
  ASSERT_TRUE(history.flush());
  feed.put("GPU-1", Metric::power, kEpoch + 0.5, 200);
  ASSERT_TRUE(history.flush());
  feed.put("GPU-1", Metric::power, kEpoch + 0.9, 600);
  const auto answer = history.query(ask("GPU-1", "power", kEpoch, kEpoch), wall_at(kEpoch));
  EXPECT_THAT(power(answer)["mean"], ElementsAre(300.0));
  EXPECT_THAT(power(answer)["max"], ElementsAre(600.0));
}

TEST(History, TheSameReadingsGivenTwiceCountOnce) {
  History history(kInMemory);
  device::Readings readings;
  const Instant t = Steady::now();
  readings.set(Metric::power, 100, t);
  history.add("GPU-1", readings, t, wall_at(kEpoch));
  history.add("GPU-1", readings, t + std::chrono::seconds(5), wall_at(kEpoch + 5));
  EXPECT_EQ(history.stats().samples, 1u);
}

TEST(History, AValueIsFiledUnderTheTimeItWasTakenNotTheTimeItArrived) {
  History history(kInMemory);
  device::Readings readings;
  const Instant t = Steady::now();
  readings.set(Metric::power, 100, t - std::chrono::seconds(3));
  history.add("GPU-1", readings, t, wall_at(kEpoch + 10));
  const auto answer =
      history.query(ask("GPU-1", "power", kEpoch, kEpoch + 10), wall_at(kEpoch + 10));
  EXPECT_THAT(power(answer)["t"], ElementsAre((kEpoch + 7) * 1000));
}

TEST(History, WhatIsNotANumberIsLeftOut) {
  History history(kInMemory);
  Feeder feed(history);
  feed.put("GPU-1", Metric::power, kEpoch, std::nan(""));
  feed.put("GPU-1", Metric::power, kEpoch, HUGE_VAL);
  feed.put("GPU-1", Metric::power, kEpoch, 7);
  const auto answer = history.query(ask("GPU-1", "power", kEpoch, kEpoch), wall_at(kEpoch));
  EXPECT_THAT(power(answer)["max"], ElementsAre(7.0));
}

TEST(History, AnOutageShowsAsAGapAndASlowMetricDoesNot) {
  History history(kInMemory);
  Feeder feed(history);
  for (int s = 0; s < 300; s += 5)
    if (s < 100 || s >= 200) feed.put("GPU-1", Metric::power, kEpoch + s, 50);
  const auto answer =
      power(history.query(ask("GPU-1", "power", kEpoch, kEpoch + 300), wall_at(kEpoch + 300)));
  int gaps = 0;
  for (std::size_t i = 0; i < answer["t"].size(); ++i) {
    if (!answer["mean"][i].is_null()) continue;
    ++gaps;
    EXPECT_EQ(answer["t"][i], (kEpoch + 96) * 1000);
    EXPECT_TRUE(answer["min"][i].is_null());
    EXPECT_TRUE(answer["max"][i].is_null());
  }
  EXPECT_EQ(gaps, 1);
}

TEST(History, OldTimesAreAnsweredFromTheStepThatStillHasThem) {
  History history(kInMemory);
  Feeder feed(history);
  for (int s = 0; s < 600; ++s) feed.put("GPU-1", Metric::power, kEpoch + s, s);
  const auto step = [&](std::int64_t age) {
    return history.query(ask("GPU-1", "power", kEpoch, kEpoch + 599, 1000), wall_at(kEpoch + age));
  };
  EXPECT_EQ(step(600)["step_s"], 1);
  EXPECT_EQ(step(7200)["step_s"], 10);
  EXPECT_EQ(step(5 * 86400)["step_s"], 300);
  EXPECT_THAT(power(step(5 * 86400))["max"], ElementsAre(299.0, 599.0));
}

TEST(History, NoMetricNamedMeansAllThatHaveValues) {
  History history(kInMemory);
  Feeder feed(history);
  feed.put("GPU-1", Metric::power, kEpoch, 1);
  feed.put("GPU-1", Metric::fan, kEpoch, 2);
  const auto answer =
      history.query({"GPU-1", {}, kEpoch * 1000, kEpoch * 1000, 10}, wall_at(kEpoch));
  EXPECT_EQ(answer["metrics"].size(), 2u);
  const auto named = history.query(ask("GPU-1", "energy", kEpoch, kEpoch), wall_at(kEpoch));
  EXPECT_TRUE(named["metrics"]["energy"]["t"].empty());
}

std::string refusal(const History& history, const HistoryQuery& query) {
  try {
    history.query(query, wall_at(kEpoch));
  } catch (const Error& e) {
    return std::string(to_string(e.code())) + " " + e.what();
  }
  return "";
}

TEST(History, AnInvalidQueryIsRefusedWithTheReason) {
  History history(kInMemory);
  Feeder(history).put("GPU-1", Metric::power, kEpoch, 1);
  EXPECT_THAT(refusal(history, ask("GPU-1", "powr", kEpoch, kEpoch)),
              HasSubstr("no metric 'powr'; did you mean 'power'?"));
  EXPECT_THAT(refusal(history, ask("GPU-2", "power", kEpoch, kEpoch)), HasSubstr("not found"));
  EXPECT_THAT(refusal(history, ask("GPU-1", "power", kEpoch + 1, kEpoch)), HasSubstr("from"));
  EXPECT_THAT(refusal(history, ask("GPU-1", "power", -1, kEpoch)), HasSubstr("before 1970"));
  EXPECT_THAT(refusal(history, ask("GPU-1", "power", kEpoch, kEpoch, 0)), HasSubstr("points"));
}

TEST(History, TheMachinesTrendsNameWhatGrowsAndWhenItIsFull) {
  History history(kInMemory);
  Feeder feed(history);
  const double gib = 1024.0 * 1024 * 1024;
  for (int s = 0; s < 3600; s += 5)
    feed.put("GPU-1", Metric::memory_used, kEpoch + s, (10 + s / 3600.0 * 1.5) * gib);
  Snapshot snapshot;
  snapshot.wall = wall_at(kEpoch + 3600);
  snapshot.gpus.resize(1);
  snapshot.gpus[0].gpu.uuid = "GPU-1";
  snapshot.gpus[0].readings.set(Metric::memory_total, 16 * gib, Steady::now());
  const auto trends = trends_json(history, snapshot);
  ASSERT_EQ(trends["GPU-1"].size(), 1u);
  EXPECT_EQ(trends["GPU-1"][0]["text"],
            "memory_used grows 1.5 GiB/h: full at 16.0 GiB in 3 h 0 min");
  EXPECT_TRUE(trends["cpu"].empty());
}

TEST(History, AQueryNeverMissesWhatAnEarlierOneReturnedDuringWrites) {
  const Folder folder;
  History history({.path = folder / "history.db", .flush_s = 0.002});
  Feeder feed(history);
  feed.put("GPU-1", Metric::power, kEpoch, 0);
  std::jthread adder([&](std::stop_token stop) {
    for (int s = 1; s < 3000 && !stop.stop_requested(); ++s)
      feed.put("GPU-1", Metric::power, kEpoch + s, s);
  });
  std::size_t seen = 0;
  for (int i = 0; i < 40; ++i) {
    const auto answer = power(
        history.query(ask("GPU-1", "power", kEpoch, kEpoch + 3000, 4000), wall_at(kEpoch + 3000)));
    ASSERT_GE(answer["t"].size(), seen);
    seen = answer["t"].size();
    for (std::size_t k = 0; k < seen; ++k) ASSERT_EQ(answer["mean"][k], static_cast<double>(k));
  }
}

// ---- against an oracle

struct Sample {
  std::string device;
  Metric metric;
  std::int64_t second;
  double value;
};

// The same query answered from every sample.
void expect_like_oracle(const Json& answer, const std::vector<Sample>& samples,
                        const HistoryQuery& q, Metric metric) {
  const std::int64_t step = answer["step_s"];
  const std::int64_t first = q.from_ms / 1000 / step * step, last = q.to_ms / 1000 / step * step;
  std::map<std::int64_t, Agg> expected;
  for (const auto& s : samples)
    if (s.device == q.device && s.metric == metric && s.second / step * step >= first &&
        s.second / step * step <= last)
      expected[s.second / step * step].add(s.value);
  const Json& got = answer["metrics"][q.metrics[0]];
  ASSERT_LE(got["t"].size(), static_cast<std::size_t>(q.points));
  auto it = expected.begin();
  for (std::size_t i = 0; i < got["t"].size(); ++i) {
    if (got["mean"][i].is_null()) continue;
    ASSERT_NE(it, expected.end());
    EXPECT_EQ(got["t"][i], it->first * 1000);
    EXPECT_EQ(got["min"][i], it->second.min);
    EXPECT_EQ(got["max"][i], it->second.max);
    EXPECT_NEAR(got["mean"][i].get<double>(), it->second.mean(),
                1e-9 * std::abs(it->second.mean()) + 1e-12);
    ++it;
  }
  EXPECT_EQ(it, expected.end());
}

double random_value(std::mt19937_64& random) {
  switch (random() % 4) {
    case 0: return static_cast<double>(random() % 101);
    case 1: return static_cast<double>(random() % (std::uint64_t{1} << 40));
    case 2: return -0.25 * static_cast<double>(random() % 1000);
    default: return std::ldexp(static_cast<double>(random()), -50);
  }
}

void run_against_oracle(std::uint64_t seed, const std::string& path) {
  std::mt19937_64 random(seed);
  const auto options = HistoryOptions{.path = path, .flush_s = 3600};
  auto history = std::make_unique<History>(options);
  auto feed = std::make_unique<Feeder>(*history);
  std::vector<Sample> samples;
  const std::string devices[] = {"GPU-1", "cpu"};
  const Metric metrics[] = {Metric::power, Metric::energy, Metric::request_p99};
  std::int64_t now = kEpoch + 7;
  for (int op = 0; op < 400; ++op) {
    const auto dice = random() % 100;
    if (dice < 80) {
      now += static_cast<std::int64_t>(random() % 40) - 2;  // sometimes a little backwards
      samples.push_back({devices[random() % 2], metrics[random() % 3], now, random_value(random)});
      feed->put(samples.back().device, samples.back().metric, static_cast<double>(now),
                samples.back().value);
    } else if (dice < 90) {
      ASSERT_TRUE(history->flush());
    } else if (dice < 93 && !path.empty()) {
      feed.reset(), history.reset();
      history = std::make_unique<History>(options);
      feed = std::make_unique<Feeder>(*history);
    } else if (!samples.empty()) {
      const Metric metric = metrics[random() % 3];
      HistoryQuery q =
          ask(samples[random() % samples.size()].device, std::string(device::info(metric).name),
              kEpoch + static_cast<std::int64_t>(random() % 2000), now + 5,
              static_cast<int>(2 + random() % 2000));
      if (q.from_ms > q.to_ms) continue;
      expect_like_oracle(history->query(q, wall_at(now)), samples, q, metric);
    }
  }
}

TEST(History, AnySequenceInMemoryMatchesTheSamples) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) run_against_oracle(seed, "");
}

TEST(History, AnySequenceOnDiskWithRestartsMatchesTheSamples) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const Folder folder;
    run_against_oracle(seed, folder / "history.db");
  }
}

}  // namespace
}  // namespace sluice::watch
