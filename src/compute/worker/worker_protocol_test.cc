#include "compute/worker/worker_protocol.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace sluice::compute {
namespace {

constexpr Operation kOperation{"plus", nullptr, nullptr};

Call sample(std::vector<double>& a, std::vector<double>& b, const double& parameter) {
  return {.in = {{a.data(), 8}, {b.data(), 0, 24}},
          .out = {{a.data(), 16}},
          .parameters = &parameter,
          .parameters_bytes = sizeof parameter,
          .items = 7,
          .first = 3,
          .work = 2.5};
}

TEST(WorkerProtocol, RoundTripsACall) {
  std::vector<double> a(14), b(3);
  const double parameter = 4.25;
  const Call call = sample(a, b, parameter);
  std::vector<std::byte> file(file_bytes(call));
  const CallPacket packet = pack(kOperation, call);
  const auto got = unpack(packet, file.data(), file.size());
  ASSERT_TRUE(got);
  EXPECT_EQ(got->items, 7u);
  EXPECT_EQ(got->first, 3u);
  EXPECT_EQ(got->with<double>(), 4.25);
  ASSERT_EQ(got->in.size(), 2u);
  EXPECT_EQ(got->in[1].data, file.data() + kFileAlignment);
  EXPECT_EQ(got->out[0].data, file.data() + 2 * kFileAlignment);
  EXPECT_EQ(got->in[1].shared_bytes, 24u);
}

TEST(WorkerProtocol, RefusesWhatDoesNotFitTheFile) {
  std::vector<double> a(14), b(3);
  const double parameter = 1;
  const Call call = sample(a, b, parameter);
  const std::size_t bytes = file_bytes(call);
  std::vector<std::byte> file(bytes);
  CallPacket packet = pack(kOperation, call);
  packet.items = std::uint64_t{1} << 62;
  EXPECT_FALSE(unpack(packet, file.data(), bytes));
  EXPECT_FALSE(unpack(pack(kOperation, call), file.data(), 2 * kFileAlignment));
}

TEST(WorkerProtocol, RandomPacketsNeverPointOutsideTheFile) {
  std::mt19937_64 random(7);
  std::vector<std::byte> file(1 << 16);
  for (int i = 0; i < 20000; ++i) {
    CallPacket packet;
    auto* const words = reinterpret_cast<unsigned char*>(&packet);
    for (std::size_t k = 0; k < sizeof packet; ++k)
      words[k] = random() % 3 == 0 ? static_cast<unsigned char>(random()) : 0;
    if (i % 2 == 0) packet.inputs = random() % 4, packet.outputs = random() % 4;
    packet.operation.back() = 0;
    const auto call = unpack(packet, file.data(), file.size());
    if (!call) continue;
    for (const auto* operands : {&call->in, &call->out})
      for (const Operand& operand : *operands) {
        const auto* const begin = static_cast<std::byte*>(operand.data);
        ASSERT_LE(begin + operand.bytes(call->items), file.data() + file.size());
      }
  }
}

TEST(WorkerProtocol, RoundTripsTheStatisticsOfPools) {
  memory::PoolStatistics pool;
  pool.name = "workspace";
  pool.strategy = memory::kStrategyKinds[1];
  std::size_t n = 0;
  for (std::size_t* const field :
       {&pool.used, &pool.taken, &pool.committed, &pool.ceiling, &pool.count, &pool.peak_used,
        &pool.peak_taken, &pool.peak_committed, &pool.largest_free, &pool.grantable,
        &pool.stranded})
    *field = ++n;
  for (std::uint64_t* const field :
       {&pool.allocations, &pool.failures, &pool.commits, &pool.remapped_bytes})
    *field = ++n;
  pool.internal_fragmentation = 0.25, pool.external_fragmentation = 0.5, pool.efficiency = 0.75;
  const auto got = unpack(pack({pool}));
  ASSERT_EQ(got.size(), 1u);
  const auto numbers = [](const memory::PoolStatistics& s) {
    return std::vector<double>{
        double(s.used),           double(s.taken),          double(s.committed),
        double(s.ceiling),        double(s.count),          double(s.peak_used),
        double(s.peak_taken),     double(s.peak_committed), double(s.largest_free),
        double(s.grantable),      double(s.stranded),       double(s.allocations),
        double(s.failures),       double(s.commits),        double(s.remapped_bytes),
        s.internal_fragmentation, s.external_fragmentation, s.efficiency};
  };
  EXPECT_EQ(got[0].name, pool.name);
  EXPECT_EQ(got[0].strategy, pool.strategy);
  EXPECT_EQ(numbers(got[0]), numbers(pool));
}

TEST(WorkerProtocol, RefusesCallsThatAreTooWide) {
  Call call;
  call.in.resize(kMaxOperands + 1);
  EXPECT_THROW(pack(kOperation, call), Error);
}

}  // namespace
}  // namespace sluice::compute
