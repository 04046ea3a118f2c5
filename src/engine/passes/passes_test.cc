#include <cmath>
#include <limits>

#include "engine/ops/convert.h"
#include "engine/passes/model_for_tests.h"

namespace sluice::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Ints = Attributes::Integers;

// The nodes of the optimized model, which is not run.
std::vector<Node> optimized_nodes(const Model& model) {
  compute::Workers workers(1);
  std::vector<TensorType> types;
  for (const Tensor& tensor : model.given) types.push_back({tensor.dtype(), tensor.shape()});
  Graph graph = specialize(model.graph, types, workers);
  optimize(graph, nullptr, Backend::cpu);
  return graph.nodes;
}

// The number of steps of each fused chain.
std::vector<std::size_t> chain_steps(const std::vector<Node>& nodes) {
  std::vector<std::size_t> steps;
  for (const Node& node : nodes)
    if (node.op == "Chain") steps.push_back(node.attributes.strings("code").size());
  return steps;
}

TEST(SimplifyTest, NoOpNodesAreRemoved) {
  Model m;
  const ValueId x = m.input(varied({2, 3, 4}));
  ValueId y = m.op("Identity", {x});
  y = m.op("Dropout", {y});
  y = m.op("Cast", {y}, {{"to", std::int64_t{1}}});
  y = m.op("Add", {y, m.number(0)});
  y = m.op("Mul", {m.number(1), y});
  y = m.op("Expand", {y, m.list({1, 3, 1})});
  y = m.op("Concat", {y}, {{"axis", std::int64_t{0}}});
  y = m.op("Slice", {y, m.list({0}), m.list({100}), m.list({1})});
  y = m.op("Pad", {y, m.list({0, 0, 0, 0, 0, 0})});
  y = m.op("Transpose", {y}, {{"perm", Ints{2, 0, 1}}});
  y = m.op("Transpose", {y}, {{"perm", Ints{1, 2, 0}}});
  y = m.op("Reshape", {y, m.list({6, 4})});
  y = m.op("Unsqueeze", {y, m.list({0})});
  y = m.op("Reshape", {y, m.list({2, 3, 4})});
  m.output(m.op("Erf", {y}));
  EXPECT_THAT(optimized_ops(m), ElementsAre("Erf"));
}

TEST(SimplifyTest, NodesSimilarToNoOpsAreKept) {
  Model m;
  const ValueId x = m.input(varied({3, 3}));
  m.output(m.op("Slice", {x, m.list({-1}), m.list({-100}), m.list({0}), m.list({-1})}));
  m.output(m.op("Add", {x, m.constant(tensor_of<float>({1, 1, 1}, {0}))}));  // an axis more
  m.output(m.op("Div", {m.number(1), x}));
  m.output(m.op("Sub", {m.number(0), x}));
  m.output(m.op("Transpose", {x}));
  EXPECT_THAT(optimized_ops(m), ElementsAre("Slice", "Add", "Div", "Sub", "Transpose"));
}

TEST(SimplifyTest, OutputsMayBeInputsOrConstants) {
  Model m;
  const ValueId x = m.input(varied({2}));
  m.output(m.op("Identity", {x}));
  m.output(m.op("Neg", {m.weights({3})}));
  EXPECT_THAT(optimized_ops(m), IsEmpty());
}

TEST(SimplifyTest, ElementwiseNodesMoveBeforeExpand) {
  Model m;
  const ValueId x = m.input(varied({2, 1, 1, 4}));
  const ValueId wide = m.op("Expand", {x, m.list({2, 1, 3, 4})});
  const ValueId y = m.op("Mul", {m.op("Sub", {m.number(1), wide}), m.number(-9)});
  m.output(y);
  Graph made;
  EXPECT_THAT(optimized_ops(m, &made), ElementsAre("sluice.Chain", "Expand"));
}

TEST(SimplifyTest, ScalarsWithMoreAxesThanTheSourceOfAnExpandKeepTheirAxes) {
  Model m;
  const ValueId wide = m.op("Expand", {m.input(varied({3})), m.list({2, 2, 2, 3})});
  m.output(m.op("Add", {wide, m.constant(tensor_of<float>({1, 1, 1, 1}, {5}))}));
  EXPECT_THAT(optimized_ops(m), ElementsAre("Add", "Expand"));
}

