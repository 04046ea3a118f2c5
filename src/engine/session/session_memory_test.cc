// The host memory of a session over calls with ever new shapes.
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>

#include "base/sanitized_for_tests.h"
#include "engine/graph/graph_editor.h"
#include "engine/graph/graph_for_tests.h"
#include "engine/ops/one_op_for_tests.h"
#include "engine/resident_for_tests.h"
#include "engine/session/gpu_for_tests.h"
#include "engine/session/session.h"

namespace sluice::engine {
namespace {

constexpr std::int64_t kWide = 32, kHidden = 128;
constexpr double kInfinity = std::numeric_limits<double>::infinity();  // nothing is measured

// x [batch, time, 32] through two layers; s [1, k] times a matrix of ones, a different one for each
// k.
Graph network() {
  GraphBuilder b;
  const ValueId x = b.input("x"), s = b.input("s");
  const ValueId hidden =
      b.node("Relu", {b.node("Add", {b.node("MatMul", {x, b.constant(varied({kWide, kHidden}, 1))}),
                                     b.constant(varied({kHidden}, 2))})});
  const ValueId out = b.node("MatMul", {hidden, b.constant(varied({kHidden, kWide}, 3))});
  const ValueId k = b.node("Gather", {b.node("Shape", {s}), b.integers({1})});
  const ValueId shape = b.node("Concat", {k, b.integers({kWide})}, {{"axis", std::int64_t{0}}});
  const ValueId ones =
      b.node("ConstantOfShape", {shape}, {{"value", Tensor::of<float>(std::vector<float>{1})}});
  return b.output(b.node("Add", {out, b.node("MatMul", {s, ones})})).take();
}

Tensor ones(const Shape& shape) {
  const Tensor tensor(DType::f32, shape);
  std::ranges::fill(tensor.values<float>(), 1.0f);
  return tensor;
}

void run_shapes(const Session& session, int count, unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](std::int64_t most) {
    return 1 + static_cast<std::int64_t>(random()) % most;
  };
  for (int i = 0; i < count; ++i) {
    const Datum inputs[] = {ones({pick(25), pick(40), kWide}), ones({1, pick(250)})};
    session.run(inputs);
  }
}

double growth_mb(const Session& session, int shapes) {
  run_shapes(session, 300, 1);  // permanent allocations
  const std::size_t before = resident();
  run_shapes(session, shapes, 2);
  const std::size_t after = resident();
  return after > before ? static_cast<double>(after - before) / 1e6 : 0;
}

TEST(SessionMemoryTest, MemoryIsBoundedOverTenThousandShapesOnTheCpu) {
  compute::Workers workers(1);
  const Session session(network(), workers);
  const double grown = growth_mb(session, kSanitized ? 300 : 10'000);
  std::printf("grown by %.1f MB\n", grown);
  EXPECT_LT(grown, kSanitized ? 1e9 : 50.0);
}

TEST(SessionMemoryTest, MemoryIsBoundedOverTwoThousandF16ShapesOnAGpu) {
  compute::Workers workers(1);
  for (const std::optional<double> max_loss : {std::optional(kInfinity), std::optional<double>()}) {
    const Session session(network(), workers,
                          std::make_unique<FakeGpu>(std::make_shared<FakeGpuState>()),
                          {.precision = DType::f16, .max_loss = max_loss});
    const double grown = growth_mb(session, kSanitized ? 300 : 2'000);
    std::printf("%s: grown by %.1f MB\n", max_loss ? "not measured" : "measured", grown);
    EXPECT_LT(grown, kSanitized ? 1e9 : 50.0);
  }
}

TEST(SessionMemoryTest, NarrowedWeightsAreSharedByAllShapes) {
  compute::Workers workers(1);
  const Session session(network(), workers,
                        std::make_unique<FakeGpu>(std::make_shared<FakeGpuState>()),
                        {.precision = DType::f16, .max_loss = kInfinity});
  std::vector<Session::Compiled> held;
  std::set<const void*> weights;
  for (const std::int64_t time : {3, 5, 7}) {
    const TensorType types[] = {{DType::f32, {2, time, kWide}}, {DType::f32, {1, 4}}};
    held.push_back(session.compiled(types));
    ASSERT_TRUE(held.back().program) << held.back().why_not;
    for (const Value& value : held.back().program->graph().values)
      if (value.constant.dtype() == DType::f16 && value.constant.size() == kWide * kHidden)
        weights.insert(value.constant.data());
  }
  EXPECT_EQ(weights.size(), 2u);
}

TEST(SessionMemoryTest, UnusedDerivedConstantsAreEvicted) {
  Graph graph;
  graph.values.push_back({.name = "w", .constant = varied({1024}, 1)});
  const Tensor& w = graph.values[0].constant;
  DerivedConstants derived(graph);
  const Tensor held = derived.get(std::span(&w, 1), "held", [] { return varied({1 << 20}, 2); });
  for (int i = 0; i < 1000; ++i)
    derived.get(std::span(&w, 1), std::to_string(i), [] { return Tensor(DType::f32, {1 << 18}); });
  EXPECT_LT(derived.count(), 20u);
  EXPECT_EQ(derived.get(std::span(&w, 1), "held", [] { return Tensor(); }).data(), held.data());
}

TEST(SessionMemoryTest, UnusedPackedWeightsAreEvictedButThoseOfAPlanAreKept) {
  compute::Workers workers(1);
  cpu::Context context(workers);
  const Tensor w = varied({1024}, 1), brought = varied({1 << 20}, 2);
  const TensorType large{DType::f32, {1 << 20}}, small{DType::f32, {1 << 18}};
  context.restore({w, "brought of " + to_string(w.shape()), brought});
  const Tensor held = context.packed(w, "held", large, [] { return varied({1 << 20}, 3); });
  for (int i = 0; i < 1000; ++i)
    context.packed(w, std::to_string(i), small, [] { return Tensor(DType::f32, {1 << 18}); });
  EXPECT_LT(context.all_packed().size(), 20u);
  const auto never = [] { return Tensor(); };
  EXPECT_EQ(context.packed(w, "held", large, never).data(), held.data());
  EXPECT_EQ(context.packed(w, "brought", large, never).data(), brought.data());
}

}  // namespace
}  // namespace sluice::engine
