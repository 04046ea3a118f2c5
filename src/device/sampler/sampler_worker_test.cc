// The sampler's threads: when each asks what, and what they say.
#include "device/sampler/sampler_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <semaphore>
#include <utility>

#include "base/error.h"
#include "base/line_buffer.h"

namespace sluice::device {
namespace {

using testing::ElementsAre;

constexpr Instant kBoot{std::chrono::hours(1)};
Instant boot_and(double s) {
  return kBoot + std::chrono::duration_cast<Steady::duration>(Seconds(s));
}

// ---- schedule

TEST(Schedule, ReadsEveryTierAtOnceAndThenEachAtItsInterval) {
  const ScaledIntervals intervals{};  // 1 s, 5 s, 10 s
  Schedule schedule;
  EXPECT_EQ(schedule.due(boot_and(0), intervals).size(), 4U);
  EXPECT_EQ(schedule.next(), boot_and(1));
  EXPECT_THAT(schedule.due(boot_and(1), intervals), ElementsAre(Tier::pulse, Tier::fast));
  for (int s = 2; s < 5; ++s) schedule.due(boot_and(s), intervals);
  EXPECT_THAT(schedule.due(boot_and(5), intervals),
              ElementsAre(Tier::pulse, Tier::fast, Tier::slow));
}

TEST(Schedule, ScalingSparesTheDriverButKeepsThePulse) {
  const ScaledIntervals intervals{{}, 4};
  Schedule schedule;
  schedule.due(boot_and(0), intervals);
  EXPECT_THAT(schedule.due(boot_and(1), intervals), ElementsAre(Tier::pulse));
  schedule.due(boot_and(2), intervals);
  schedule.due(boot_and(3), intervals);
  EXPECT_THAT(schedule.due(boot_and(4), intervals), ElementsAre(Tier::pulse, Tier::fast));
}

TEST(Schedule, TiersRunOnWholePulsesSoThatTheyCoincide) {
  const ScaledIntervals intervals{{}, 1.5};
  EXPECT_EQ(interval_of(Tier::pulse, intervals), 1);
  EXPECT_EQ(interval_of(Tier::fast, intervals), 2);
  EXPECT_EQ(interval_of(Tier::slow, intervals), 8);
  EXPECT_EQ(interval_of(Tier::processes, intervals), 15);
  const ScaledIntervals quick{{0.1, 0.5, 1, 1}, 1};
  EXPECT_NEAR(interval_of(Tier::pulse, quick), 0.1, 1e-9);
  EXPECT_NEAR(interval_of(Tier::slow, quick), 0.5, 1e-9);
}

TEST(Schedule, LateRoundsDoNotPileUp) {
  Schedule schedule;
  schedule.due(boot_and(0), {});
  EXPECT_EQ(schedule.due(boot_and(100), {}).size(), 4U);
  EXPECT_EQ(schedule.next(), boot_and(101));
}

// ---- early lists

constexpr double kMiB = 1 << 20;

TEST(EarlyList, NobodyWaitsForTheProcessesOfAGpuThatIsNotFollowed) {
  EarlyList early;
  EXPECT_FALSE(early.is_due(0, boot_and(0)));
  early.listed(0);
  EXPECT_FALSE(early.is_due(1000 * kMiB, boot_and(1)));
  early.follow(1);
  early.follow(std::nullopt);
  EXPECT_FALSE(early.is_due(1000 * kMiB, boot_and(1)));
}

TEST(EarlyList, AFollowedGpuIsListedWhenItsMemoryChangedMuchAndNotWhenItDidNot) {
  EarlyList early;
  early.listed(1000 * kMiB);
  early.follow(1);
  EXPECT_TRUE(early.is_due(1000 * kMiB, boot_and(0)));  // something happened there
  early.listed(1000 * kMiB);
  EXPECT_FALSE(early.is_due(1000 * kMiB, boot_and(1)));
  EXPECT_FALSE(early.is_due(1020 * kMiB, boot_and(1)));
  EXPECT_FALSE(early.is_due(std::nullopt, boot_and(1)));
  EXPECT_TRUE(early.is_due(1040 * kMiB, boot_and(1)));  // since the list, however slowly
  EXPECT_TRUE(early.is_due(960 * kMiB, boot_and(1)));   // what was given back, too
  early.listed(1040 * kMiB);
  EXPECT_FALSE(early.is_due(1040 * kMiB, boot_and(2)));
  early.follow(1);
  EXPECT_FALSE(early.is_due(1040 * kMiB, boot_and(3)));
  early.follow(2);
  EXPECT_TRUE(early.is_due(1040 * kMiB, boot_and(3)));
}

TEST(EarlyList, ConstantlyChangingMemoryTakesAtMostTenTimesTheBudget) {
  EarlyList early;
  early.follow(1);
  early.took(std::chrono::milliseconds(30), 0.001, boot_and(0));  // 1 % of 3 s
  EXPECT_FALSE(early.is_due(9000 * kMiB, boot_and(2.9)));
  EXPECT_TRUE(early.is_due(9000 * kMiB, boot_and(3.1)));
}

// ---- worker

class Quiet final : public Worker::Listener {
 public:
  void described(Gpu gpu) override { described_ = gpu.uuid; }
  void lost() noexcept override { ++losses_; }
  ScaledIntervals intervals() const override { return {{0.01, 0.01, 0.01, 1}, 1}; }
  std::string described_;
  std::atomic<int> losses_ = 0;
};

class Scripted final : public Probe {
 public:
  explicit Scripted(Outcome outcome) : outcome_(std::move(outcome)) {}
  Gpu describe() override {
    Gpu gpu{};
    gpu.uuid = "GPU-1";
    return gpu;
  }
  Outcome read(Tier, Sample& sample, double) override {
    if (outcome_.answered) sample.values.emplace_back(Metric::power, 1);
    return outcome_;
  }

