#include "engine/encoder/encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <future>
#include <limits>
#include <random>
#include <thread>

#include "base/cancellation.h"
#include "base/sanitized_for_tests.h"
#include "engine/encoder/packed_texts_for_tests.h"
#include "engine/resident_for_tests.h"
#include "engine/session/session.h"

namespace sluice::engine {
namespace {

using kernels::TokenPooling;
using ::testing::HasSubstr;

constexpr auto kMaxLength = EncoderForTests::kPositions;
constexpr std::size_t kWidth = EncoderForTests::kWidth;

class PackedEncoderTest : public ::testing::Test {
 protected:
  static EncoderOptions pooled(TokenPooling pooling, bool normalize = false) {
    return {.max_length = kMaxLength, .pooling = pooling, .normalize = normalize};
  }
  Encoder encoder(EncoderOutput end, EncoderOptions options = {.max_length = kMaxLength}) {
    return {EncoderForTests(end).take(), workers_, options};
  }
  Texts random_texts(std::size_t count, std::size_t longest = kMaxLength) {
    return engine::random_texts(random_, count, longest);
  }
  // What the interpreter computes for the padded text.
  Tensor reference(const Graph& graph, const Ids& text) {
    const Tensor ids(DType::i64, {1, static_cast<std::int64_t>(text.size())});
    const Tensor mask(DType::i64, ids.shape());
    std::ranges::copy(text, ids.values<std::int64_t>().begin());
    std::ranges::fill(mask.values<std::int64_t>(), 1);
    const Session session(graph, workers_, {.compile = false});
    const std::vector<Datum> inputs{ids, mask};
    return session.run(inputs)[0].tensor;
  }

