// Encoders on a GPU, in each precision: against the CPU, and bit for bit against themselves.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <future>
#include <random>

#include "engine/encoder/encoder.h"
#include "engine/encoder/packed_texts_for_tests.h"
#include "engine/exec/cuda/bucket_program.h"
#include "engine/exec/cuda/cuda_program.h"

namespace sluice::engine {
namespace {

using kernels::TokenPooling;

constexpr auto kMaxLength = EncoderForTests::kPositions;

std::shared_ptr<cuda::Context> gpu() { return make_cuda_context(encoder_context_options({})); }

// Twelve heads of 32, or of 64: the widths of MiniLM and of BERT-base.
struct Case {
  DType precision;
  std::int64_t head_size;
  double limit;  // of the difference to the CPU, relative
};

class EncoderGpuTest : public ::testing::TestWithParam<Case> {
 protected:
  EncoderGpuTest() : device_(gpu(), workers_) {}

  static Graph model(EncoderOutput end = EncoderOutput::hidden) {
    return EncoderForTests(end, false, EncoderVariant::none, 12, GetParam().head_size).take();
  }
  static EncoderOptions options(std::optional<TokenPooling> pooling) {
    return {.max_length = kMaxLength,
            .pooling = pooling,
            .normalize = pooling.has_value(),
            .precision = GetParam().precision};
  }
  Encoder encoder(std::optional<TokenPooling> pooling = TokenPooling::mean) {
    return {model(), device_, options(pooling)};
  }
  Texts random_texts(std::size_t count, std::size_t longest = kMaxLength) {
    return engine::random_texts(random_, count, longest);
  }

