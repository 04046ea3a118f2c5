// Hostile attributes and inputs: integer overflow, unbounded work, unaccounted memory.
#include <gmock/gmock.h>

#include <complex>
#include <cstdio>
#include <limits>
#include <numbers>

#include "engine/graph/graph_for_tests.h"
#include "engine/ops/one_op_for_tests.h"
#include "engine/ops/signal/fourier.h"
#include "engine/shapes/specialize.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;
constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kMegabyte = 1 << 20;

TEST(HostileOperatorsTest, OverflowingSequenceLengthsAreRejected) {
  const Tensor q = varied({1, 1, 8});
  for (const auto& cu_seqlens : std::vector<std::vector<std::int64_t>>{
           {kLargest, -kLargest - 1}, {-1, 0}, {1, 0}, {0, 2}, {2, 2}})
    EXPECT_THAT(OneOp("Attention", 1, "sluice")
                    .set("heads", std::int64_t{1})
                    .set("max_seqlen", std::int64_t{1000})
                    .refusal({q, q, q, {}, tensor_of<std::int64_t>({2}, cu_seqlens)}),
                HasSubstr("a sequence from"));
}

TEST(HostileOperatorsTest, EmptyHeadsAreRejected) {
  const Tensor q(DType::f32, {1, 1, 0});
  EXPECT_THAT(
      OneOp("Attention", 1, "sluice").set("heads", std::int64_t{1} << 62).refusal({q, q, q}),
      HasSubstr("heads do not fit"));
  EXPECT_THAT(OneOp("Attention", 23)
                  .set("q_num_heads", std::int64_t{1} << 62)
                  .set("kv_num_heads", std::int64_t{1} << 62)
                  .refusal({q, q, q}),
              HasSubstr("heads"));
}

TEST(HostileOperatorsTest, BlocksLargerThanTheAxisStillNeedScales) {
  const Tensor x(DType::i8, {4, 64}), none(DType::f32, {0, 64});
  for (const std::string op : {"DequantizeLinear", "QuantizeLinear"})
    EXPECT_THAT(OneOp(op, 21)
                    .set("axis", std::int64_t{0})
                    .set("block_size", kLargest)
                    .refusal({op == "QuantizeLinear" ? varied({4, 64}) : x, none}),
                HasSubstr("scales of shape"));
  const Tensor ones = tensor_of<float>({1, 1}, {2});
  const Tensor three = tensor_of<std::int8_t>({3, 1}, {1, 2, 3});
  EXPECT_EQ(list_of<float>(OneOp("DequantizeLinear", 21)
                               .set("axis", std::int64_t{0})
                               .set("block_size", kLargest)
                               .run({three, ones})[0]),
            (std::vector<float>{2, 4, 6}));
}

TEST(HostileOperatorsTest, StringContentsAreAccounted) {
  const Tensor text = Tensor::of(std::string(kMegabyte, 'x'));
  const Tensor list = text.reshaped(Shape{1});
  const Tensor many = tensor_of<std::int64_t>({1}, {64});
  const TensorMemory limit(limited_memory(16 * kMegabyte));
  EXPECT_NE(OneOp("Expand", 13).refusal({list, many}), "accepted");
  EXPECT_NE(OneOp("Tile", 13).refusal({list, many}), "accepted");
  EXPECT_NE(OneOp("Gather", 13)
                .refusal({list, tensor_of<std::int64_t>({64}, std::vector<std::int64_t>(64))}),
            "accepted");
  EXPECT_NE(OneOp("ConstantOfShape", 20).set("value", list).refusal({many}), "accepted");
  EXPECT_EQ(OneOp("StringConcat", 20).refusal({list, list}), "accepted");
  Tensor longer = list;
  EXPECT_THROW(
      for (int i = 0; i < 5; ++i) longer = OneOp("StringConcat", 20).run({longer, longer})[0],
      Error);
}

TEST(HostileOperatorsTest, ResizeWorkspaceIsAccounted) {
  const Tensor x = tensor_of<std::uint8_t>({1}, {7});
  const Tensor size = tensor_of<std::int64_t>({1}, {1'000'000});
  for (const std::string mode : {"nearest", "linear"}) {
    const TensorMemory limit(limited_memory(16 * kMegabyte));
    EXPECT_NE(OneOp("Resize", 19).set("mode", mode).refusal({x, {}, {}, size}), "accepted");
  }
}

