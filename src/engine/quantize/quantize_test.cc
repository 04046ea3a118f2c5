#include "engine/quantize/quantize.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

#include "engine/graph/graph_for_tests.h"
#include "engine/ops/one_op_for_tests.h"
#include "engine/quantize/quantize_fold.h"
#include "engine/quantize/quantize_loss.h"
#include "engine/quantize/quantize_opset.h"
#include "engine/quantize/quantize_weights.h"

namespace sluice::engine {
namespace {

using testing::HasSubstr;
using Scheme = QuantizeOptions::Scheme;

std::string reason_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return std::string(error.reason());
  }
  return "no error";
}

class QuantizeModelTest : public testing::Test {
 protected:
  // Two GEMMs with an activation in between, [n, 32] to [n, 8].
  static Graph mlp(int opset = 17) {
    GraphBuilder b(opset);
    const ValueId x = b.input("x");
    const ValueId hidden =
        b.node("Relu",
               {b.node("Gemm", {x, b.constant(varied({32, 48}, 2)), b.constant(varied({48}, 3))})});
    return b.output(b.node("MatMul", {hidden, b.constant(varied({48, 8}, 4))})).take();
  }
  static Sample sample(std::size_t i) { return {varied({6, 32}, 10 + static_cast<unsigned>(i))}; }

  Graph quantized_model(const Graph& graph, const QuantizeOptions& options,
                        const RangeMethod& method = {}) {
    const Graph ready = prepare_to_quantize(graph, workers);
    double last = 0;
    const auto ranges = find_ranges(ready, values_to_quantize(ready, options), 4, sample, method,
                                    workers, [&](double share) { last = share; });
    EXPECT_EQ(last, 1);
    return quantize(ready, ranges, options);
  }

  double loss(const Graph& should, const Graph& is) {
    const Session a(should, workers), b(is, workers);
    LossMeter meter;
    for (std::size_t i = 0; i < 4; ++i) {
      const Sample inputs = sample(i);
      const std::vector<Datum> given(inputs.begin(), inputs.end());
      meter.add(a.run(given)[0].tensor, b.run(given)[0].tensor);
    }
    return meter.loss().relative;
  }

  compute::Workers workers{2};
};

TEST_F(QuantizeModelTest, EverySchemeReducesSizeWithLowLoss) {
  const Graph before = mlp();
  struct Kind {
    Scheme scheme;
    double max, smaller;
  };
  for (const auto& [scheme, max, smaller] :
       {Kind{Scheme::int8, 0.02, 3}, Kind{Scheme::fp8, 0.08, 3},
        Kind{Scheme::int8_weights, 0.01, 3}, Kind{Scheme::int4_weights, 0.15, 5}}) {
    SCOPED_TRACE(static_cast<int>(scheme));
    const Graph after = quantized_model(before, {.scheme = scheme});
    const double lost = loss(before, after);
    EXPECT_GT(lost, 0);
    EXPECT_LT(lost, max);
    EXPECT_GT(static_cast<double>(weight_bytes(before)),
              smaller * static_cast<double>(weight_bytes(after)));
  }
}

TEST_F(QuantizeModelTest, PlansOfQuantizedModelsGiveTheSameResult) {
  for (const Scheme scheme : {Scheme::int8, Scheme::fp8, Scheme::int4_weights}) {
    SCOPED_TRACE(static_cast<int>(scheme));
    const Session session(quantized_model(mlp(), {.scheme = scheme}), workers);
    const std::vector<Datum> given{sample(7)[0]};
    const Tensor before = session.run(given)[0].tensor;
    const std::string file = testing::TempDir() + "quantized-" + std::to_string(::getpid());
    write_plan(file, session.plan({"model", "cpu", "", "fp32", "1"}));
    Plan plan = read_plan(file, workers);
    EXPECT_EQ(plan.shapes.size(), 1u);
    const Tensor after = Session(std::move(plan), workers).run(given)[0].tensor;
    EXPECT_EQ(std::memcmp(before.data(), after.data(), before.bytes()), 0);
    std::filesystem::remove(file);
  }
}

