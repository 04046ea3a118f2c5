// Complete blocks of common models, as exporters write them.
#include <cmath>
#include <limits>

#include "engine/passes/model_for_tests.h"

namespace sluice::engine {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;
using Ints = Attributes::Integers;

constexpr std::int64_t kBatch = 2, kLength = 5, kHeads = 3, kSize = 4, kWidth = kHeads * kSize;

// The form in which an exporter writes an encoder layer.
struct Spelling {
  bool spelled_norms = true, keys_in_two_turns = false, as_rows = false;
  enum class Scale { divided, multiplied, on_both } scale = Scale::divided;
  enum class Mask { none, added, chosen, broadcast } mask = Mask::added;
  bool guarded = false;                                    // rows that see nothing become zeros
  float hidden = -std::numeric_limits<float>::infinity();  // the score of masks that are chosen
  float gain = 1;                                          // multiplies the scores
};

class Encoder {
 public:
  explicit Encoder(const Spelling& how) : how_(how) {
    x_ = m.input(varied({kBatch, kLength, kWidth}));
    if (how.mask != Spelling::Mask::none) make_mask();
  }

  Model m{17};
  ValueId out() const { return x_; }

  // Post-norm, as in BERT, or pre-norm.
  void layer(bool norm_first) {
    const ValueId seen = attention(norm_first ? norm(x_) : x_);
    x_ = m.op("Add", {linear(seen, kWidth, kWidth), x_});
    if (!norm_first) x_ = norm(x_);
    const ValueId wide = gelu(linear(norm_first ? norm(x_) : x_, kWidth, 2 * kWidth));
    x_ = m.op("Add", {x_, linear(wide, 2 * kWidth, kWidth)});
    if (!norm_first) x_ = norm(x_);
  }

 private:
  void make_mask() {
    const Tensor keep(DType::f32, {kBatch, 1, 1, kLength});
    for (std::size_t i = 0; i < 10; ++i) keep.values<float>()[i] = i == 4 || i >= 8 ? 0 : 1;
    mask_ = m.input(keep);
    if (how_.mask == Spelling::Mask::chosen) {
      mask_ = m.op("Equal", {mask_, m.number(0)});
      return;
    }
    if (how_.mask == Spelling::Mask::broadcast)
      mask_ = m.op("Expand", {mask_, m.list({kBatch, 1, kLength, kLength})});
    mask_ = m.op("Mul", {m.op("Sub", {m.number(1), mask_}), m.number(-3.4e38f)});
  }

  ValueId norm(ValueId x) {
    if (!how_.spelled_norms)
      return m.op("LayerNormalization", {x, m.weights({kWidth}), m.weights({kWidth})});
    const auto mean = [&](ValueId of) { return m.op("ReduceMean", {of}, {{"axes", Ints{-1}}}); };
    const ValueId off = m.op("Sub", {x, mean(x)});
    const ValueId power = mean(m.op("Pow", {off, m.number(2)}));
    const ValueId y = m.op("Div", {off, m.op("Sqrt", {m.op("Add", {power, m.number(1e-6f)})})});
    return m.op("Add", {m.op("Mul", {y, m.weights({kWidth})}), m.weights({kWidth})});
  }

  ValueId gelu(ValueId x) {
    const ValueId erf = m.op("Erf", {m.op("Div", {x, m.number(std::sqrt(2.0f))})});
    return m.op("Mul", {m.op("Mul", {x, m.op("Add", {erf, m.number(1)})}), m.number(0.5f)});
  }

  ValueId linear(ValueId x, std::int64_t k, std::int64_t n) {
    if (!how_.as_rows) return m.op("Add", {m.weights({n}), m.op("MatMul", {x, m.weights({k, n})})});
    const ValueId rows = m.op("Reshape", {x, m.list({-1, k})});
    const ValueId y = m.op("Gemm", {rows, m.weights({k, n}), m.weights({n})});
    return m.op("Reshape", {y, m.list({kBatch, kLength, n})});
  }

  ValueId heads(ValueId x, const Ints& perm) {
    const ValueId four = m.op("Reshape", {x, m.list({0, 0, kHeads, kSize})});
    return m.op("Transpose", {four}, {{"perm", perm}});
  }

  ValueId masked(ValueId scores) {
    if (how_.mask == Spelling::Mask::none) return scores;
    if (how_.mask != Spelling::Mask::chosen) return m.op("Add", {scores, mask_});
    return m.op("Where", {mask_, m.number(how_.hidden), scores});
  }

