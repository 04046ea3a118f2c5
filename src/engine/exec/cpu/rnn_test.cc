#include "engine/exec/cpu/gemm_for_tests.h"

namespace sluice::engine::cpu {
namespace {

constexpr float kTolerance = 1e-5f;  // of states, which are at most 1

struct Recurrent {
  std::string op;
  std::int64_t steps = 5, batch = 3, input = 7, hidden = 20;
  std::string direction = "forward";
  std::int64_t layout = 0, late_reset = 0;
  bool bias = true, states = true, peepholes = false;
  std::vector<std::int32_t> lengths{};
  float clip = 0;
  std::vector<std::string> functions{};
  Tensor x{};  // empty: random

  std::int64_t directions() const { return direction == "bidirectional" ? 2 : 1; }
  std::int64_t rows() const { return (op == "LSTM" ? 4 : op == "GRU" ? 3 : 1) * hidden; }
  Shape state() const {
    return layout == 1 ? Shape{batch, directions(), hidden} : Shape{directions(), batch, hidden};
  }

  Node node() const {
    Node node{.name = "", .op = op, .domain = "", .version = 22};
    node.attributes.set("hidden_size", hidden);
    node.attributes.set("direction", direction);
    node.attributes.set("layout", layout);
    if (op == "GRU") node.attributes.set("linear_before_reset", late_reset);
    if (clip > 0) node.attributes.set("clip", clip);
    if (!functions.empty()) node.attributes.set("activations", functions);
    return node;
  }

  // Small enough that rounding errors of states do not grow.
  Tensor weights(const Shape& shape, unsigned seed) const {
    const Tensor made = random_tensor(shape, seed);
    for (float& value : made.values<float>()) value /= std::sqrt(static_cast<float>(hidden));
    return made;
  }

  std::vector<Tensor> inputs() const {
    const std::int64_t d = directions();
    std::vector<Tensor> all{
        x ? x
          : random_tensor(layout == 1 ? Shape{batch, steps, input} : Shape{steps, batch, input}, 1),
        weights({d, rows(), input}, 2),
        weights({d, rows(), hidden}, 3),
        bias ? random_tensor({d, 2 * rows()}, 4) : Tensor(),
        lengths.empty() ? Tensor() : Tensor::of(std::span<const std::int32_t>(lengths)),
        states ? random_tensor(state(), 5) : Tensor()};
    if (op == "LSTM") {
      all.push_back(states ? random_tensor(state(), 6) : Tensor());
      all.push_back(peepholes ? random_tensor({d, 3 * hidden}, 7) : Tensor());
    }
    return all;
  }

  std::vector<Tensor> expected() const {
    class NoSubgraphs final : public SubgraphRunner {
      std::vector<Datum> run(const Graph&, std::span<const Datum>) override { return {}; }
    } subgraphs;
    std::vector<Datum> given, outputs(op == "LSTM" ? 3 : 2);
    for (const Tensor& tensor : inputs()) given.push_back(tensor ? Datum(tensor) : Datum());
    Node of = node();
    for (std::size_t i = 0; i < outputs.size(); ++i) of.outputs.push_back(static_cast<ValueId>(i));
    compute::Workers workers(1);
    OpCall call(of, given, outputs, workers, subgraphs);
    op_of(of).run(call);
    std::vector<Tensor> all;
    for (const Datum& datum : outputs) all.push_back(datum.tensor);
    return all;
  }

  // A graph of this node, with its weights as constants.
  Graph graph() const {
    Graph graph;
    Node of = node();
    const std::vector<Tensor> given = inputs();
    for (std::size_t i = 0; i < given.size(); ++i) {
      of.inputs.push_back(given[i] ? static_cast<ValueId>(graph.values.size()) : kNoValue);
      if (!given[i]) continue;
      Value value{.name = std::to_string(i), .dtype = given[i].dtype()};
      value.dims.emplace();
      for (const std::int64_t size : given[i].shape().dims()) value.dims->push_back({size, ""});
      if ((i >= 1 && i <= 3) || i == 7) value.constant = given[i];
      graph.values.push_back(std::move(value));
    }
    graph.nodes.push_back(std::move(of));
    return graph;
  }