TEST_F(QuantizeModelTest, SignedActivationsHaveZeroPointZero) {
  const Graph after = quantized_model(mlp(), {.activations = DType::i8});
  for (const Node& node : after.nodes)
    if (node.op == "QuantizeLinear") {
      EXPECT_EQ(after[node.inputs[2]].constant.values<std::int8_t>()[0], 0);
    }
  EXPECT_LT(loss(mlp(), after), 0.02);
}

TEST_F(QuantizeModelTest, EveryMethodFindsARange) {
  EXPECT_LT(loss(mlp(), quantized_model(mlp(), {}, {RangeMethod::Kind::minmax})), 0.02);
  EXPECT_LT(loss(mlp(), quantized_model(mlp(), {}, {RangeMethod::Kind::percentile})), 0.05);
  EXPECT_LT(loss(mlp(), quantized_model(mlp(), {}, {RangeMethod::Kind::entropy})),
            0.15);  // of little data
}

TEST_F(QuantizeModelTest, NodesCanBeKeptByName) {
  const Graph graph = mlp();
  const Graph after = quantized_model(graph, {.keep = {graph.nodes[0].name}});
  EXPECT_EQ(std::ranges::count(after.nodes, "QuantizeLinear", &Node::op), 1);
  EXPECT_THAT(reason_of([&] { quantized_model(graph, {.keep = {"nobody"}}); }),
              HasSubstr("'nobody'"));
}

TEST_F(QuantizeModelTest, GraphsWithoutGemmsAreRejected) {
  GraphBuilder b;
  const Graph graph = b.output(b.node("Relu", {b.input("x")})).take();
  EXPECT_THAT(reason_of([&] { quantize(graph, {}, {}); }), HasSubstr("nothing to quantize"));
}

TEST_F(QuantizeModelTest, ValuesWithoutARangeAreRejectedByName) {
  const Graph graph = mlp();
  const auto infinite = [](std::size_t) -> Sample {
    Tensor x = varied({6, 32});
    x.values<float>()[5] = HUGE_VALF;
    return {x};
  };
  EXPECT_THAT(reason_of([&] {
                find_ranges(graph, values_to_quantize(graph, {}), 1, infinite, {}, workers,
                            [](double) {});
              }),
              HasSubstr("'x' is infinite"));
}

TEST_F(QuantizeModelTest, BatchNormsAreFoldedIntoConvolutions) {
  GraphBuilder b;
  const ValueId conv =
      b.node("Conv", {b.input("x"), b.constant(varied({4, 3, 1, 1})), b.constant(varied({4}))});
  Tensor variance = varied({4}, 9);
  for (float& x : variance.values<float>()) x = x * x + 0.5f;
  const Graph graph = b.output(b.node("BatchNormalization",
                                      {conv, b.constant(varied({4}, 5)), b.constant(varied({4}, 6)),
                                       b.constant(varied({4}, 7)), b.constant(variance)}))
                          .take();
  const Graph folded = prepare_to_quantize(graph, workers);
  EXPECT_EQ(folded.nodes.size(), 1u);
  const std::vector<Datum> given{varied({2, 3, 5, 5}, 3)};
  LossMeter meter;
  meter.add(Session(graph, workers).run(given)[0].tensor,
            Session(folded, workers).run(given)[0].tensor);
  EXPECT_LT(meter.loss().relative, 1e-6);
}

TEST_F(QuantizeModelTest, BatchNormsWithoutChannelsAreKept) {
  GraphBuilder b;
  const ValueId none = b.constant(Tensor(DType::f32, {0}));
  const ValueId conv = b.node("Conv", {b.input("x"), b.constant(Tensor(DType::f32, {0, 3, 1, 1}))});
  const Graph graph = b.output(b.node("BatchNormalization", {conv, none, none, none, none})).take();
  EXPECT_EQ(fold_batch_norms(graph).nodes.size(), 2u);
}