TEST(SimplifyTest, Float64ConstantsNearNeutralElementsAreKept) {
  Model m;
  const ValueId x = m.input(tensor_of<double>({2}, {1, 2}));
  const auto number = [&](double value) { return m.constant(Tensor::of(value)); };
  m.output(m.op("Mul", {x, number(1 + 1e-9)}));
  m.output(m.op("Add", {x, number(1e-50)}));
  m.output(m.op("Sub", {x, number(1e-50)}));
  m.output(m.op("Div", {x, number(1 - 1e-9)}));
  m.output(m.op("Pow", {x, number(1 + 1e-9)}));
  m.output(m.op("Mul", {x, number(1)}));
  std::vector<std::string> ops;
  for (const Node& node : optimized_nodes(m)) ops.push_back(node.op);
  EXPECT_THAT(ops, ElementsAre("Mul", "Add", "Sub", "Div", "Pow"));
}

TEST(ChainsTest, ExponentsThatF32CannotHoldAreNotFused) {
  Model m;
  const ValueId x = m.input(varied({4}));
  const ValueId power = m.op("Pow", {m.op("Exp", {x}), m.constant(Tensor::of(1 + 1e-9))});
  m.output(m.op("Neg", {power}));
  EXPECT_THAT(optimized_ops(m), ElementsAre("Exp", "Pow", "Neg"));
}

TEST(MergeTest, EqualNodesAreMergedAndOthersAreNot) {
  Model m;
  const ValueId x = m.input(varied({4, 4}));
  const auto row = [&](std::int64_t axis) { return m.op("Softmax", {x}, {{"axis", axis}}); };
  m.output(m.op("Concat", {row(1), row(1), row(0)}, {{"axis", std::int64_t{0}}}));
  EXPECT_THAT(optimized_ops(m), ElementsAre("Softmax", "Softmax", "Concat"));
}

// Forms of x * 0.5 * (1 + erf(x / sqrt(2))), one for each `how`.
ValueId gelu(Model& m, ValueId x, int how) {
  const float root = std::sqrt(2.0f);
  const ValueId inner =
      how % 2 == 0 ? m.op("Div", {x, m.number(root)}) : m.op("Mul", {m.number(1 / root), x});
  const ValueId erf = m.op("Erf", {inner});
  const ValueId gate =
      how % 3 == 0 ? m.op("Add", {erf, m.number(1)}) : m.op("Add", {m.number(1), erf});
  switch (how % 4) {
    case 0: return m.op("Mul", {m.op("Mul", {x, gate}), m.number(0.5f)});
    case 1: return m.op("Mul", {m.op("Mul", {m.number(0.5f), x}), gate});
    case 2: return m.op("Mul", {x, m.op("Mul", {gate, m.number(0.5f)})});
    default: return m.op("Div", {m.op("Mul", {gate, x}), m.number(2)});
  }
}

ValueId gelu_tanh(Model& m, ValueId x, bool power) {
  const ValueId cube =
      power ? m.op("Pow", {x, m.number(3)}) : m.op("Mul", {x, m.op("Mul", {x, x})});
  const ValueId sum = m.op("Add", {x, m.op("Mul", {m.number(0.044715f), cube})});
  const ValueId tanh = m.op("Tanh", {m.op("Mul", {m.number(0.7978845608f), sum})});
  return m.op("Mul", {m.op("Mul", {m.number(0.5f), x}), m.op("Add", {m.number(1), tanh})});
}

TEST(ActivationsTest, EveryFormOfGeluIsFused) {
  for (int how = 0; how < 12; ++how) {
    Model m;
    const ValueId x = m.op("Mul", {m.input(varied({5, 7})), m.number(4)});
    m.output(m.op("Softmax", {gelu(m, x, how)}));
    EXPECT_THAT(optimized_ops(m), ElementsAre("sluice.Chain", "Softmax")) << how;
  }
}

TEST(ActivationsTest, SiluAndHardSwishAreFused) {
  Model m(24);
  const ValueId x = m.input(varied({5, 7}));
  const ValueId six = m.op("Clip", {m.op("Add", {x, m.number(3)}), m.number(0), m.number(6)});
  const ValueId hard = m.op("HardSigmoid", {x}, {{"alpha", 1 / 6.0f}, {"beta", 0.5f}});
  for (const ValueId y :
       {gelu_tanh(m, x, true), gelu_tanh(m, x, false), m.op("Mul", {x, m.op("Sigmoid", {x})}),
        m.op("Div", {m.op("Mul", {x, six}), m.number(6)}), m.op("Mul", {hard, x}),
        m.op("Gelu", {x}), m.op("HardSwish", {x}), m.op("Swish", {x})})
    m.output(m.op("Softmax", {y}));
  Graph made;
  optimized_ops(m, &made);
  int chains = 0;
  for (const Node& node : made.nodes) {
    if (node.op == "Softmax") continue;
    EXPECT_EQ(node.op, "Chain");
    EXPECT_EQ(node.attributes.strings("code").size(), 1u) << describe(node);
    ++chains;
  }
  EXPECT_EQ(chains, 4);  // gelu_tanh, silu, hard_swish, gelu: equal ones are merged
}

