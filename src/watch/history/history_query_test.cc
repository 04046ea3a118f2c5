#include "watch/history/history_query.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "watch/history/history_codec.h"

namespace sluice::watch {
namespace {

constexpr std::int64_t kNow = 1'794'711'600;

struct QueryCase {
  std::int64_t ago_from, ago_to, points;
  std::int64_t step, source_step;
};

TEST(HistoryChoice, ChoosesTheFinestRoundStepThatReachesBackAndFits) {
  for (const auto& q :
       {QueryCase{300, 0, 600, 1, 1},             //
        QueryCase{3600, 0, 600, 10, 10},          //
        QueryCase{3600, 0, 4000, 1, 1},           //
        QueryCase{900, 0, 600, 2, 1},             //
        QueryCase{3700, 3600, 600, 1, 1},         // still within the slack
        QueryCase{7200, 7100, 600, 10, 10},       //
        QueryCase{86400, 0, 600, 300, 300},       //
        QueryCase{86400, 0, 1000, 120, 10},       //
        QueryCase{86400, 0, 10000, 10, 10},       //
        QueryCase{7 * 86400, 0, 600, 1800, 300},  //
        QueryCase{90 * 86400, 0, 600, 21600, 300}, QueryCase{90 * 86400, 0, 2, 47 * 86400, 300},
        QueryCase{90 * 86400, 0, 1, 90 * 86400, 300}, QueryCase{90, 0, 1, 120, 1},
        QueryCase{3600, 0, 1, 3600, 10}, QueryCase{3000, 0, 1, 3600, 10},
        QueryCase{100'000, 0, 1, 2 * 86400, 300}, QueryCase{2 * 86400, 2 * 86400, 1, 300, 300},
        QueryCase{400 * 86400, 399 * 86400, 600, 300, 300}}) {
    const auto c = plan_query(kNow - q.ago_from, kNow - q.ago_to, q.points, kNow);
    EXPECT_EQ(kResolutions[c.source].seconds, q.source_step) << q.ago_from << " " << q.points;
    EXPECT_EQ(c.step_s, q.step) << q.ago_from << " " << q.points;
    EXPECT_LE((c.to - c.from) / c.step_s + 1, q.points);
    EXPECT_EQ(c.step_s % kResolutions[c.source].seconds, 0);
  }
}

TEST(HistoryChoice, OnePointCoversExactlyTheRange) {
  for (const std::int64_t shift : {0, 1, 7, 9})
    for (const std::int64_t length : {30, 90, 3000, 3600, 5000, 86400, 200'000}) {
      const auto to = kNow - 4000 - shift, from = to - length;
      const auto c = plan_query(from, to, 1, kNow);
      const auto unit = kResolutions[c.source].seconds;
      EXPECT_EQ(c.from, c.to);
      EXPECT_GT(c.from + unit, from) << length;
      EXPECT_LE(c.from, from + unit) << length;
      EXPECT_GT(c.end, to) << length;
      EXPECT_LE(c.end, to + unit) << length;
      EXPECT_LE(c.end, c.from + c.step_s) << length;
    }
}

TEST(HistoryChoice, RowsAfterTheRangeAreNotCounted) {
  const auto c = plan_query(kNow - 5000, kNow - 2000, 1, kNow);  // a step of an hour for 50 minutes
  Downsampler downsampler(c, MetricSet().set(0));
  for (auto t = kNow - 6000; t < kNow; t += 10) {
    const double value = t >= kNow - 5000 && t <= kNow - 2000 ? 1 : 100;
    downsampler.add({"cpu", c.source, t, {{0, {value, value, value, 1}}}});
  }
  ASSERT_EQ(downsampler.points(device::Metric{0}).size(), 1u);
  EXPECT_EQ(downsampler.points(device::Metric{0})[0].value, 1);
}

TEST(HistoryChoice, TheLongestRangeIsAnsweredAtOnce) {
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max() / 1000;
  for (const std::int64_t points : {1, 2, 3, 600, 100000}) {
    const auto start = std::chrono::steady_clock::now();
    const auto c = plan_query(0, kEnd, points, kNow);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(200));
    EXPECT_LE((c.to - c.from) / c.step_s + 1, points);
  }
}

TEST(HistoryCodec, RoundTripsRowsExactly) {
  const double values[] = {0,
                           1,
                           -1,
                           100,
                           1.5,
                           0.1,
                           -0.1,
                           1e-300,
                           1e300,
                           150754820096.0,
                           9007199254740993.0,
                           std::numeric_limits<double>::denorm_min()};
  std::vector<Entry> entries;
  std::uint32_t id = 0;
  for (const double v : values) entries.push_back({id++, {v, v, v, 1}});
  entries.push_back({300, {-2, 7.25, 30.1 * 1000, 1000}});
  const std::string bytes = encode(entries);
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  const auto back = decode({data, bytes.size()});
  ASSERT_EQ(back.size(), entries.size());
  for (std::size_t i = 0; i < back.size(); ++i) {
    EXPECT_EQ(back[i].id, entries[i].id);
    EXPECT_EQ(back[i].agg.n, entries[i].agg.n);
    EXPECT_EQ(back[i].agg.min, entries[i].agg.min);
    EXPECT_EQ(back[i].agg.max, entries[i].agg.max);
    EXPECT_DOUBLE_EQ(back[i].agg.mean(), entries[i].agg.mean());
  }
}

TEST(HistoryCodec, AQuietMetricTakesFourBytes) {
  EXPECT_EQ(encode(std::vector<Entry>{{5, {42, 42, 42 * 10, 10}}}).size(), 4u);
  EXPECT_EQ(encode(std::vector<Entry>{{5, {0, 0, 0, 1}}}).size(), 3u);
}

TEST(HistoryCodec, BytesThatAreNotARowAreRefused) {
  const std::string good = encode(std::vector<Entry>{{5, {1.1, 3.3, 4.4, 2}}});
  for (std::size_t n = 1; n < good.size(); ++n)
    EXPECT_THROW(decode({reinterpret_cast<const unsigned char*>(good.data()), n}), Error) << n;
  const std::vector<unsigned char> endless(30, 0xff);
  EXPECT_THROW(decode(endless), Error);
}

}  // namespace
}  // namespace sluice::watch