  compute::Workers workers_{4};
  EncoderDevice device_;
  std::mt19937_64 random_{std::random_device{}()};
};

double distance(std::span<const float> got, std::span<const float> want) {
  double off = 0, size = 1e-30;
  for (std::size_t i = 0; i < want.size(); ++i) {
    off += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
    size += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(off / size);  // NaN where one is
}

TEST_P(EncoderGpuTest, AgreesWithTheCpu) {
  const Texts texts = random_texts(300);
  for (const auto pooling : {std::optional<TokenPooling>(), std::optional(TokenPooling::mean),
                             std::optional(TokenPooling::sum), std::optional(TokenPooling::first),
                             std::optional(TokenPooling::last)}) {
    SCOPED_TRACE(pooling ? to_string(*pooling) : "tokens");
    EncoderOptions on_cpu = options(pooling);
    on_cpu.precision = DType::f32;
    const Encoder cpu(model(), workers_, on_cpu);
    const auto want = rows_of(cpu, texts), got = rows_of(encoder(pooling), texts);
    ASSERT_EQ(got.size(), want.size());
    EXPECT_LT(distance(got, want), GetParam().limit);
  }
}

TEST_P(EncoderGpuTest, PoolsInsideTheModel) {
  const Texts texts = random_texts(100);
  EncoderOptions on_cpu = options(std::nullopt);
  on_cpu.precision = DType::f32;
  for (const EncoderOutput end : {EncoderOutput::first, EncoderOutput::masked_mean}) {
    const Encoder on_gpu(model(end), device_, options(std::nullopt));
    const Encoder cpu(model(end), workers_, on_cpu);
    ASSERT_TRUE(on_gpu.graph().pooled());
    EXPECT_LT(distance(rows_of(on_gpu, texts), rows_of(cpu, texts)), GetParam().limit);
  }
}

TEST_P(EncoderGpuTest, ATextHasTheSameBitsInAThousandBatches) {
  const Encoder encoder = this->encoder();
  const auto width = static_cast<std::size_t>(encoder.graph().width());
  const Texts texts = random_texts(64);
  std::vector<std::vector<float>> alone;
  for (const Ids& text : texts) alone.push_back(rows_of(encoder, {text}));
  std::uniform_int_distribution<std::size_t> pick(0, texts.size() - 1);
  std::geometric_distribution<std::size_t> more(0.02);
  std::size_t different = 0, tokens = 0;
  for (int batch = 0; batch < 1000; ++batch) {
    std::vector<std::size_t> chosen(1 + more(random_));
    Texts mixed;
    for (std::size_t& one : chosen) mixed.push_back(texts[one = pick(random_)]);
    const std::vector<float> got = rows_of(encoder, mixed);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      tokens += mixed[i].size();
      different +=
          std::memcmp(&got[i * width], alone[chosen[i]].data(), width * sizeof(float)) != 0 ? 1 : 0;
    }
  }
  EXPECT_EQ(different, 0u) << "in " << tokens << " tokens";
}

TEST_P(EncoderGpuTest, BatchesBeyondABucketAreSplit) {
  const Encoder encoder = this->encoder();
  const auto width = static_cast<std::size_t>(encoder.graph().width());
  const Texts texts = random_texts(9000);
  const std::vector<float> all = rows_of(encoder, texts);
  for (const std::size_t i :
       {std::size_t{0}, std::size_t{4095}, std::size_t{4096}, std::size_t{8999}})
    EXPECT_EQ(
        std::memcmp(&all[i * width], rows_of(encoder, {texts[i]}).data(), width * sizeof(float)), 0)
        << "text " << i;
  EXPECT_THAT(all, ::testing::Each(::testing::Truly([](float x) { return std::isfinite(x); })));
}

TEST_P(EncoderGpuTest, MemoryIsTwiceTheLargestArenaForManyMixesAndModels) {
  const Encoder first = encoder(), second = encoder(TokenPooling::first);
  const auto run_mixes = [&] {
    for (const std::size_t count : {1u, 3000u, 17u, 500u, 4096u, 64u})
      for (const Encoder* const one : {&first, &second}) rows_of(*one, random_texts(count, 40));
  };
  run_mixes();
  first.wait_until_ready(), second.wait_until_ready();
  run_mixes();
  first.wait_until_ready(), second.wait_until_ready();
  const std::size_t before = device_.arena_bytes();
  run_mixes();
  first.wait_until_ready(), second.wait_until_ready();
  EXPECT_EQ(device_.arena_bytes(), before);
  EXPECT_GT(device_.trim(), 0u);
  EXPECT_EQ(device_.arena_bytes(), 0u);
  rows_of(first, random_texts(10));  // and takes it again
}

TEST_P(EncoderGpuTest, CallsOfManyThreadsAreAnsweredEachWithItsOwn) {
  const Encoder encoder = this->encoder();
  const auto width = static_cast<std::size_t>(encoder.graph().width());
  const Texts texts = random_texts(32);
  std::vector<std::vector<float>> alone;
  for (const Ids& text : texts) alone.push_back(rows_of(encoder, {text}));
  std::vector<std::unique_ptr<PackedTexts>> batches;
  std::vector<std::vector<float>> out(200);
  std::vector<std::promise<std::size_t>> ends(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    batches.push_back(std::make_unique<PackedTexts>(Texts{texts[i % 32], texts[(i * 7 + 1) % 32]}));
    out[i].resize(2 * width);
    const auto ticket =
        encoder.submit({.tokens = batches.back()->tokens(), .out = out[i]},
                       [&ends, i](const EncodeResult& result) {
                         ends[i].set_value(result.error ? 99 : result.errors.size());
                       });
    ASSERT_TRUE(ticket);
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(ends[i].get_future().get(), 0u);
    EXPECT_EQ(std::memcmp(out[i].data(), alone[i % 32].data(), width * sizeof(float)), 0) << i;
    EXPECT_EQ(std::memcmp(&out[i][width], alone[(i * 7 + 1) % 32].data(), width * sizeof(float)), 0)
        << i;
  }
}

TEST_P(EncoderGpuTest, BadTextsGetErrorsAndTheOthersVectors) {
  const Encoder encoder = this->encoder();
  const auto width = static_cast<std::size_t>(encoder.graph().width());
  Texts texts = random_texts(6);
  texts[1] = {-1}, texts[3] = {}, texts[4] = Ids(static_cast<std::size_t>(kMaxLength) + 1, 1);
  const PackedTexts packed(texts);
  std::vector<float> out(texts.size() * width);
  const auto errors = encoder.run(packed.tokens(), out);
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_EQ(errors[0].sequence, 1u);
  EXPECT_EQ(errors[1].sequence, 3u);
  EXPECT_EQ(errors[2].sequence, 4u);
  for (const std::size_t i : {0u, 2u, 5u})
    EXPECT_EQ(
        std::memcmp(&out[i * width], rows_of(encoder, {texts[i]}).data(), width * sizeof(float)),
        0);
}

// Slots are taken in turn: while one model is full of large batches, a text for another waits for
// few of them.
TEST_P(EncoderGpuTest, ATextIsNotStarvedByLargeBatchesOfAnotherModel) {
  using std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  const Encoder busy = encoder(), other = encoder(TokenPooling::first);
  const Texts large = random_texts(4000), small = random_texts(1);
  for (int time = 0; time < 2; ++time) {
    rows_of(busy, large), rows_of(other, small);
    busy.wait_until_ready(), other.wait_until_ready();
  }
  const auto begin = steady_clock::now();
  rows_of(busy, large);
  const Seconds one_large = steady_clock::now() - begin;
  std::atomic<bool> stop = false;
  std::vector<std::future<int>> loads;
  for (int thread = 0; thread < 4; ++thread)
    loads.push_back(std::async(std::launch::async, [&] {
      int calls = 0;
      for (; !stop; ++calls) rows_of(busy, large);
      return calls;
    }));
  Seconds longest{0};
  for (int call = 0; call < 20; ++call) {
    const auto asked = steady_clock::now();
    rows_of(other, small);
    longest = std::max<Seconds>(longest, steady_clock::now() - asked);
  }
  stop = true;
  int calls = 0;
  for (auto& load : loads) calls += load.get();
  EXPECT_GT(calls, 0);
  EXPECT_LT(longest.count(), 12 * one_large.count() + 0.05) << calls << " large batches";
}

std::string case_name(const ::testing::TestParamInfo<Case>& of) {
  return std::string(to_string(of.param.precision)) + "_heads_of_" +
         std::to_string(of.param.head_size);
}
INSTANTIATE_TEST_SUITE_P(All, EncoderGpuTest,
                         ::testing::Values(Case{DType::f32, 32, 2e-5}, Case{DType::f16, 32, 5e-3},
                                           Case{DType::bf16, 32, 4e-2}, Case{DType::f16, 64, 5e-3},
                                           Case{DType::bf16, 64, 4e-2}, Case{DType::f16, 16, 5e-3}),
                         case_name);

}  // namespace
}  // namespace sluice::engine
