#include "engine/passes/padding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "engine/encoder_for_tests.h"
#include "engine/passes/passes.h"
#include "engine/session/session.h"
#include "engine/session/unpad.h"
#include "engine/shapes/varlen.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

std::vector<Tensor> outputs(const Session& session, const std::vector<Tensor>& inputs) {
  const std::vector<Datum> given(inputs.begin(), inputs.end());
  std::vector<Tensor> made;
  for (const Datum& datum : session.run(given)) made.push_back(datum.tensor);
  return made;
}

class PaddingTest : public ::testing::Test {
 protected:
  // A session without padding must give the same results, except for zeros at padding.
  void check(const Graph& graph, const std::vector<Tensor>& inputs, bool skips = true) {
    const Session plain(graph, workers_, {.compile = false});
    const Session packed(graph, workers_, {.skip_padding = true});
    const std::vector<Tensor> got = outputs(packed, inputs), want = outputs(plain, inputs);
    EXPECT_EQ(packed.ready(inputs).inputs.size() > inputs.size(), skips) << packed.padding_kept();
    EXPECT_EQ(packed.padding_kept(), "");
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const Tensor right = without_padding(want[i], inputs[1]);
      ASSERT_EQ(to_string(got[i].shape()), to_string(right.shape()));
      for (std::size_t k = 0; k < right.values<float>().size(); ++k)
        ASSERT_NEAR(got[i].values<float>()[k], right.values<float>()[k], 2e-5) << i << " at " << k;
    }
  }
  std::string refusal(const Graph& graph, const std::vector<Tensor>& inputs) {
    const Session session(graph, workers_, {.skip_padding = true});
    const Session plain(graph, workers_, {.compile = false});
    const Tensor got = outputs(session, inputs)[0], want = outputs(plain, inputs)[0];
    for (std::size_t k = 0; k < want.values<float>().size(); ++k)
      EXPECT_NEAR(got.values<float>()[k], want.values<float>()[k], 2e-5);
    return session.padding_kept();
  }

  compute::Workers workers_{2};
};

TEST_F(PaddingTest, TokensAreUnchangedForEveryModelOutput) {
  const auto inputs = sequences({30, 1, 17, 64}, 64);
  for (const EncoderOutput end : {EncoderOutput::hidden, EncoderOutput::first,
                                  EncoderOutput::masked_mean, EncoderOutput::all})
    for (const bool as_rows : {false, true}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(end)) + (as_rows ? " as rows" : ""));
      check(EncoderForTests(end, as_rows).take(), inputs);
    }
}

TEST_F(PaddingTest, SequencesMayHaveAnyLengths) {
  const Graph graph = EncoderForTests(EncoderOutput::hidden).take();
  check(graph, sequences({5}, 90));
  check(graph, sequences({90}, 90), false);
  check(graph, sequences({1, 1, 1, 1, 1, 1, 1}, 33));
  check(graph, sequences({33, 2, 33, 9, 20}, 33));
  check(graph, sequences({20, 11}, 40, 19));  // padding before, and behind
  check(graph, sequences({32, 4}, 32, 0));    // as long as it is wide
}

TEST_F(PaddingTest, FullyPaddedSequencesAreZero) {
  const Graph graph = EncoderForTests(EncoderOutput::hidden).take();
  const auto inputs = sequences({0, 40, 0}, 48);
  const Session packed(graph, workers_, {.skip_padding = true});
  const Tensor got = outputs(packed, inputs)[0];
  for (std::size_t k = 0; k < 48 * 32; ++k) EXPECT_EQ(got.values<float>()[k], 0);
  const Tensor none = outputs(packed, sequences({0, 0, 0}, 48))[0];
  for (const float x : none.values<float>()) EXPECT_EQ(x, 0);
}

TEST_F(PaddingTest, NonBinaryMasksRunWithPadding) {
  const auto inputs = sequences({30, 20}, 64);
  inputs[1].values<std::int64_t>()[40] = -1;
  EXPECT_THAT(refusal(EncoderForTests(EncoderOutput::hidden).take(), inputs),
              HasSubstr("other numbers"));
}

