#include "engine/exec/schedule.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/error.h"
#include "engine/exec/kernel.h"

namespace sluice::engine {
namespace {

using Kind = ValueLocation::Kind;
constexpr std::size_t kAlignment = 64;

class FakeKernel final : public Kernel {
 public:
  FakeKernel(int in_place, std::size_t scratch) : in_place_(in_place), scratch_(scratch) {}
  void run(const KernelArgs&) const override {}
  std::string_view name() const override { return "fake"; }
  std::size_t scratch() const override { return scratch_; }
  int in_place() const override { return in_place_; }

 private:
  int in_place_;
  std::size_t scratch_;
};

// A graph with i8 values, which have as many bytes as elements.
class Built {
 public:
  ValueId value(std::int64_t bytes) {
    graph.values.push_back({.name = std::to_string(graph.values.size()),
                            .dtype = DType::i8,
                            .dims = std::vector<Dim>{{bytes, ""}}});
    return static_cast<ValueId>(graph.values.size() - 1);
  }
  ValueId input(std::int64_t bytes) {
    graph.inputs.push_back(value(bytes));
    return graph.inputs.back();
  }
  ValueId constant(std::int64_t bytes) {
    const ValueId id = value(bytes);
    graph[id].constant = Tensor(DType::i8, {bytes});
    return id;
  }
  ValueId node(std::string op, std::vector<ValueId> inputs, std::int64_t bytes, int in_place = -1,
               std::size_t scratch = 0) {
    const ValueId out = value(bytes);
    graph.nodes.push_back(
        {.name = "", .op = std::move(op), .domain = "", .inputs = std::move(inputs)});
    graph.nodes.back().outputs = {out};
    kernels.push_back(
        is_view(graph.nodes.back()) ? nullptr : std::make_unique<FakeKernel>(in_place, scratch));
    return out;
  }
  Schedule schedule() const { return make_schedule(graph, kernels, kAlignment); }

  Graph graph;
  std::vector<std::unique_ptr<Kernel>> kernels;
};

TEST(ScheduleTest, ValuesWhoseTotalSizeOverflowsAreRefused) {
  Built b;
  const ValueId x = b.input(1);
  std::vector<ValueId> parts;
  for (int i = 0; i < 32; ++i) parts.push_back(b.node("Tile", {x}, std::int64_t{1} << 59));
  b.graph.outputs = {b.node("Concat", parts, 1)};
  EXPECT_THROW(b.schedule(), Error);
}

TEST(ScheduleTest, ViewsShareTheLocationOfTheirInput) {
  Built b;
  const ValueId x = b.input(100), y = b.node("Neg", {x}, 100);
  const ValueId view = b.node("Reshape", {y}, 100), again = b.node("Squeeze", {view}, 100);
  b.graph.outputs = {b.node("Neg", {again}, 100), b.node("Abs", {view}, 100)};
  const Schedule made = b.schedule();
  ASSERT_EQ(made.steps.size(), 3u);
  EXPECT_EQ(made.steps[0].outputs[0].kind, Kind::arena);
  EXPECT_EQ(made.steps[1].inputs[0].at, made.steps[0].outputs[0].at);
  EXPECT_EQ(made.steps[2].inputs[0].at, made.steps[0].outputs[0].at);
  EXPECT_EQ(made.arena, 128u);
  EXPECT_EQ(made.unshared, 100u);
}

TEST(ScheduleTest, DeadValuesAreOverwritten) {
  Built b;
  const ValueId y = b.node("Neg", {b.input(1000)}, 1000);
  const ValueId z = b.node("Add", {y, b.constant(1000)}, 1000, 0);
  const ValueId kept = b.node("Add", {b.constant(1000), z}, 1000, 1);
  b.graph.outputs = {b.node("Add", {kept, z}, 10)};
  const Schedule made = b.schedule();
  EXPECT_EQ(made.steps[1].outputs[0].at, made.steps[0].outputs[0].at);
  EXPECT_NE(made.steps[2].outputs[0].at, made.steps[1].outputs[0].at);
  EXPECT_EQ(made.steps[1].inputs[1].kind, Kind::constant);
}

TEST(ScheduleTest, InputsConstantsAndValuesUsedTwiceAreNotOverwritten) {
  Built b;
  const ValueId x = b.input(1000), y = b.node("Neg", {x}, 1000, 0);
  const ValueId z = b.node("Add", {y, y}, 1000, 0);
  const ValueId k = b.node("Neg", {b.constant(1000)}, 1000, 0);
  b.graph.outputs = {b.node("Sum", {z, k, x}, 10)};
  const Schedule made = b.schedule();
  EXPECT_EQ(made.steps[0].outputs[0].kind, Kind::arena);
  EXPECT_NE(made.steps[1].outputs[0].at, made.steps[0].outputs[0].at);
  EXPECT_EQ(made.steps[2].outputs[0].kind, Kind::arena);
}

TEST(ScheduleTest, OutputsThatAreInputsConstantsOrOtherOutputsAreCopied) {
  Built b;
  const ValueId x = b.input(10), c = b.constant(10), y = b.node("Neg", {x}, 10);
  const ValueId view = b.node("Identity", {y}, 10);
  b.graph.outputs = {x, y, c, view};
  const Schedule made = b.schedule();
  EXPECT_EQ(made.steps[0].outputs[0].kind, Kind::output);
  EXPECT_EQ(made.steps[0].outputs[0].at, 1u);
  ASSERT_EQ(made.copies.size(), 3u);
  EXPECT_EQ(made.copies[0].from.kind, Kind::input);
  EXPECT_EQ(made.copies[1].from.kind, Kind::constant);
  EXPECT_EQ(made.copies[2].from.kind, Kind::output);
  EXPECT_EQ(made.copies[2].from.at, 1u);
  EXPECT_EQ(made.copies[2].output, 3u);
  EXPECT_EQ(made.arena, 0u);
}

// Simulates a schedule with the value's id as the contents of each byte.
class Replay {
 public:
  explicit Replay(const Built& built) : built_(built), made_(built.schedule()) {}