TEST(ActivationsTest, ApproximateMatchesOfGeluAreNotFused) {
  Model m;
  const ValueId x = m.input(varied({5, 7}));
  const ValueId erf = m.op("Erf", {m.op("Mul", {x, m.number(0.72f)})});
  m.output(m.op("Mul", {m.op("Mul", {x, m.number(0.5f)}), m.op("Add", {erf, m.number(1)})}));
  Graph made;
  optimized_ops(m, &made);
  EXPECT_GT(made.nodes[0].attributes.strings("code").size(), 1u);
}

// Inputs far from 0, where a limit that a few samples do not reach matters.
TEST(ActivationsTest, LimitsOfActivationsAreKept) {
  const Tensor far =
      tensor_of<float>({12}, {-1e30f, -1e4f, -50, -9.5f, -8, 0, 1, 6.9f, 7.2f, 8, 50, 1e30f});
  const auto gate = [](Model& m, ValueId x) { return m.op("Sigmoid", {x}); };
  for (int how = 0; how < 6; ++how) {
    Model m;
    const ValueId x = m.input(far), none = kNoValue;
    const ValueId hard = m.op("HardSigmoid", {x}, {{"alpha", 1 / 6.0f}, {"beta", 0.5f}});
    const ValueId limited = m.op("Clip", {x, m.number(-9.2f), m.number(7.1f)});
    const ValueId silu = m.op("Mul", {x, gate(m, x)});
    switch (how) {
      case 0: m.output(m.op("Mul", {limited, gate(m, x)})); break;
      case 1: m.output(m.op("Mul", {x, gate(m, limited)})); break;
      case 2: m.output(m.op("Clip", {silu, none, m.number(7.5f)})); break;
      case 3: m.output(m.op("Clip", {silu, m.number(-100), m.number(1e10f)})); break;
      case 4: m.output(m.op("Clip", {m.op("Mul", {x, hard}), none, m.number(7.5f)})); break;
      default: m.output(m.op("Clip", {gelu(m, x, 0), none, m.number(8)})); break;
    }
    Graph made;
    optimized_ops(m, &made);
    EXPECT_FALSE(HasFailure()) << how;
    ASSERT_EQ(made.nodes.size(), 1u) << how;
    EXPECT_GT(made.nodes[0].attributes.strings("code").size(), 1u) << how;
  }
}

TEST(ActivationsTest, SumsThatCancelOutAreNotFused) {
  Model m;
  const ValueId x = m.input(tensor_of<float>({3}, {0.1f, 1, 3}));
  const ValueId coarse = m.op("Sub", {m.op("Add", {x, m.number(64)}), m.number(64)});
  m.output(m.op("Mul", {x, m.op("Sigmoid", {coarse})}));
  EXPECT_GT(chain_steps(optimized_nodes(m))[0], 1u);
}

TEST(ActivationsTest, TermsTimesZeroAreNotDropped) {
  Model m;
  const ValueId x = m.input(tensor_of<float>({2}, {1, std::numeric_limits<float>::infinity()}));
  const ValueId sum = m.op("Add", {x, m.op("Mul", {x, m.number(0)})});
  m.output(m.op("Mul", {sum, m.op("Sigmoid", {x})}));
  EXPECT_GT(chain_steps(optimized_nodes(m))[0], 1u);
}

// x * half * (1 + erf(x / root)).
Model half_precision_gelu(DType type, float half, float root) {
  Model m;
  const auto number = [&](float value) { return m.constant(converted(Tensor::of(value), type)); };
  const ValueId x = m.input(converted(varied({8}), type));
  const ValueId erf = m.op("Erf", {m.op("Div", {x, number(root)})});
  m.output(m.op("Mul", {m.op("Mul", {x, number(half)}), m.op("Add", {erf, number(1)})}));
  return m;
}