  ValueId attention(ValueId x) {
    ValueId q = heads(linear(x, kWidth, kWidth), {0, 2, 1, 3}), k = linear(x, kWidth, kWidth);
    k = how_.keys_in_two_turns
            ? m.op("Transpose", {heads(k, {0, 2, 1, 3})}, {{"perm", Ints{0, 1, 3, 2}}})
            : heads(k, {0, 2, 3, 1});
    const ValueId v = heads(linear(x, kWidth, kWidth), {0, 2, 1, 3});
    const float root = std::sqrt(static_cast<float>(kSize));
    if (how_.scale == Spelling::Scale::on_both) {
      q = m.op("Mul", {q, m.number(1 / std::sqrt(root))});
      k = m.op("Mul", {k, m.number(1 / std::sqrt(root))});
    }
    ValueId scores = m.op("MatMul", {q, k});
    if (how_.scale == Spelling::Scale::divided) scores = m.op("Div", {scores, m.number(root)});
    if (how_.scale == Spelling::Scale::multiplied)
      scores = m.op("Mul", {m.number(1 / root), scores});
    if (how_.gain != 1) scores = m.op("Mul", {scores, m.number(how_.gain)});
    ValueId weights = m.op("Softmax", {masked(scores)}, {{"axis", std::int64_t{-1}}});
    if (how_.guarded) weights = m.op("Where", {m.op("IsNaN", {weights}), m.number(0), weights});
    const ValueId mixed =
        m.op("Transpose", {m.op("MatMul", {weights, v})}, {{"perm", Ints{0, 2, 1, 3}}});
    return m.op("Reshape", {mixed, m.list({0, 0, kWidth})});
  }