 private:
  const Outcome outcome_;
};

Message next_message(int fd) {
  static LineBuffer buffer;
  for (;;) {
    if (auto line = buffer.next()) return decode(*line);
    char bytes[1024];
    pollfd ready{fd, POLLIN, 0};
    if (poll(&ready, 1, 5000) != 1) throw Error(Code::internal, "no message came");
    buffer.add({bytes, static_cast<std::size_t>(read(fd, bytes, sizeof bytes))});
  }
}

TEST(Worker, SaysOnceThatItsGpuIsGoneAndGoesOnWhenItReturns) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  MessageWriter out(ends[1]);
  Quiet listener;
  Worker worker("GPU-1", std::make_unique<Scripted>(Outcome{false, true, "GPU is lost"}), out,
                listener);
  const auto trouble = std::get<Trouble>(next_message(ends[0]));
  EXPECT_TRUE(trouble.gone);
  EXPECT_EQ(trouble.why, "GPU is lost");
  EXPECT_TRUE(worker.is_gone());
  worker.lose("the driver no longer lists it");  // known already
  EXPECT_EQ(listener.losses_, 1);

  worker.revive(std::make_unique<Scripted>(Outcome{}));
  EXPECT_FALSE(std::get<Sample>(next_message(ends[0])).values.empty());
  EXPECT_FALSE(worker.is_gone());
  worker.stop();
  close(ends[0]);
}

// Answers only when released.
class Held final : public Probe {
 public:
  Held(std::binary_semaphore& reading, std::binary_semaphore& go) : reading_(reading), go_(go) {}
  Gpu describe() override { return {}; }
  Outcome read(Tier, Sample& sample, double) override {
    if (std::exchange(first_, false)) {
      reading_.release();
      go_.acquire();
    }
    sample.values.emplace_back(Metric::power, 1);
    return {};
  }

 private:
  std::binary_semaphore &reading_, &go_;
  bool first_ = true;
};

TEST(Worker, ARoundInFlightWhenItsGpuIsLostReportsNothing) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  MessageWriter out(ends[1]);
  Quiet listener;
  std::binary_semaphore reading(0), go(0);
  {
    Worker worker("GPU-1", std::make_unique<Held>(reading, go), out, listener);
    reading.acquire();
    worker.lose("the driver no longer lists it");
    EXPECT_TRUE(std::get<Trouble>(next_message(ends[0])).gone);
    go.release();
  }
  pollfd ready{ends[0], POLLIN, 0};
  EXPECT_EQ(poll(&ready, 1, 0), 0);
  close(ends[0]);
  close(ends[1]);
}

TEST(Worker, AnErrorThatIsNotALossIsTroubleWithoutAnEnd) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  MessageWriter out(ends[1]);
  Quiet listener;
  Worker worker("GPU-1", std::make_unique<Scripted>(Outcome{false, false, "unknown error"}), out,
                listener);
  for (int i = 0; i < 3; ++i) {
    const auto trouble = std::get<Trouble>(next_message(ends[0]));
    EXPECT_FALSE(trouble.gone);
    EXPECT_EQ(trouble.why, "unknown error");
  }
  worker.stop();
  close(ends[0]);
}

// Memory as the test sets it; counts the queries for its process list.
class Filled final : public Probe {
 public:
  Filled(std::atomic<double>& used, std::atomic<int>& lists) : used_(used), lists_(lists) {}
  Gpu describe() override { return {}; }
  Outcome read(Tier tier, Sample& sample, double) override {
    if (tier == Tier::fast) sample.values.emplace_back(Metric::memory_used, used_);
    if (tier != Tier::processes) return {};
    ++lists_;
    sample.processes.emplace();
    return {};
  }

 private:
  std::atomic<double>& used_;
  std::atomic<int>& lists_;
};

// A list comes by itself once a minute, a sample a hundred times a second.
class Rare final : public Worker::Listener {
 public:
  void described(Gpu) override {}
  void lost() noexcept override {}
  ScaledIntervals intervals() const override { return {{0.01, 0.01, 60, 1}, 1}; }
};

TEST(Worker, TheListComesWithTheSampleThatShowsTheMemoryAndOnlyThen) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  MessageWriter out(ends[1]);
  Rare listener;
  std::atomic<double> used = 0;
  std::atomic<int> lists = 0;
  {
    Worker worker("GPU-1", std::make_unique<Filled>(used, lists), out, listener);
    const auto next = [&] { return std::get<Sample>(next_message(ends[0])); };
    EXPECT_TRUE(next().processes);  // the first is of everything
    worker.follow(1);
    while (!next().processes) continue;
    used = 100 * kMiB;
    const std::pair<Metric, double> full{Metric::memory_used, 100 * kMiB};
    Sample sample;
    do sample = next();
    while (std::ranges::find(sample.values, full) == sample.values.end());
    EXPECT_TRUE(sample.processes) << "with the very sample that shows the memory";
    const int after = lists;
    for (int i = 0; i < 10; ++i) next_message(ends[0]);  // and nothing changes
    EXPECT_EQ(lists, after);
    worker.stop();
  }
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace sluice::device