  // Runs its kernel.
  std::vector<Tensor> made(int threads) const {
    const Graph of = graph();
    compute::Workers workers(threads);
    Context context(workers);
    const auto kernel = make_kernel(of, of.nodes[0], context);
    EXPECT_NE(kernel->name(), "operator");
    const std::vector<Tensor> given = inputs();
    std::vector<void*> from, to;
    for (std::size_t i = 0; i < given.size(); ++i)
      from.push_back(given[i] && kernel->reads_constant(i) ? given[i].data() : nullptr);
    std::vector<Tensor> all;
    for (const Tensor& like : expected()) {
      all.emplace_back(DType::f32, like.shape());
      to.push_back(all.back().data());
    }
    const Tensor scratch(DType::u8, {static_cast<std::int64_t>(kernel->scratch())});
    kernel->run({.inputs = from, .outputs = to, .scratch = scratch.data()});
    return all;
  }
};

void expect_right(const Recurrent& of) {
  SCOPED_TRACE(of.op + " " + of.direction + " of " + std::to_string(of.hidden) + ", layout " +
               std::to_string(of.layout));
  const std::vector<Tensor> expected = of.expected(), made = of.made(2);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE("output " + std::to_string(i));
    expect_close(made[i], expected[i], kTolerance);
  }
}

TEST(RecurrentKernelTest, AllKindsMatchTheirOperatorsOnAllInstructionSets) {
  for_each_target([] {
    for (const char* op : {"LSTM", "GRU", "RNN"})
      for (const char* direction : {"forward", "reverse", "bidirectional"})
        for (const std::int64_t hidden : {1, 20, 130})
          expect_right({.op = op, .hidden = hidden, .direction = direction});
  });
}

TEST(RecurrentKernelTest, ShortSequencesKeepTheirLastStateInBothLayouts) {
  for (const char* op : {"LSTM", "GRU", "RNN"})
    for (const std::int64_t layout : {0, 1})
      for (const char* direction : {"forward", "bidirectional"})
        expect_right({.op = op, .direction = direction, .layout = layout, .lengths = {5, 2, 0}});
}

TEST(RecurrentKernelTest, SettingsOfEachKindAreRight) {
  expect_right({.op = "GRU", .late_reset = 1});
  expect_right({.op = "GRU", .late_reset = 1, .bias = false});
  expect_right({.op = "GRU", .clip = 0.3f});
  expect_right({.op = "LSTM", .bias = false, .states = false});
  expect_right({.op = "LSTM", .direction = "bidirectional", .peepholes = true});
  expect_right({.op = "LSTM", .clip = 0.3f});
  expect_right({.op = "RNN", .functions = {"Relu"}});
}

TEST(RecurrentKernelTest, OtherActivationsAndInvalidShapesUseTheOperator) {
  const auto kernel_of = [](const Graph& graph) {
    compute::Workers workers(1);
    Context context(workers);
    return std::string(make_kernel(graph, graph.nodes[0], context)->name());
  };
  EXPECT_EQ(kernel_of(Recurrent{.op = "RNN", .functions = {"Softsign"}}.graph()), "operator");
  Graph wrong = Recurrent{.op = "LSTM"}.graph();
  wrong.values[2].constant = random_tensor({1, 80, 19}, 1);
  (*wrong.values[2].dims)[2].size = 19;
  EXPECT_EQ(kernel_of(wrong), "operator");
}

TEST(RecurrentKernelTest, SequenceDoesNotDependOnTheBatchOrTheThreads) {
  for (const char* op : {"LSTM", "GRU", "RNN"}) {
    const Recurrent many{.op = op, .batch = 9, .hidden = 200, .layout = 1, .states = false};
    Recurrent one = many;
    one.batch = 1;
    one.x = Tensor(DType::f32, {1, many.steps, many.input});
    const std::int64_t row = many.steps * many.input, result = many.steps * many.hidden;
    std::copy_n(many.inputs()[0].values<float>().begin() + 4 * row, row,
                one.x.values<float>().begin());
    const Tensor all = many.made(3)[0], alone = one.made(1)[0];
    EXPECT_TRUE(std::equal(alone.values<float>().begin(), alone.values<float>().end(),
                           all.values<float>().begin() + 4 * result))
        << op;
  }
}

}  // namespace
}  // namespace sluice::engine::cpu