TEST(ActivationsTest, HalfPrecisionConstantsMatchOnlyIfTheyAreRounded) {
  const float root = std::sqrt(2.0f);
  for (const DType type : {DType::f16, DType::bf16}) {
    const auto steps = [&](float half, float divisor) {
      return chain_steps(optimized_nodes(half_precision_gelu(type, half, divisor)));
    };
    EXPECT_THAT(steps(0.5f, root), ElementsAre(1u)) << to_string(type);
    EXPECT_THAT(steps(0.495f, root), ElementsAre(::testing::Gt(1u))) << to_string(type);
    EXPECT_THAT(steps(0.5f, 1.43f), ElementsAre(::testing::Gt(1u))) << to_string(type);
  }
  Model m;
  const auto number = [&](float value) {
    return m.constant(converted(Tensor::of(value), DType::f16));
  };
  const ValueId x = m.input(converted(varied({8}), DType::f16));
  const ValueId cube = m.op("Mul", {number(0.044715f), m.op("Pow", {x, number(3)})});
  const ValueId tanh = m.op("Tanh", {m.op("Mul", {number(0.7978845608f), m.op("Add", {x, cube})})});
  m.output(m.op("Mul", {m.op("Mul", {number(0.5f), x}), m.op("Add", {number(1), tanh})}));
  const ValueId six = m.op("Clip", {m.op("Add", {x, number(3)}), number(0), number(6)});
  m.output(m.op("Mul", {x, m.op("Mul", {six, number(1 / 6.0f)})}));
  EXPECT_THAT(chain_steps(optimized_nodes(m)), ElementsAre(1u, 1u));
}

TEST(NormsTest, BatchNormsWithoutChannelsAreKept) {
  Model m;
  const ValueId none = m.constant(Tensor(DType::f32, {0}));
  const ValueId x = m.input(varied({1, 4, 5, 5}));
  const ValueId conv = m.op("Conv", {x, m.constant(Tensor(DType::f32, {0, 4, 3, 3}))});
  m.output(m.op("BatchNormalization", {conv, none, none, none, none}));
  EXPECT_THAT(optimized_ops(m), ElementsAre("Conv", "BatchNormalization"));
}

TEST(NormsTest, FormsOfLayerNormAreFused) {
  for (int how = 0; how < 16; ++how) {
    Model m(how % 2 == 0 ? 13 : 18);
    const ValueId x = m.input(varied({2, 3, 8}));
    const auto mean = [&](ValueId of) {
      return how % 2 == 0 ? m.op("ReduceMean", {of}, {{"axes", Ints{-1}}})
                          : m.op("ReduceMean", {of, m.list({2})});
    };
    const ValueId off = m.op("Sub", {x, mean(x)});
    const ValueId again = (how & 2) != 0 ? off : m.op("Sub", {x, mean(x)});
    const ValueId square =
        (how & 4) != 0 ? m.op("Mul", {off, off}) : m.op("Pow", {off, m.number(2)});
    const ValueId root = m.op("Sqrt", {m.op("Add", {mean(square), m.number(1e-5f)})});
    ValueId y = (how & 8) != 0 ? m.op("Mul", {again, m.op("Reciprocal", {root})})
                               : m.op("Div", {again, root});
    if (how != 5) y = m.op("Mul", {m.weights({8}), y});
    m.output(m.op("Add", {y, m.weights({1, 1, 8})}));
    EXPECT_THAT(optimized_ops(m), ElementsAre("sluice.Norm")) << how;
  }
}

TEST(NormsTest, NormsOverOtherAxesAreNotFused) {
  Model m;
  const ValueId x = m.input(varied({2, 3, 8}));
  m.output(m.op("LayerNormalization", {x, m.weights({3, 8}), m.weights({3, 8})},
                {{"axis", std::int64_t{1}}}));
  m.output(m.op("LayerNormalization", {x, m.weights({8})}));
  EXPECT_THAT(optimized_ops(m), ElementsAre("LayerNormalization", "sluice.Norm"));
}

TEST(LinearTest, BiasAndActivationAreFusedIntoLinear) {
  Model m;
  const ValueId x = m.input(varied({2, 3, 8}));
  ValueId y = m.op("MatMul", {x, m.weights({8, 6})});
  y = m.op("Relu", {m.op("Add", {m.weights({6}), y})});
  y = m.op("Add", {m.op("MatMul", {y, m.weights({6, 6})}), m.weights({1, 1, 6})});
  y = m.op("Clip", {y, m.number(-0.1f), m.number(0.1f)});
  const ValueId rows = m.op("Reshape", {y, m.list({6, 6})});
  const ValueId tall = m.op("Gemm", {rows, m.weights({4, 6}), m.weights({4})},
                            {{"transB", std::int64_t{1}}, {"alpha", 0.5f}, {"beta", 2.0f}});
  m.output(m.op("Sigmoid", {m.op("Reshape", {tall, m.list({2, 3, 4})})}));
  EXPECT_THAT(optimized_ops(m), ElementsAre("sluice.Linear", "sluice.Linear", "sluice.Linear"));
}