  const Spelling how_;
  ValueId x_ = kNoValue, mask_ = kNoValue;
};

std::vector<std::string> without_mask(std::vector<std::string> ops) {
  std::erase_if(ops, [](const std::string& op) { return op.find("sluice") == op.npos; });
  std::erase(ops, "sluice.Chain");
  return ops;
}

TEST(EncoderTest, BertLayerIsFusedToSevenNodesInEveryForm) {
  for (int how = 0; how < 48; ++how) {
    Encoder encoder({.spelled_norms = how % 2 == 0,
                     .keys_in_two_turns = how % 3 == 0,
                     .as_rows = how % 5 == 0,
                     .scale = static_cast<Spelling::Scale>(how % 3),
                     .mask = static_cast<Spelling::Mask>(how / 3 % 4)});
    encoder.layer(false);
    encoder.layer(false);
    encoder.m.output(encoder.out());
    Graph made;
    const auto ops = optimized_ops(encoder.m, &made);
    const std::vector<std::string> one = {"sluice.Linear", "sluice.Attention", "sluice.Linear",
                                          "sluice.Norm",   "sluice.Linear",    "sluice.Linear",
                                          "sluice.Norm"};
    std::vector<std::string> two = one;
    two.insert(two.end(), one.begin(), one.end());
    EXPECT_EQ(without_mask(ops), two) << how;
    EXPECT_LE(ops.size(), two.size() + 2) << how;  // what the mask is made of, once
    for (const Node& node : made.nodes)
      EXPECT_EQ(node.attributes.integer("packed", 1), 1) << describe(node);
  }
}

TEST(EncoderTest, FullyMaskedRowsAreZeroIfTheModelGuardsThem) {
  Encoder encoder({.mask = Spelling::Mask::chosen, .guarded = true});
  for (float& keep : encoder.m.given[1].values<float>()) keep = 0;
  encoder.layer(false);
  encoder.m.output(encoder.out());
  const auto ops = optimized_ops(encoder.m);
  EXPECT_THAT(ops, Contains("sluice.Attention"));
  EXPECT_THAT(ops, Not(Contains("Softmax")));
}

TEST(EncoderTest, FullyMaskedRowsWeighAllKeysEquallyForAnyLowNumber) {
  for (const float hidden : {-1e9f, -1e30f, std::numeric_limits<float>::lowest()})
    for (const float gain : {1.0f, 300.0f}) {  // scores below and above 32
      Encoder encoder({.mask = Spelling::Mask::chosen, .hidden = hidden, .gain = gain});
      for (float& keep : encoder.m.given[1].values<float>().first(kLength)) keep = 0;
      encoder.layer(false);
      encoder.m.output(encoder.out());
      EXPECT_THAT(optimized_ops(encoder.m), Contains("sluice.Attention")) << hidden;
      EXPECT_FALSE(HasFailure()) << hidden << " gain " << gain;
    }
}

TEST(EncoderTest, NumbersThatScoresMayReachAreNotFusedAsMasks) {
  Encoder encoder({.mask = Spelling::Mask::chosen, .hidden = -1e4f});
  encoder.layer(false);
  encoder.m.output(encoder.out());
  EXPECT_THAT(optimized_ops(encoder.m), Not(Contains("sluice.Attention")));
}

TEST(EncoderTest, PreNormLayersFuseResidualsIntoLinear) {
  Encoder encoder({.mask = Spelling::Mask::none});
  encoder.layer(true);
  encoder.layer(true);
  encoder.m.output(encoder.out());
  const std::vector<std::string> one = {"sluice.Norm",   "sluice.Linear", "sluice.Attention",
                                        "sluice.Linear", "sluice.Norm",   "sluice.Linear",
                                        "sluice.Linear"};
  std::vector<std::string> two = one;
  two.insert(two.end(), one.begin(), one.end());
  EXPECT_EQ(optimized_ops(encoder.m), two);
}

// Packed QKV, split along the last axis or along the first of five axes.
ValueId packed_attention(Model& m, ValueId all, bool stacked) {
  std::vector<ValueId> parts;
  if (stacked) {
    const ValueId five = m.op("Reshape", {all, m.list({kBatch, kLength, 3, kHeads, kSize})});
    const ValueId transposed = m.op("Transpose", {five}, {{"perm", Ints{2, 0, 3, 1, 4}}});
    for (std::int64_t i = 0; i < 3; ++i)
      parts.push_back(m.op("Gather", {transposed, m.constant(Tensor::of(i))}));
  } else {
    for (const ValueId part : m.many("Split", {all}, 3, {{"axis", std::int64_t{-1}}})) {
      const ValueId four = m.op("Reshape", {part, m.list({0, 0, kHeads, kSize})});
      parts.push_back(m.op("Transpose", {four}, {{"perm", Ints{0, 2, 1, 3}}}));
    }
  }
  const ValueId k = m.op("Transpose", {parts[1]}, {{"perm", Ints{0, 1, 3, 2}}});
  const ValueId scores = m.op("Mul", {m.op("MatMul", {parts[0], k}), m.number(0.5f)});
  const Tensor causal(DType::f32, {1, 1, kLength, kLength});
  for (std::size_t i = 0; i < 25; ++i)
    causal.values<float>()[i] = i % 5 > i / 5 ? -std::numeric_limits<float>::infinity() : 0;
  const ValueId seen = m.op("Softmax", {m.op("Add", {scores, m.constant(causal)})});
  const ValueId mixed =
      m.op("Transpose", {m.op("MatMul", {seen, parts[2]})}, {{"perm", Ints{0, 2, 1, 3}}});
  return m.op("Reshape", {mixed, m.list({kBatch, kLength, kWidth})});
}

TEST(DecoderTest, PackedQkvStaysOneGemm) {
  for (const bool stacked : {false, true}) {
    Model m;
    const ValueId x = m.input(varied({kBatch, kLength, kWidth}));
    const ValueId all = m.op(
        "Add", {m.op("MatMul", {x, m.weights({kWidth, 3 * kWidth})}), m.weights({3 * kWidth})});
    m.output(m.op("MatMul", {packed_attention(m, all, stacked), m.weights({kWidth, kWidth})}));
    EXPECT_THAT(optimized_ops(m), ElementsAre("sluice.Linear", "sluice.Attention", "sluice.Linear"))
        << stacked;
  }
}

TEST(DecoderTest, UncertainAttentionIsNotFused) {
  Model m;
  const ValueId x = m.input(varied({kBatch, kLength, kWidth}));
  const ValueId four = m.op("Reshape", {x, m.list({0, 0, kHeads, kSize})});
  const ValueId q = m.op("Transpose", {four}, {{"perm", Ints{0, 2, 1, 3}}});
  const ValueId k = m.op("Transpose", {four}, {{"perm", Ints{0, 2, 3, 1}}});
  const ValueId weights = m.op("Softmax", {m.op("MatMul", {q, k})});
  m.output(weights);  // somebody wants to see them
  m.output(m.op("Transpose", {m.op("MatMul", {weights, q})}, {{"perm", Ints{0, 2, 1, 3}}}));
  EXPECT_THAT(optimized_ops(m), Not(Contains("sluice.Attention")));
}

TEST(DecoderTest, PlainOnnxAttentionIsFused) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const bool blind : {false, true}) {
    Model m(23);
    const ValueId x = m.input(varied({kBatch, 2, kWidth})),
                  y = m.input(varied({kBatch, 3, kWidth}));
    const ValueId mask =
        m.constant(tensor_of<float>({2, 3}, {0, -inf, -inf, blind ? -inf : 1, -inf, -inf}));
    m.output(
        m.op("Attention", {x, y, y, mask}, {{"q_num_heads", kHeads}, {"kv_num_heads", kHeads}}));
    EXPECT_THAT(optimized_ops(m), ElementsAre(blind ? "Attention" : "sluice.Attention"));
  }
}