TEST_F(QuantizeModelTest, NodesWithoutAnInputTheyNeedAreKept) {
  for (const char* op : {"MatMul", "Gemm", "Conv", "Gather"}) {
    SCOPED_TRACE(op);
    GraphBuilder b;
    const ValueId x = b.input("x"), w = b.constant(varied({300, 300}));
    std::vector<std::vector<ValueId>> incomplete{
        {}, {kNoValue}, {x}, {x, kNoValue}, {kNoValue, x}, {kNoValue, kNoValue}};
    if (op != std::string("Gather")) incomplete.push_back({kNoValue, w});
    for (const auto& inputs : incomplete) b.output(b.node(op, inputs));
    const ValueId good = b.node("MatMul", {x, w});
    const Graph after = quantize(prepare_to_quantize(b.output(good).take(), workers), {},
                                 {.scheme = Scheme::int8_weights});
    EXPECT_EQ(std::ranges::count(after.nodes, "DequantizeLinear", &Node::op), 1);
    EXPECT_EQ(std::ranges::count(after.nodes, op, &Node::op),
              std::ranges::ssize(incomplete) + (op == std::string("MatMul") ? 1 : 0));
  }
}

TEST_F(QuantizeModelTest, ConvolutionsWithoutWeightsBeforeABatchNormAreKept) {
  for (const bool named : {false, true}) {
    GraphBuilder b;
    std::vector<ValueId> inputs{b.input("x")};
    if (named) inputs.push_back(kNoValue);
    const ValueId four = b.constant(varied({4}));
    const ValueId conv = b.node("Conv", inputs);
    b.output(b.node("BatchNormalization", {conv, four, four, four, four}));
    EXPECT_EQ(fold_batch_norms(b.take()).nodes.size(), 2u);
  }
}

TEST_F(QuantizeModelTest, NodesHaveDifferentNames) {
  GraphBuilder b;
  const ValueId x = b.input("x"), w = b.constant(varied({32, 32}));
  b.output(b.node("Gemm", {x, w}));
  b.output(b.node("Gemm", {x, w}, {{"transB", std::int64_t{1}}}));
  Graph graph = b.take();
  graph.nodes[1].name = graph[w].name + "/dequantized";
  const Graph after = quantize(graph, {}, {.scheme = Scheme::int8_weights});
  std::set<std::string> names;
  for (const Node& node : after.nodes) EXPECT_TRUE(names.insert(node.name).second) << node.name;
  EXPECT_EQ(names.size(), 4u);
}

TEST_F(QuantizeModelTest, WeightsOfAWrongRankAreKept) {
  for (const char* op : {"MatMul", "Gemm", "Conv"})
    for (const Shape& shape : {Shape{}, Shape{4}, Shape{4, 4}, Shape{4, 4, 1}}) {
      const bool fits = op == std::string("Conv") ? shape.rank() > 2 : shape.rank() == 2;
      GraphBuilder b;
      b.output(b.node(op, {b.input("x"), b.constant(varied(shape))}));
      EXPECT_EQ(sites_to_quantize(b.take(), {}).size(), fits ? 1u : 0u) << op << to_string(shape);
    }
}