TEST(LinearTest, SumsWithOtherUsersAreNotFused) {
  Model m;
  const ValueId x = m.input(varied({3, 8}));
  const ValueId y = m.op("MatMul", {x, m.weights({8, 6})});
  m.output(y);
  m.output(m.op("Add", {y, m.weights({6})}));
  m.output(m.op("MatMul", {m.input(varied({6, 3})), x}));  // weights that change
  EXPECT_THAT(optimized_ops(m), UnorderedElementsAre("sluice.Linear", "Add", "MatMul"));
}

TEST(LinearTest, AResidualIsAddedAfterTheActivation) {
  Model m;
  const ValueId x = m.input(varied({3, 8}));
  const ValueId y = m.op("Tanh", {m.op("MatMul", {x, m.weights({8, 8})})});
  const ValueId sum = m.op("Add", {x, y});
  m.output(sum);
  m.output(m.op("LayerNormalization", {sum, m.weights({8})}));
  EXPECT_THAT(optimized_ops(m), ElementsAre("sluice.Linear", "sluice.Norm"));
}

TEST(ChainsTest, ElementwiseNodesAreFused) {
  Model m;
  const ValueId x = m.input(varied({2, 5, 4})), row = m.input(varied({4}, 7));
  const ValueId a = m.op("Mul", {x, row});
  const ValueId b = m.op("Exp", {m.op("Neg", {a})});
  const ValueId c = m.op("Clip", {m.op("Sub", {a, b}), m.number(-0.5f), m.number(0.5f)});
  const ValueId d = m.op("LeakyRelu", {m.op("Pow", {c, m.number(2)})}, {{"alpha", 0.1f}});
  m.output(m.op("Max", {d, m.op("HardSigmoid", {x})}));
  EXPECT_THAT(optimized_ops(m), ElementsAre("sluice.Chain"));
}

TEST(ChainsTest, ValuesUsedOutsideEndAChain) {
  Model m;
  const ValueId x = m.input(varied({2, 4}));
  const ValueId a = m.op("Exp", {m.op("Neg", {x})});
  const ValueId b = m.op("Add", {a, m.op("Softmax", {a})});
  m.output(m.op("Abs", {b}));
  EXPECT_THAT(optimized_ops(m), ElementsAre("sluice.Chain", "Softmax", "sluice.Chain"));
}

TEST(ChainsTest, ConstantsThatDetermineTheShapeAreKept) {
  Model m;
  const ValueId x = m.input(varied({4}));
  m.output(m.op("Neg", {m.op("Mul", {x, m.constant(tensor_of<float>({1, 1}, {3}))})}));
  EXPECT_THAT(optimized_ops(m), ElementsAre("Mul", "Neg"));
}

TEST(ChainsTest, LongChainsAreSplitAndNanIsPreserved) {
  Model m;
  const float inf = std::numeric_limits<float>::infinity();
  ValueId x = m.input(tensor_of<float>({5}, {std::nanf(""), inf, -inf, -0.5f, 2}));
  for (int i = 0; i < 100; ++i)
    x = i % 3 == 0   ? m.op("Add", {x, m.number(0.25f)})
        : i % 3 == 1 ? m.op("Relu", {x})
                     : m.op("Clip", {x, m.number(-1), m.number(1e6f)});
  m.output(x);
  EXPECT_GT(optimized_ops(m).size(), 3u);
}

// Random graphs of elementwise nodes, with values that are shared, broadcast and graph outputs.
TEST(ChainsTest, RandomGraphsComputeTheSame) {
  constexpr const char* kOne[] = {"Neg", "Abs", "Tanh", "Sigmoid", "Relu", "Floor", "Cos"};
  constexpr const char* kTwo[] = {"Add", "Sub", "Mul", "Min", "Max"};
  unsigned seed = 5;
  const auto next = [&](std::size_t below) {
    seed = seed * 1664525u + 1013904223u;
    return static_cast<std::size_t>(seed >> 12) % below;
  };
  for (int round = 0; round < 60; ++round) {
    Model m;
    std::vector<ValueId> values{m.input(varied({3, 4, 5}, seed)), m.input(varied({4, 1}, seed + 1)),
                                m.weights({5}), m.number(0.7f)};
    for (int i = 0; i < 40; ++i) {
      const ValueId a = values[next(values.size())], b = values[next(values.size())];
      values.push_back(next(3) == 0 ? m.op(kOne[next(7)], {a}) : m.op(kTwo[next(5)], {a, b}));
      if (next(8) == 0) m.output(values.back());
    }
    m.output(values.back());
    optimized_ops(m);
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

}  // namespace
}  // namespace sluice::engine