TEST_F(PaddingTest, BatchesThatAreNotWorthPackingSaySo) {
  const Graph graph = EncoderForTests(EncoderOutput::hidden).take();
  EXPECT_THAT(refusal(graph, sequences({1, 0, 1}, 1)), HasSubstr("fewer than 64 positions"));
  EXPECT_THAT(refusal(graph, sequences({64, 63}, 64)), HasSubstr("too little padding"));
}

TEST_F(PaddingTest, ModelsThatReadTheFirstPositionNeedATokenThere) {
  const Graph graph = EncoderForTests(EncoderOutput::first).take();
  check(graph, sequences({30, 20}, 64));
  EXPECT_THAT(refusal(graph, sequences({30, 20}, 64, 30)), HasSubstr("first position"));
  EXPECT_THAT(refusal(graph, sequences({30, 0}, 64)), HasSubstr("first position"));
}

TEST_F(PaddingTest, CallsThatKeepPaddingDoNotAffectOthers) {
  const Session session(EncoderForTests(EncoderOutput::first).take(), workers_,
                        {.skip_padding = true});
  outputs(session, sequences({1, 2}, 4));  // too small to look
  outputs(session, sequences({30, 20}, 64, 30));
  EXPECT_NE(session.padding_kept(), "");
  const auto inputs = sequences({30, 20}, 64);
  EXPECT_GT(session.ready(inputs).inputs.size(), inputs.size());
  EXPECT_EQ(session.padding_kept(), "");
  EXPECT_THROW(session.ready(std::span(inputs).first(1)), Error);
  const std::vector<TensorType> odd(6, {DType::i32, {64}});
  EXPECT_FALSE(session.compiled(odd).program);
  EXPECT_FALSE(session.compiled(std::span(odd).first(1)).program);
}

TEST_F(PaddingTest, NodesThatMayReadPaddingKeepIt) {
  const auto inputs = sequences({30, 20}, 64);
  const std::pair<EncoderOutput, const char*> ends[] = {{EncoderOutput::mean, "ReduceMean"},
                                                        {EncoderOutput::last, "Gather"},
                                                        {EncoderOutput::mean_of_rest, "Slice"},
                                                        {EncoderOutput::backwards, "Slice"}};
  for (const auto& [end, node] : ends)
    EXPECT_THAT(refusal(EncoderForTests(end).take(), inputs), HasSubstr(node));
  Graph other = EncoderForTests(EncoderOutput::hidden).take();
  for (Node& node : other.nodes)
    if (node.op == "Sub") node.op = "Add";  // shut out where it is 1 too
  EXPECT_THAT(refusal(other, inputs), HasSubstr("shuts padding out"));
  Graph without = EncoderForTests(EncoderOutput::hidden).take();
  for (Node& node : without.nodes)
    if (node.op == "Softmax") node.op = "Sigmoid";
  EXPECT_THAT(refusal(without, inputs), HasSubstr("no attention"));
}

TEST_F(PaddingTest, CrossAttentionKeepsThePadding) {
  auto inputs = sequences({30, 20}, 64);
  const auto twisted = [](EncoderVariant twist) {
    return EncoderForTests(EncoderOutput::hidden, false, twist).take();
  };
  EXPECT_THAT(refusal(twisted(EncoderVariant::first_is_seen), inputs),
              HasSubstr("shuts padding out"));
  inputs.push_back(varied({2, 64, 32}, 5));
  for (const EncoderVariant twist :
       {EncoderVariant::keys_of_others, EncoderVariant::queries_with_others})
    EXPECT_THAT(refusal(twisted(twist), inputs), HasSubstr("not among tokens"));
}

TEST_F(PaddingTest, DifferentShapesMayHaveDifferentMasks) {
  int calls_made = 0;
  PaddingSkipper skipper(true, [&](std::span<const TensorType> types) {
    ++calls_made;
    if (types[0].shape[0] == 3) throw Error(Code::unavailable, "three are odd");
    if (types[0].shape[0] == 4) throw Error(Code::exhausted, "four are many");
    return PaddingMask{types[0].shape[0] == 1 ? 0u : 1u, types[0].shape[0] == 1};
  });
  const auto offsets = [&](std::vector<std::int64_t> first, std::vector<std::int64_t> second) {
    const std::vector<Datum> given{sequences(first, 64)[1], sequences(second, 64)[1]};
    const auto varlen = skipper.varlen_batch(given);
    return varlen ? varlen->inputs[3].values<std::int32_t>()[1] : -1;
  };
  for (int time = 0; time < 2; ++time) {
    EXPECT_EQ(offsets({10}, {20}), 10);
    EXPECT_EQ(offsets({10, 30}, {20, 30}), 20);
    EXPECT_EQ(offsets({0}, {20}), -1);  // it looks at the first
    EXPECT_THAT(skipper.why_not(), HasSubstr("first position"));
    EXPECT_EQ(offsets({9, 9, 9}, {9, 9, 9}), -1);
    EXPECT_EQ(skipper.why_not(), "three are odd");
  }
  EXPECT_EQ(calls_made, 3);  // once for each
  EXPECT_EQ(offsets({9, 9, 9, 9}, {9, 9, 9, 9}), -1);
  EXPECT_THAT(skipper.why_not(), HasSubstr("no memory"));
}

