#include "broker/lease/batch_size.h"

#include "broker/ledger/ledger_for_tests.h"

namespace sluice::broker {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Footprint ran(std::int64_t batch, double gib) {
  return {batch, static_cast<std::uint64_t>(gib * static_cast<double>(kGiB)), false};
}
Footprint failed(std::int64_t batch, double gib) {
  auto out = ran(batch, gib);
  out.out_of_memory = true;
  return out;
}

BatchSize advised(const std::string& agent, double gib, const std::vector<Footprint>& history = {},
                  const device::GpuConfig& settings = {}) {
  BatchSizeQuery q;
  q.agent = agent;
  q.lease_bytes = static_cast<std::uint64_t>(gib * static_cast<double>(kGiB));
  q.history = history;
  return batch_size_for(q, settings);
}

TEST(Fit, FindsTheFixedPartAndTheBytesPerItem) {
  const Footprint history[] = {ran(8, 2 + 0.8), ran(16, 2 + 1.6), failed(999, 1), ran(32, 2 + 3.2)};
  const auto found = fit(history);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->fixed_bytes / static_cast<double>(kGiB), 2, 1e-6);
  EXPECT_NEAR(found->bytes_each / static_cast<double>(kGiB), 0.1, 1e-9);
}

TEST(Fit, NoTermIsNegative) {
  const Footprint steep[] = {ran(10, 1), ran(20, 4)};  // a line through them would begin below 0
  const auto found = fit(steep);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->fixed_bytes, 0);
  EXPECT_NEAR(found->bytes_each / static_cast<double>(kGiB), (10 * 1 + 20 * 4) / 500.0, 1e-9);
}

TEST(Fit, GivesNothingForOneBatchSizeOrFallingMemory) {
  const Footprint same[] = {ran(8, 2), ran(8, 3)}, falling[] = {ran(8, 3), ran(16, 2)};
  EXPECT_FALSE(fit({}));
  EXPECT_FALSE(fit(same));
  EXPECT_FALSE(fit(falling));
}

TEST(BatchSize, FollowsTheAgentsOwnHistory) {
  const auto found = advised("scout", 10, {ran(8, 2.8), ran(32, 5.2)});  // 2 GiB and 0.1 each
  EXPECT_EQ(found.size, 75);                                             // of 95 % of the lease
  EXPECT_THAT(found.reason, AllOf(HasSubstr("history"), HasSubstr("2.0 GiB")));
}

TEST(BatchSize, SaysWhenNotOneItemFits) {
  const auto found = advised("scout", 1, {ran(8, 2.8), ran(32, 5.2)});
  EXPECT_EQ(found.size, 0);
  EXPECT_THAT(found.reason, HasSubstr("not one fits"));
}

TEST(BatchSize, ShrinksAfterOutOfMemoryAndGrowsAgainBySmallSteps) {
  std::vector<Footprint> history{ran(8, 2.8), ran(32, 5.2), failed(64, 10)};
  const auto after = advised("scout", 10, history);
  EXPECT_EQ(after.size, 48);
  EXPECT_THAT(after.reason, HasSubstr("a batch of 64 ran out of memory"));
  std::int64_t last = after.size;
  for (int run = 0; run < 20; ++run) {
    history.push_back(ran(last, 2 + 0.1 * static_cast<double>(last)));
    const auto next = advised("scout", 10, history).size;
    EXPECT_GE(next, last);
    EXPECT_LE(next - last, 64 / 8);
    last = next;
  }
  EXPECT_EQ(last, 75);  // what the fit allows, and no more
}

TEST(BatchSize, GrowsWhereOneBatchLeftHeadroomAndShrinksToASmallerLease) {
  EXPECT_EQ(advised("scout", 10, {ran(16, 5)}).size, 18);
  EXPECT_EQ(advised("scout", 10, {ran(16, 9)}).size, 16);
  EXPECT_EQ(advised("scout", 5, {ran(16, 10)}).size, 7);
  EXPECT_EQ(advised("scout", 10, {failed(16, 10)}).size, 12);
}

TEST(BatchSize, FollowsTheCompiledPlanWithoutHistory) {
  BatchSizeQuery q;
  q.agent = "scout", q.lease_bytes = 10 * kGiB;
  q.plan = FootprintFit{1.5 * static_cast<double>(kGiB), 0.5 * static_cast<double>(kGiB)};
  const auto found = batch_size_for(q, {});
  EXPECT_EQ(found.size, 16);
  EXPECT_THAT(found.reason, HasSubstr("plan"));
}

TEST(BatchSize, FollowsTheSettingsOtherwise) {
  device::GpuConfig settings;
  settings.batch_sizes["scout"] = 99;
  EXPECT_EQ(advised("scout", 10, {}, settings).size, 99);
  EXPECT_THAT(advised("scout", 10, {}, settings).reason, HasSubstr("gpu.batch_sizes"));
}

TEST(BatchSize, KnowsTheUsualAgentsAndTheRowsOfMemory) {
  EXPECT_EQ(advised("synthesizer", 24).size, 16);
  EXPECT_EQ(advised("analyst", 24).size, 32);
  EXPECT_EQ(advised("scout", 24).size, 64);
  EXPECT_EQ(advised("synthesizer", 6).size, 16);  // each in the memory it is used to
  EXPECT_EQ(advised("analyst", 4).size, 32);
  EXPECT_EQ(advised("scout", 8).size, 64);
  EXPECT_EQ(advised("scout", 4).size, 32);      // half the memory
  EXPECT_EQ(advised("somebody", 24).size, 32);  // gpu.batch_size
  EXPECT_EQ(advised("somebody", 4).size, 8);
  BatchSizeQuery by_model;
  by_model.agent = "my-agent", by_model.model_type = "scout", by_model.lease_bytes = 24 * kGiB;
  EXPECT_EQ(batch_size_for(by_model, {}).size, 64);
}

}  // namespace
}  // namespace sluice::broker