TEST(HostileOperatorsTest, PatternRangesAreMergedOrRejected) {
  std::string same, apart;
  for (int i = 0; i < 2000; ++i) {
    same += "\\x{3000}-\\x{5fff}";
    char range[16];
    std::snprintf(range, sizeof range, "\\x{%x}", 0x3000 + 2 * i);
    apart += range;
  }
  const auto refusal = [](const std::string& pattern) {
    return OneOp("RegexFullMatch", 20)
        .set("pattern", pattern)
        .refusal({Tensor::of(std::string("x"))});
  };
  EXPECT_EQ(refusal("((?:(?i)[" + same + "])?){1000}"), "accepted");
  EXPECT_THAT(refusal("[" + apart + "]{1000}"), HasSubstr("pattern too large"));
}

TEST(HostileOperatorsTest, PrimeLengthTransformMatchesTheDefinition) {
  for (const std::size_t n : {67u, 2u * 101u}) {
    Fourier::Row x(n);
    for (std::size_t i = 0; i < n; ++i)
      x[i] = {static_cast<double>(i % 7) - 3, static_cast<double>(i % 5)};
    const Fourier::Row got = Fourier(n, false)(x), back = Fourier(n, true)(got);
    for (std::size_t k = 0; k < n; ++k) {
      std::complex<double> sum = 0;
      for (std::size_t i = 0; i < n; ++i)
        sum += x[i] * std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(i * k % n) /
                                          static_cast<double>(n));
      EXPECT_LT(std::abs(got[k] - sum), 1e-9);
      EXPECT_LT(std::abs(back[k] - x[k]), 1e-9);
    }
  }
  const Fourier::Row large = Fourier(100'003, false)(Fourier::Row(100'003, 1.0));
  EXPECT_NEAR(large[0].real(), 100'003, 1e-3);
}

