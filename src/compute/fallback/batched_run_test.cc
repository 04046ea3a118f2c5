#include "compute/fallback/batched_run.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace sluice::compute {
namespace {

using testing::ElementsAre;

// A device on which `capacity` items fit at once, and `cached` of them only after a trim.
struct SmallDevice {
  std::size_t capacity, cached = 0;
  std::vector<std::string> log{};

  BatchedCall call() {
    return {.run =
                [this](std::size_t begin, std::size_t end) {
                  log.push_back(std::to_string(begin) + "-" + std::to_string(end));
                  if (end - begin > capacity - cached) throw Error(Code::exhausted, "full");
                },
            .trim =
                [this] {
                  log.push_back("trim");
                  return std::exchange(cached, 0);
                }};
  }
};

TEST(RunInBatches, ACallThatFitsRunsOnce) {
  SmallDevice device{10};
  const auto result = run_in_batches(10, 10, device.call());
  EXPECT_THAT(device.log, ElementsAre("0-10"));
  EXPECT_EQ(result.done, 10U);
  EXPECT_EQ(result.batches, 1U);
  EXPECT_EQ(result.exhausted, nullptr);
}

TEST(RunInBatches, CachedMemoryIsTrimmedBeforeTheBatchIsHalved) {
  SmallDevice device{10, 5};
  run_in_batches(10, 10, device.call());
  EXPECT_THAT(device.log, ElementsAre("0-10", "trim", "0-10"));
}

TEST(RunInBatches, TheBatchIsHalvedUntilItFitsAndStaysSo) {
  SmallDevice device{3};
  const auto result = run_in_batches(10, 10, device.call());
  EXPECT_THAT(device.log, ElementsAre("0-10", "trim", "0-5", "0-3", "3-6", "6-9", "9-10"));
  EXPECT_EQ(result.done, 10U);
  EXPECT_EQ(result.batches, 4U);
  EXPECT_EQ(result.largest, 3U);
}

TEST(RunInBatches, ItBeginsWithTheBatchThatFittedLastTime) {
  SmallDevice device{3};
  run_in_batches(6, 3, device.call());
  EXPECT_THAT(device.log, ElementsAre("0-3", "3-6"));
}

TEST(RunInBatches, WithoutMemoryForOneItemTheErrorIsReturnedWithWhatIsDone) {
  SmallDevice device{2};
  auto call = device.call();
  call.run = [run = call.run, &device](std::size_t begin, std::size_t end) {
    if (begin == 2) device.capacity = 0;
    run(begin, end);
  };
  const auto result = run_in_batches(4, 2, call);
  EXPECT_EQ(result.done, 2U);
  ASSERT_NE(result.exhausted, nullptr);
  EXPECT_THROW(std::rethrow_exception(result.exhausted), Error);
}

TEST(RunInBatches, ACallThatMayNotBeSplitIsNot) {
  SmallDevice device{3};
  auto call = device.call();
  call.may_split = [] { return false; };
  const auto result = run_in_batches(10, 10, call);
  EXPECT_THAT(device.log, ElementsAre("0-10", "trim"));
  EXPECT_EQ(result.done, 0U);
  EXPECT_NE(result.exhausted, nullptr);
}

TEST(RunInBatches, OtherErrorsPassThrough) {
  BatchedCall call{.run = [](auto, auto) { throw Error(Code::invalid_argument, "wrong"); },
                   .trim = [] { return std::size_t{1}; }};
  EXPECT_THROW(run_in_batches(4, 4, call), Error);
}

TEST(RunInBatches, NoItemsNeedNoCall) {
  BatchedCall call{.run = [](auto, auto) { FAIL(); }, .trim = [] { return std::size_t{0}; }};
  EXPECT_EQ(run_in_batches(0, 0, call).batches, 0U);
}

}  // namespace
}  // namespace sluice::compute