class Images {
 public:
  explicit Images(const Shape& shape) : x_(m.input(varied(shape))), channels_(shape[1]) {}

  Model m{17};
  ValueId x() const { return x_; }
  ValueId flat() { return m.op("Flatten", {m.op("GlobalAveragePool", {x_})}); }

  void conv(std::int64_t out, std::int64_t kernel, const Model::Settings& settings = {},
            std::int64_t group = 1, bool bias = false) {
    std::vector<ValueId> inputs{x_, m.weights({out, channels_ / group, kernel, kernel})};
    if (bias) inputs.push_back(m.weights({out}));
    Model::Settings all = settings;
    all.emplace_back("group", group);
    x_ = m.op("Conv", inputs, all);
    channels_ = out;
  }
  void norm() {
    const Tensor variance = varied({channels_}, 77);
    for (float& v : variance.values<float>()) v = v * v + 0.1f;
    x_ = m.op("BatchNormalization", {x_, m.weights({channels_}), m.weights({channels_}),
                                     m.weights({channels_}), m.constant(variance)});
  }
  void apply(const std::string& op) { x_ = m.op(op, {x_}); }
  void clip() { x_ = m.op("Clip", {x_, m.number(0), m.number(6)}); }
  void set(ValueId x, std::int64_t channels) {
    x_ = x;
    channels_ = channels;
  }
  std::int64_t channels() const { return channels_; }

 private:
  ValueId x_;
  std::int64_t channels_;
};

const Model::Settings kSame{{"pads", Ints{1, 1, 1, 1}}};

TEST(ImagesTest, ResidualBlocksAreFusedToConvolutions) {
  Images net({2, 3, 16, 16});
  net.conv(8, 7, {{"pads", Ints{3, 3, 3, 3}}, {"strides", Ints{2, 2}}});
  net.norm();
  net.apply("Relu");
  net.set(
      net.m.op("MaxPool", {net.x()},
               {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}}),
      8);
  const ValueId before = net.x();
  net.conv(4, 1);
  net.norm();
  net.apply("Relu");
  net.conv(4, 3, {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 2}}});
  net.norm();
  net.apply("Relu");
  net.conv(16, 1);
  net.norm();
  const ValueId main = net.x();
  net.set(before, 8);
  net.conv(16, 1, {{"strides", Ints{2, 2}}});
  net.norm();
  net.set(net.m.op("Relu", {net.m.op("Add", {main, net.x()})}), 16);
  net.m.output(net.m.op("Gemm", {net.flat(), net.m.weights({16, 10}), net.m.weights({10})}));
  EXPECT_THAT(optimized_ops(net.m), ElementsAre("Transpose", "sluice.Conv", "sluice.MaxPool",
                                                "sluice.Conv", "sluice.Conv", "sluice.Conv",
                                                "sluice.Conv", "ReduceMean", "sluice.Linear"));
}