// Types must be declared before the computation, which would never end for these nodes.
TEST(HostileOperatorsTest, TypeInferenceCostsNothing) {
  compute::Workers workers(1);
  const auto ask = [&](const std::function<ValueId(GraphBuilder&, ValueId)>& make, TensorType of) {
    GraphBuilder b(20);
    const ValueId made = make(b, b.input("x"));
    return specialize(b.output(made).take(), std::span(&of, 1), workers).nodes.size();
  };
  const std::int64_t large = 268'435'399;
  EXPECT_EQ(ask(
                [&](GraphBuilder& b, ValueId x) {
                  return b.node("DFT", {x, b.constant(Tensor::of(large))});
                },
                {DType::f32, {1, 1, 1}}),
            1u);
  EXPECT_EQ(ask(
                [&](GraphBuilder& b, ValueId x) {
                  return b.node("Einsum", {x, x}, {{"equation", std::string("i,j->")}});
                },
                {DType::f32, {1'000'000}}),
            1u);
  EXPECT_EQ(ask(
                [&](GraphBuilder& b, ValueId x) {
                  const ValueId rois = b.constant(varied({1, 4}));
                  return b.node("RoiAlign", {x, rois, b.integers({0})},
                                {{"sampling_ratio", std::int64_t{4096}},
                                 {"output_height", std::int64_t{1000}},
                                 {"output_width", std::int64_t{1000}}});
                },
                {DType::f32, {1, 1, 4, 4}}),
            1u);
  // Constants only, but too expensive to fold.
  EXPECT_EQ(
      ask(
          [&](GraphBuilder& b, ValueId x) {
            const ValueId a = b.constant(varied({200'000}));
            const ValueId sum = b.node("Einsum", {a, a}, {{"equation", std::string("i,j->")}});
            return b.node("Add", {x, sum});
          },
          {DType::f32, {}}),
      2u);
  EXPECT_EQ(ask(
                [&](GraphBuilder& b, ValueId x) {
                  const ValueId words = b.integers(std::vector<std::int64_t>(3000, 1));
                  const ValueId found = b.node("TfIdfVectorizer", {words},
                                               {{"mode", std::string("TF")},
                                                {"min_gram_length", std::int64_t{1}},
                                                {"max_gram_length", std::int64_t{3000}},
                                                {"max_skip_count", std::int64_t{3000}},
                                                {"ngram_counts", Attributes::Integers{0}},
                                                {"ngram_indexes", Attributes::Integers{0}},
                                                {"pool_int64s", Attributes::Integers{1}}});
                  return b.node("Add", {x, found});
                },
                {DType::f32, {1}}),
            2u);
}

// Pointers into an unused output stay valid: the scores of a classifier with only labels as output.
TEST(HostileOperatorsTest, UnusedOutputsAreKeptWhileTheOperatorRuns) {
  const Tensor x = varied({1000, 4});
  const std::vector<float> weights(12, 1), none(3, 0);
  OneOp op = OneOp("LinearClassifier", 1, "ai.onnx.ml")
                 .set("coefficients", weights)
                 .set("intercepts", none)
                 .set("classlabels_ints", std::vector<std::int64_t>{0, 1, 2});
  const auto labels = op.run({x}, 1);
  EXPECT_EQ(list_of<std::int64_t>(labels[0]), list_of<std::int64_t>(op.run({x}, 2)[0]));
}

// A pass may give an input beyond the last one a meaning that the operator does not.
TEST(HostileOperatorsTest, InputsThatTheOperatorDoesNotHaveAreRejected) {
  const Tensor x = varied({4, 4});
  for (const char* op : {"MatMul", "Add", "Mul", "Pow"}) {
    EXPECT_THAT(OneOp(op, 21).refusal({x, x, x}), HasSubstr("has 3 inputs, and the operator"))
        << op;
    EXPECT_EQ(OneOp(op, 21).refusal({x, x, {}}), "accepted") << op;
  }
  EXPECT_THAT(OneOp("Relu", 21).refusal({x, x}), HasSubstr("takes 1 at most"));
  EXPECT_THAT(OneOp("Gemm", 21).refusal({x, x, x, x}), HasSubstr("takes 3 at most"));
  EXPECT_THAT(OneOp("Conv", 21).refusal({x, x, x, x}), HasSubstr("takes 3 at most"));
  EXPECT_EQ(OneOp("Max", 21).refusal({x, x, x, x}), "accepted");
  EXPECT_EQ(OneOp("Gemm", 21).refusal({x, x, x}), "accepted");
}

TEST(HostileOperatorsTest, QuantizedConvolutionsRejectAutoPad) {
  const Tensor x(DType::u8, {1, 4, 4, 16}), w(DType::i8, {8, 16, 3, 3});
  const Tensor scale = tensor_of<float>({8}, std::vector<float>(8, 1));
  for (const std::string pad : {"VALID", "SAME_UPPER", "NOTSET"})
    EXPECT_THAT(OneOp("QuantizedConv", 1, "sluice")
                    .set("auto_pad", pad)
                    .set("pads", std::vector<std::int64_t>{1, 1, 1, 1})
                    .refusal({x, w, {}, {}, scale}),
                HasSubstr("auto_pad is not known here"));
}

TEST(HostileOperatorsTest, EmptyGemmsGiveEmptyOutputs) {
  for (const DType type : {DType::f32, DType::f64}) {
    const Tensor none(type, {0, 8}), w(type, {8, 16});
    EXPECT_EQ(OneOp("Gemm", 13).run({none, w})[0].shape(), (Shape{0, 16}));
    EXPECT_EQ(OneOp("MatMul", 13).run({none, w})[0].shape(), (Shape{0, 16}));
    const Tensor narrow(type, {8, 0});
    EXPECT_EQ(OneOp("Gemm", 13).run({Tensor(type, {4, 8}), narrow})[0].shape(), (Shape{4, 0}));
  }
}

// 16-bit strip offsets, and strips that all refer to the same row.
TEST(HostileOperatorsTest, TruncatedImagesAreRejected) {
  std::vector<std::uint8_t> file{'I', 'I', 42, 0, 8, 0, 0, 0, 9, 0};
  const auto tag = [&](std::uint16_t id, std::uint32_t value) {
    for (const std::uint32_t part : {std::uint32_t{id} | 4u << 16, 1u, value})
      for (int i = 0; i < 4; ++i) file.push_back(static_cast<std::uint8_t>(part >> (8 * i)));
  };
  tag(256, 64), tag(257, 30000), tag(258, 8), tag(259, 1), tag(262, 1), tag(273, 0), tag(277, 1);
  tag(278, 30000), tag(284, 1);
  const auto size = static_cast<std::int64_t>(file.size());
  EXPECT_THAT(OneOp("ImageDecoder", 20).refusal({tensor_of<std::uint8_t>({size}, file)}),
              HasSubstr("ends too early"));
}

}  // namespace
}  // namespace sluice::engine