TEST_F(PaddingTest, BatchesOfSimilarTokenCountsShareAProgram) {
  const Session packed(EncoderForTests(EncoderOutput::hidden).take(), workers_,
                       {.skip_padding = true});
  const auto program = [&](std::int64_t length) {
    return packed.ready(sequences({64, length}, 64)).compiled.program;
  };
  EXPECT_EQ(program(9), program(12));
  EXPECT_NE(program(9), program(40));
}

TEST_F(PaddingTest, ManyThreadsWithManyLengthsShareASession) {
  const Graph graph = EncoderForTests(EncoderOutput::hidden).take();
  const Session plain(graph, workers_, {.compile = false});
  const Session packed(graph, workers_, {.skip_padding = true});
  std::vector<std::vector<Tensor>> calls;
  std::vector<Tensor> expected;
  for (const std::int64_t length : {1, 9, 20, 33, 47, 64}) {
    calls.push_back(sequences({length, 64 - length, 30}, 64));
    expected.push_back(without_padding(outputs(plain, calls.back())[0], calls.back()[1]));
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 12; ++i) {
        const std::size_t call = (t + i) % calls.size();
        const Tensor got = outputs(packed, calls[call])[0];
        for (std::size_t k = 0; k < got.values<float>().size(); ++k)
          if (!(std::abs(got.values<float>()[k] - expected[call].values<float>()[k]) < 2e-5f))
            ++wrong;
        packed.padding_kept();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(PaddingTest, PlansContainUnpaddedPrograms) {
  const Graph graph = EncoderForTests(EncoderOutput::all).take();
  const auto inputs = sequences({30, 1, 17, 64}, 64);
  const Session first(graph, workers_, {.skip_padding = true});
  const std::vector<Tensor> want = outputs(first, inputs);
  Session second(first.plan({"model", "cpu", "", "fp32", "1"}), workers_, {.skip_padding = true});
  const Session::Ready ready = second.ready(inputs);
  EXPECT_TRUE(ready.compiled.passes.empty()) << "it was compiled again";
  EXPECT_EQ(ready.inputs.size(), inputs.size() + VarlenBatch::kInputs);
  const std::vector<Tensor> got = outputs(second, inputs);
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_THAT(std::vector<float>(got[i].values<float>().begin(), got[i].values<float>().end()),
                ::testing::ElementsAreArray(want[i].values<float>()));
}

TEST_F(PaddingTest, UnpaddedBatchesAreSplitIfMemoryIsNotSufficient) {
  Graph graph = EncoderForTests(EncoderOutput::hidden).take();
  for (const ValueId input : graph.inputs) graph[input].dims = {{-1, "batch"}, {-1, "length"}};
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 64; ++i) lengths.push_back(20 + i % 44);
  const auto inputs = sequences(lengths, 64);
  const Session whole(graph, workers_, {.skip_padding = true});
  const std::size_t arena = whole.ready(inputs).compiled.program->schedule().arena;
  const Session packed(graph, workers_, {.memory = arena, .skip_padding = true});
  const Session plain(graph, workers_, {.compile = false});
  const Tensor got = outputs(packed, inputs)[0];
  const Tensor want = without_padding(outputs(plain, inputs)[0], inputs[1]);
  for (std::size_t k = 0; k < want.values<float>().size(); ++k)
    ASSERT_NEAR(got.values<float>()[k], want.values<float>()[k], 2e-5) << k;
}

}  // namespace
}  // namespace sluice::engine