TEST(QuantizeRangeTest, OutliersDoNotDetermineTheRange) {
  Histogram seen;
  seen.max = 100;
  std::vector<float> values(100'000);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i % 1000) / 1000.0f;
  values[7] = 100;
  seen.add(values);
  EXPECT_LT(percentile_limit(seen, 99.9), 1.1f);
  EXPECT_EQ(percentile_limit(seen, 100), 100);
  EXPECT_LT(entropy_limit(seen, 128), 50);
}

TEST(QuantizeWeightsTest, EachChannelHasItsOwnScale) {
  const Tensor w = varied({16, 3});
  for (std::size_t i = 0; i < 16; ++i) w.values<float>()[3 * i + 1] *= 100;
  const QuantizedWeights small = int8_weights(w, 1);
  for (std::size_t i = 0; i < 48; ++i) {
    const float scale = small.scales.values<float>()[i % 3];
    EXPECT_NEAR(static_cast<float>(small.values.values<std::int8_t>()[i]) * scale,
                w.values<float>()[i], 0.501f * scale);
  }
}

TEST(QuantizeWeightsTest, Int4WeightsHaveAScalePerBlock) {
  const Tensor w = varied({40, 3});
  const QuantizedWeights small = int4_weights(w, 0, 16);
  EXPECT_EQ(small.scales.shape(), (Shape{3, 3}));
  const Tensor back = run_one(
      {"DequantizeLinear", 21, {{"axis", std::int64_t{0}}, {"block_size", std::int64_t{16}}}},
      {small.values, small.scales});
  double off = 0;
  for (std::size_t i = 0; i < 120; ++i)
    off += std::pow(static_cast<double>(back.values<float>()[i] - w.values<float>()[i]), 2);
  EXPECT_LT(std::sqrt(off / 120), 0.29 / 7);  // as rounding to sevenths of the largest, 1, has it
}

TEST(QuantizeOpsetTest, AttributesThatBecameInputsAreMoved) {
  GraphBuilder b(12);
  const ValueId x = b.input("x");
  const ValueId mean = b.node("ReduceMean", {x}, {{"axes", Attributes::Integers{1}}});
  Graph graph = b.output(b.node("Squeeze", {mean}, {{"axes", Attributes::Integers{1}}})).take();
  Graph raised = graph;
  raise_opset(raised, 21);
  EXPECT_EQ(opset_of(raised), 21);
  EXPECT_EQ(raised.nodes[0].inputs.size(), 2u);
  compute::Workers workers(1);
  const std::vector<Datum> given{varied({3, 4})};
  const auto before = Session(graph, workers).run(given),
             after = Session(raised, workers).run(given);
  EXPECT_EQ(before[0].tensor.shape(), after[0].tensor.shape());
  EXPECT_EQ(before[0].tensor.values<float>()[2], after[0].tensor.values<float>()[2]);
}

TEST(QuantizeOpsetTest, AttributesOfAWrongTypeAreRejectedByName) {
  for (const Attributes::Any& wrong : {Attributes::Any(std::string("1")), Attributes::Any(Tensor()),
                                       Attributes::Any(Attributes::Reals{1})}) {
    GraphBuilder b(12);
    Graph graph = b.output(b.node("Squeeze", {b.input("x")}, {{"axes", wrong}})).take();
    EXPECT_THAT(reason_of([&] { raise_opset(graph, 13); }),
                AllOf(HasSubstr("Squeeze node"), HasSubstr("'axes' has the wrong type")));
  }
}

TEST(QuantizeOpsetTest, OperatorsWithChangedSemanticsAreRejected) {
  GraphBuilder b(11);
  Graph graph = b.output(b.node("Softmax", {b.input("x")})).take();
  EXPECT_THAT(reason_of([&] { raise_opset(graph, 13); }), HasSubstr("Softmax"));
}

TEST(QuantizeLossTest, MeasuresErrorAndTop1Agreement) {
  const auto table = [](std::vector<float> values) { return tensor_of<float>({2, 2}, values); };
  LossMeter meter;
  meter.add(table({3, 0, 0, 4}), table({3, 0, 5, 4}));
  EXPECT_DOUBLE_EQ(meter.loss().relative, 1);
  EXPECT_DOUBLE_EQ(*meter.loss().top1_agreement, 0.5);
  LossMeter nan;
  nan.add(table({1, 1, 1, 1}), table({1, NAN, 1, 1}));
  EXPECT_TRUE(std::isinf(nan.loss().relative));
}

}  // namespace
}  // namespace sluice::engine