TEST(ImagesTest, DepthwiseBlocksWithGatesStayChannelsLast) {
  for (const bool hard : {false, true}) {
    Images net({2, 4, 9, 9});
    const ValueId before = net.x();
    net.conv(8, 1);
    net.norm();
    hard ? net.apply("HardSwish") : net.clip();
    net.conv(8, 3, {{"auto_pad", std::string("SAME_UPPER")}}, 8);
    net.norm();
    hard ? net.apply("HardSwish") : net.clip();
    const ValueId wide = net.x();
    net.set(net.m.op("ReduceMean", {wide}, {{"axes", Ints{2, 3}}}), 8);
    net.conv(2, 1, {}, 1, true);
    net.apply("Relu");
    net.conv(8, 1, {}, 1, true);
    net.apply(hard ? "HardSigmoid" : "Sigmoid");
    net.set(net.m.op("Mul", {wide, net.x()}), 8);
    net.conv(4, 1);
    net.norm();
    net.set(net.m.op("Add", {net.x(), before}), 4);
    net.m.output(net.x());
    const auto ops = optimized_ops(net.m);
    EXPECT_EQ(std::count(ops.begin(), ops.end(), "Transpose"), 2) << hard;
    EXPECT_EQ(std::count(ops.begin(), ops.end(), "sluice.Conv"), 5) << hard;
    EXPECT_EQ(ops.size(), hard ? 10u : 9u);
  }
}

TEST(ImagesTest, DenseBlocksConcatenateChannelsInPlace) {
  Images net({1, 6, 8, 8});
  net.conv(6, 3, kSame);
  for (int i = 0; i < 3; ++i) {
    const ValueId before = net.x();
    const std::int64_t channels = net.channels();
    net.norm();
    net.apply("Relu");
    net.conv(8, 1);
    net.norm();
    net.apply("Relu");
    net.conv(4, 3, kSame);
    net.set(net.m.op("Concat", {before, net.x()}, {{"axis", std::int64_t{1}}}), channels + 4);
  }
  net.set(
      net.m.op("AveragePool", {net.x()}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}),
      net.channels());
  net.m.output(net.flat());
  const auto ops = optimized_ops(net.m);
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "Transpose"), 1);
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "Concat"), 3);
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "sluice.Conv"), 7);
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "sluice.Chain"), 3);
}

TEST(ImagesTest, ShuffledSplitAndPaddedChannelsStayChannelsLast) {
  Images net({1, 3, 7, 7});
  const ValueId edged = net.m.op("Pad", {net.x(), net.m.list({0, 0, 1, 2, 0, 0, 1, 0})});
  net.set(edged, 3);
  net.conv(8, 3, {{"dilations", Ints{2, 1}}});
  const auto halves =
      net.m.many("Split", {net.x(), net.m.list({4, 4})}, 2, {{"axis", std::int64_t{1}}});
  net.set(halves[0], 4);
  net.conv(4, 1);
  net.set(net.m.op("Concat", {net.x(), halves[1]}, {{"axis", std::int64_t{1}}}), 8);
  const ValueId table = net.m.op("Reshape", {net.x(), net.m.list({1, 2, 4, 5, 7})});
  const ValueId transposed = net.m.op("Transpose", {table}, {{"perm", Ints{0, 2, 1, 3, 4}}});
  net.set(net.m.op("Reshape", {transposed, net.m.list({1, 8, 5, 7})}), 8);
  net.set(net.m.op("Pad", {net.x(), net.m.list({0, 0, 0, 1, 0, 0, 1, 0}), net.m.number(-1)}), 8);
  net.set(
      net.m.op(
          "MaxPool", {net.x()},
          {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"ceil_mode", std::int64_t{1}}}),
      8);
  net.m.output(net.flat());
  EXPECT_THAT(optimized_ops(net.m),
              ElementsAre("Transpose", "sluice.Conv", "Split", "sluice.Conv", "Concat", "Transpose",
                          "Pad", "sluice.MaxPool", "ReduceMean"));
}

TEST(ImagesTest, UnsupportedNodesGetTheirImagesInNchw) {
  Images net({1, 4, 6, 6});
  net.conv(4, 3, kSame);
  net.set(net.m.op("LRN", {net.x()}, {{"size", std::int64_t{3}}}), 4);
  net.conv(4, 3, kSame);
  net.m.output(
      net.m.op("MaxPool", {net.x()}, {{"kernel_shape", Ints{2, 2}}, {"dilations", Ints{2, 2}}}));
  EXPECT_THAT(optimized_ops(net.m),
              ElementsAre("Transpose", "sluice.Conv", "Transpose", "LRN", "Transpose",
                          "sluice.Conv", "Transpose", "MaxPool"));
}

}  // namespace
}  // namespace sluice::engine