  void run() {
    std::vector<int> arena(made_.arena, -1);
    std::map<ValueId, ValueId> root;
    for (const Node& node : built_.graph.nodes)
      if (is_view(node)) root[node.outputs[0]] = node.inputs[0];
    const auto real = [&](ValueId id) {
      while (root.contains(id)) id = root[id];
      return id;
    };
    for (const ScheduleStep& step : made_.steps) {
      for (std::size_t i = 0; i < step.inputs.size(); ++i)
        if (step.inputs[i].kind == Kind::arena)
          expect_whole(arena, step.inputs[i].at, real(step.node->inputs[i]));
      const auto scratch = static_cast<std::ptrdiff_t>(step.scratch);
      ASSERT_LE(step.scratch + step.kernel->scratch(), arena.size());
      check_scratch(step, arena, real);
      std::fill_n(arena.begin() + scratch, step.kernel->scratch(), -2);
      if (step.outputs[0].kind != Kind::arena) continue;
      const std::size_t at = step.outputs[0].at, bytes = size(step.node->outputs[0]);
      ASSERT_LE(at + bytes, arena.size());
      std::fill_n(arena.begin() + static_cast<std::ptrdiff_t>(at), bytes, step.node->outputs[0]);
    }
  }

 private:
  std::size_t size(ValueId id) const { return type_of(built_.graph[id]).bytes(); }

  void expect_whole(const std::vector<int>& arena, std::size_t at, ValueId id) const {
    for (std::size_t i = 0; i < size(id); ++i) ASSERT_EQ(arena[at + i], id) << "byte " << i;
  }

  // It must not overlap the step's inputs.
  template <class Real>
  void check_scratch(const ScheduleStep& step, const std::vector<int>& arena,
                     const Real& real) const {
    for (const ValueId id : step.node->inputs)
      for (std::size_t i = 0; i < step.kernel->scratch(); ++i)
        ASSERT_NE(arena[step.scratch + i], real(id));
  }

  const Built& built_;
  Schedule made_;
};

TEST(ScheduleTest, EachStepReadsTheValuesMadeForIt) {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    Built b;
    std::vector<ValueId> values{b.input(200), b.constant(200)};
    for (int i = 0; i < 30; ++i) {
      const auto any = [&] {
        const std::size_t recent = std::min<std::size_t>(values.size(), 6);
        return values[values.size() - 1 - random() % recent];
      };
      const std::int64_t bytes = random() % 3 == 0 ? 300 : 200;
      const ValueId a = any();
      if (random() % 5 == 0)
        values.push_back(
            b.node("Reshape", {a}, static_cast<std::int64_t>(type_of(b.graph[a]).bytes())));
      else
        values.push_back(b.node("Add", {a, any()}, bytes, static_cast<int>(random() % 3) - 1,
                                random() % 4 == 0 ? 150 : 0));
    }
    b.graph.outputs = {values.back(), values[10]};
    Replay(b).run();
  }
}

}  // namespace
}  // namespace sluice::engine