  compute::Workers workers_{2};
  std::mt19937_64 random_{20};
};

TEST_F(PackedEncoderTest, TokensEqualThoseOfTheInterpreter) {
  const Encoder packed = encoder(EncoderOutput::hidden);
  const Graph graph = EncoderForTests(EncoderOutput::hidden).take();
  const Texts texts = random_texts(20);
  const std::vector<float> got = rows_of(packed, texts);
  std::size_t at = 0;
  for (const Ids& text : texts) {
    const Tensor all = reference(graph, text);
    for (const float want : all.values<float>()) ASSERT_NEAR(got[at++], want, 2e-5);
  }
  EXPECT_EQ(at, got.size());
}

TEST_F(PackedEncoderTest, PoolingInsideTheModelNeedsNoPadding) {
  for (const EncoderOutput end : {EncoderOutput::first, EncoderOutput::masked_mean}) {
    SCOPED_TRACE(static_cast<int>(end));
    const Encoder packed = encoder(end);
    EXPECT_TRUE(packed.graph().pooled());
    const Graph graph = EncoderForTests(end).take();
    const Texts texts = random_texts(9);
    const std::vector<float> got = rows_of(packed, texts);
    std::size_t at = 0;
    for (const Ids& text : texts) {
      const Tensor all = reference(graph, text);
      for (const float want : all.values<float>()) ASSERT_NEAR(got[at++], want, 2e-5);
    }
    EXPECT_EQ(at, got.size());
  }
}

TEST_F(PackedEncoderTest, PoolsAsAskedFor) {
  const Encoder tokens = encoder(EncoderOutput::hidden);
  const Texts texts = random_texts(12);
  for (const TokenPooling pooling :
       {TokenPooling::sum, TokenPooling::mean, TokenPooling::first, TokenPooling::last})
    for (const bool normalize : {false, true}) {
      SCOPED_TRACE(std::string(to_string(pooling)) + (normalize ? ", normalized" : ""));
      const Encoder vectors = encoder(EncoderOutput::hidden, pooled(pooling, normalize));
      const std::vector<float> got = rows_of(vectors, texts);
      ASSERT_EQ(got.size(), texts.size() * kWidth);
      for (std::size_t i = 0; i < texts.size(); ++i) {
        const std::vector<float> rows = rows_of(tokens, {texts[i]});
        const std::size_t count = texts[i].size();
        std::vector<double> want(kWidth);
        for (std::size_t t = 0; t < count; ++t)
          if ((pooling != TokenPooling::first || t == 0) &&
              (pooling != TokenPooling::last || t + 1 == count))
            for (std::size_t k = 0; k < kWidth; ++k)
              want[k] += static_cast<double>(rows[t * kWidth + k]);
        double norm = 0;
        for (double& x : want) {
          if (pooling == TokenPooling::mean) x /= static_cast<double>(count);
          norm += x * x;
        }
        for (std::size_t k = 0; k < kWidth; ++k)
          ASSERT_NEAR(static_cast<double>(got[i * kWidth + k]),
                      normalize ? want[k] / std::sqrt(norm) : want[k],
                      1e-6 * (10 + std::abs(want[k])));
      }
    }
}

TEST_F(PackedEncoderTest, ATextHasTheSameBitsInAThousandBatches) {
  const Encoder vectors = encoder(EncoderOutput::hidden, pooled(TokenPooling::mean, true));
  const Texts texts = random_texts(60);
  std::vector<std::vector<float>> alone;
  for (const Ids& text : texts) alone.push_back(rows_of(vectors, {text}));
  std::uniform_int_distribution<std::size_t> which(0, texts.size() - 1), size(1, 24);
  for (int batch = 0; batch < (kSanitized ? 50 : 1000); ++batch) {
    std::vector<std::size_t> chosen(size(random_));
    Texts mixed;
    for (std::size_t& one : chosen) mixed.push_back(texts[one = which(random_)]);
    const std::vector<float> got = rows_of(vectors, mixed);
    for (std::size_t i = 0; i < chosen.size(); ++i)
      ASSERT_EQ(
          std::memcmp(got.data() + i * kWidth, alone[chosen[i]].data(), kWidth * sizeof(float)), 0)
          << "text " << chosen[i] << " of " << texts[chosen[i]].size() << " tokens, batch "
          << batch;
  }
}

// Widths with which GEMMs are cut into blocks of k, and tiles have a rest.
TEST_F(PackedEncoderTest, AWideModelHasTheSameBitsInEveryBatch) {
  const Encoder vectors(
      EncoderForTests(EncoderOutput::hidden, false, EncoderVariant::none, 12, 61).take(), workers_,
      pooled(TokenPooling::mean));
  const auto width = static_cast<std::size_t>(vectors.graph().width());
  const Texts texts = random_texts(24);
  std::vector<std::vector<float>> alone;
  for (const Ids& text : texts) alone.push_back(rows_of(vectors, {text}));
  std::uniform_int_distribution<std::size_t> which(0, texts.size() - 1), size(1, 8);
  for (int batch = 0; batch < (kSanitized ? 5 : 60); ++batch) {
    std::vector<std::size_t> chosen(size(random_));
    Texts mixed;
    for (std::size_t& one : chosen) mixed.push_back(texts[one = which(random_)]);
    const std::vector<float> got = rows_of(vectors, mixed);
    for (std::size_t i = 0; i < chosen.size(); ++i)
      ASSERT_EQ(std::memcmp(got.data() + i * width, alone[chosen[i]].data(), width * sizeof(float)),
                0)
          << "text " << chosen[i] << " of " << texts[chosen[i]].size() << " tokens";
  }
}

TEST_F(PackedEncoderTest, RandomMixesNeedNoMoreMemory) {
  EncoderDevice device(workers_);
  const Encoder vectors(EncoderForTests(EncoderOutput::hidden).take(), device,
                        pooled(TokenPooling::mean));
  std::uniform_int_distribution<std::size_t> count(1, 400);
  const auto run_tokens = [&](std::size_t tokens) {
    for (std::size_t done = 0; done < tokens;) {
      const PackedTexts packed(random_texts(count(random_)));
      std::vector<float> out((packed.cu_seqlens.size() - 1) * kWidth);
      EXPECT_TRUE(vectors.run(packed.tokens(), out).empty());
      done += packed.ids.size();
    }
  };
  run_tokens(kSanitized ? 30'000 : 500'000);
  const std::size_t before = resident();
  run_tokens(kSanitized ? 30'000 : 9'500'000);
  EXPECT_LT(resident(), before + (std::size_t{8} << 20));
}

TEST_F(PackedEncoderTest, ANewMixTakesLessThanAMillisecondToPrepare) {
  const Encoder vectors(
      EncoderForTests(EncoderOutput::hidden, false, EncoderVariant::none, 12, 32).take(), workers_,
      pooled(TokenPooling::mean));
  std::vector<double> ms;
  for (std::int64_t i = 0; i < 300; ++i) {
    const Instant start = Steady::now();
    vectors.program({700 + 2 * i, 1 + i % 40, 90});
    ms.push_back(1e3 * seconds_between(start, Steady::now()));
  }
  std::ranges::sort(ms);
  // The 90th percentile: other tests take the processor away meanwhile.
  EXPECT_LT(ms[ms.size() * 9 / 10], kPatience) << "median " << ms[ms.size() / 2];
}

TEST_F(PackedEncoderTest, ABadSequenceDoesNotAffectTheOthers) {
  const Encoder vectors = encoder(EncoderOutput::hidden, pooled(TokenPooling::mean));
  const Texts good = random_texts(2);
  Texts texts{good[0], {3, -1}, {}, Ids(kMaxLength + 1, 2), {1, EncoderForTests::kWords}, good[1]};
  const PackedTexts packed(texts);
  std::vector<float> out(texts.size() * kWidth, -1);
  const auto errors = vectors.run(packed.tokens(), out);
  ASSERT_EQ(errors.size(), 4u);
  EXPECT_EQ(errors[0].sequence, 1u);
  EXPECT_THAT(errors[0].reason, HasSubstr("token id -1 at token 1 is not in 0 to 49"));
  EXPECT_EQ(errors[1].sequence, 2u);
  EXPECT_THAT(errors[1].reason, HasSubstr("no tokens"));
  EXPECT_THAT(errors[2].reason, HasSubstr("97 tokens; the model takes at most 96"));
  EXPECT_THAT(errors[3].reason, HasSubstr("token id 50"));
  const std::vector<float> want = rows_of(vectors, good);
  for (std::size_t k = 0; k < kWidth; ++k) {
    EXPECT_EQ(out[k], want[k]);
    EXPECT_EQ(out[kWidth + k], 0);
    EXPECT_EQ(out[5 * kWidth + k], want[kWidth + k]);
  }
}

TEST_F(PackedEncoderTest, InconsistentOffsetsAreErrorsOfTheirSequences) {
  const Encoder vectors = encoder(EncoderOutput::hidden, pooled(TokenPooling::mean));
  const Ids ids{1, 2, 3, 4}, cu_seqlens{0, 3, 1, 9, -2, 4};
  std::vector<float> out(5 * kWidth);
  const auto errors = vectors.run({.ids = ids, .type_ids = {}, .cu_seqlens = cu_seqlens}, out);
  ASSERT_EQ(errors.size(), 4u);
  EXPECT_THAT(errors[0].reason, HasSubstr("cu_seqlens go from 3 to 1 in 4 tokens"));
  const std::vector<float> want = rows_of(vectors, {{1, 2, 3}});
  EXPECT_EQ(std::memcmp(out.data(), want.data(), kWidth * sizeof(float)), 0);
  EXPECT_THROW(
      vectors.run({.ids = ids, .type_ids = {}, .cu_seqlens = cu_seqlens}, std::span(out).first(7)),
      Error);
  EXPECT_TRUE(vectors.run({}, {}).empty());
}

TEST_F(PackedEncoderTest, ResultsThatAreNotFiniteAreErrors) {
  Graph graph = EncoderForTests(EncoderOutput::hidden).take();
  for (Value& value : graph.values)
    if (value.constant && value.constant.shape() == Shape{EncoderForTests::kWords, kWidth})
      value.constant.values<float>()[7 * kWidth] = std::numeric_limits<float>::quiet_NaN();
  const Encoder vectors(graph, workers_, pooled(TokenPooling::mean));
  const PackedTexts packed({{1, 2}, {7}, {3}});
  std::vector<float> out(3 * kWidth);
  const auto errors = vectors.run(packed.tokens(), out);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].sequence, 1u);
  EXPECT_THAT(errors[0].reason, HasSubstr("not finite"));
}

struct Ended {
  std::promise<EncodeResult> promise;
  std::function<void(EncodeResult)> done() {
    return [this](EncodeResult result) { promise.set_value(std::move(result)); };
  }
  EncodeResult wait() {
    auto future = promise.get_future();
    EXPECT_EQ(future.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    return future.get();
  }
};

TEST_F(PackedEncoderTest, ModelsOnADeviceAnswerSubmittedCallsFromOneArena) {
  EncoderDevice device(workers_);
  const Graph graph = EncoderForTests(EncoderOutput::hidden).take();
  const Encoder mean(graph, device, pooled(TokenPooling::mean));
  const Encoder first(graph, device, pooled(TokenPooling::first));
  const Texts texts = random_texts(30);
  const PackedTexts packed(texts);
  std::vector<float> a(texts.size() * kWidth), b(texts.size() * kWidth);
  for (int i = 0; i < 20; ++i) {
    Ended one, other;
    ASSERT_TRUE(mean.submit({.tokens = packed.tokens(), .out = a}, one.done()));
    ASSERT_TRUE(first.submit({.tokens = packed.tokens(), .out = b}, other.done()));
    EXPECT_TRUE(one.wait().errors.empty());
    EXPECT_FALSE(other.wait().error);
    EXPECT_EQ(a, rows_of(mean, texts));
    EXPECT_EQ(b, rows_of(first, texts));
  }
  const PackedGraph::Sizes sizes{static_cast<std::int64_t>(packed.ids.size()), 30, kMaxLength};
  EXPECT_LE(device.arena_bytes(), 2 * mean.program(sizes)->schedule().arena);
  EXPECT_GT(device.trim(), 0u);
  EXPECT_EQ(device.arena_bytes(), 0u);
}

TEST_F(PackedEncoderTest, SubmittedCallsExpireAreCancelledAndRefused) {
  EncoderDevice device(workers_, {.max_waiting = 1});
  const Encoder encoder(EncoderForTests(EncoderOutput::hidden).take(), device,
                        pooled(TokenPooling::mean));
  const Texts texts = random_texts(20'000);  // takes a while
  const PackedTexts packed(texts);
  std::vector<float> out(texts.size() * kWidth), more(texts.size() * kWidth);
  Ended running, waiting, refused;
  const auto ticket = encoder.submit({.tokens = packed.tokens(), .out = out}, running.done());
  while (device.counts().running == 0) std::this_thread::yield();
  const auto deadline = Steady::now() + std::chrono::milliseconds(1);
  ASSERT_TRUE(encoder.submit({.tokens = packed.tokens(), .out = more, .deadline = deadline},
                             waiting.done()));
  if (device.counts().waiting == 1) {
    EXPECT_FALSE(encoder.submit({.tokens = {}, .out = {}}, refused.done()));
  }
  EXPECT_THROW(std::rethrow_exception(waiting.wait().error), compute::DeadlineExceeded);
  ticket->cancel();
  EXPECT_THROW(std::rethrow_exception(running.wait().error), Cancelled);
  EXPECT_EQ(rows_of(encoder, {texts[0]}), rows_of(encoder, {texts[0]}));
}

TEST_F(PackedEncoderTest, AnEncoderMayEndBeforeItsCalls) {
  EncoderDevice device(workers_);
  const PackedTexts packed(random_texts(300));
  std::vector<float> out(300 * kWidth);
  Ended call;
  std::optional<Encoder> encoder(std::in_place, EncoderForTests(EncoderOutput::hidden).take(),
                                 device, pooled(TokenPooling::mean));
  ASSERT_TRUE(encoder->submit({.tokens = packed.tokens(), .out = out}, call.done()));
  encoder.reset();
  EXPECT_FALSE(call.wait().error);
}

// Appends nodes behind the model's output.
class Extended {
 public:
  explicit Extended(EncoderOutput end) : graph(EncoderForTests(end).take()) {}

  ValueId output() const { return graph.outputs[0]; }
  ValueId constant(const Tensor& tensor) {
    graph.values.push_back({.name = "c" + std::to_string(graph.values.size()), .constant = tensor});
    return static_cast<ValueId>(graph.values.size() - 1);
  }
  ValueId add(const std::string& op, std::vector<ValueId> inputs, const std::string& attribute = "",
              std::int64_t setting = 0) {
    graph.values.push_back({.name = op + std::to_string(graph.values.size())});
    const auto made = static_cast<ValueId>(graph.values.size() - 1);
    Node node{.name = op, .op = op, .domain = "", .version = 17};
    if (!attribute.empty()) node.attributes.set(attribute, setting);
    node.inputs = std::move(inputs);
    node.outputs = {made};
    graph.nodes.push_back(std::move(node));
    graph.outputs = {made};
    return made;
  }
  std::string refusal(compute::Workers& workers) const {
    try {
      const Encoder encoder(graph, workers, {.max_length = kMaxLength});
      return "none";
    } catch (const Error& error) {
      return std::string(error.reason());
    }
  }

  Graph graph;
};

TEST_F(PackedEncoderTest, ModelsThatMixABatchAreRefused) {
  Extended shares(EncoderOutput::first);
  shares.add("Softmax", {shares.output()}, "axis", 0);
  EXPECT_THAT(shares.refusal(workers_), HasSubstr("may mix the sequences of a batch"));
  Extended by_row(EncoderOutput::first);
  by_row.add("Neg", {by_row.output()});
  EXPECT_EQ(by_row.refusal(workers_), "none");
}

TEST_F(PackedEncoderTest, ModelsThatComputeWithALengthAreRefused) {
  for (const std::int64_t axis : {0, 1}) {
    Extended scaled(EncoderOutput::first);
    const ValueId out = scaled.output();
    const ValueId size = scaled.add("Gather", {scaled.add("Shape", {scaled.graph.inputs[0]}),
                                               scaled.constant(Tensor::of(axis))});
    scaled.add("Mul", {out, scaled.add("Cast", {size}, "to", 1)});
    EXPECT_THAT(scaled.refusal(workers_), HasSubstr("the number or the length")) << axis;
  }
}

TEST_F(PackedEncoderTest, OutputsOfOtherTypesAreRefused) {
  Graph graph = EncoderForTests(EncoderOutput::hidden).take();
  const auto half = static_cast<ValueId>(graph.values.size());
  graph.values.push_back({.name = "half", .dtype = DType::f16});
  Node cast{.name = "cast",
            .op = "Cast",
            .domain = "",
            .version = 13,
            .attributes = {},
            .inputs = {graph.outputs[0]},
            .outputs = {half},
            .subgraphs = {}};
  cast.attributes.set("to", std::int64_t{10});
  graph.nodes.push_back(std::move(cast));
  graph.outputs = {half};
  try {
    Encoder(graph, workers_, {.max_length = kMaxLength});
    FAIL() << "an output of f16 is taken for floats";
  } catch (const Error& error) {
    EXPECT_THAT(std::string(error.what()), HasSubstr("is f16, not f32"));
  }
}

TEST_F(PackedEncoderTest, ModelsThatReadPaddingAreRefusedWithTheReason) {
  const auto refusal = [&](EncoderOutput end, EncoderOptions options) -> std::string {
    try {
      encoder(end, options);
      return "none";
    } catch (const Error& error) {
      return std::string(error.reason());
    }
  };
  const EncoderOptions plain{.max_length = kMaxLength};
  EXPECT_THAT(refusal(EncoderOutput::mean, plain), HasSubstr("padding"));
  EXPECT_THAT(refusal(EncoderOutput::last, plain), HasSubstr("padding"));
  EXPECT_THAT(refusal(EncoderOutput::first, pooled(TokenPooling::mean)), HasSubstr("to pool"));
  EncoderOptions named = plain;
  named.output = "vectors";
  EXPECT_THAT(refusal(EncoderOutput::hidden, named), HasSubstr("no output 'vectors'"));
}

}  // namespace
}  // namespace sluice::engine
