#include "cli/model/plan_footprint.h"

#include <gtest/gtest.h>

namespace sluice::cli {
namespace {

using engine::Graph;

// z = relu(x w) with x of [batch, 1024]: 4 KiB an item each for x, x w and z, and 4 MiB of w.
Graph matmul_graph(std::int64_t batch) {
  Graph graph;
  for (const char* name : {"x", "w", "a", "z"}) {
    graph.values.push_back({.name = name, .dtype = DType::f32});
    graph.values.back().dims = {{batch, ""}, {1024, ""}};
  }
  graph.values[1].constant = Tensor(DType::f32, Shape{1024, 1024});
  graph.nodes.push_back(
      {.name = "", .op = "MatMul", .domain = "", .inputs = {0, 1}, .outputs = {2}});
  graph.nodes.push_back({.name = "", .op = "Relu", .domain = "", .inputs = {2}, .outputs = {3}});
  graph.inputs = {0}, graph.outputs = {3};
  return graph;
}

engine::Plan plan_of(std::initializer_list<std::int64_t> batches) {
  engine::Plan plan;
  for (const auto batch : batches) plan.shapes.push_back(matmul_graph(batch));
  return plan;
}

TEST(PlanFootprint, TheFootprintIsWeightsPlusPeakLiveBytesPerItem) {
  for (const auto& plan : {plan_of({1, 8, 32}), plan_of({8})}) {
    const auto needs = footprint_of(plan);
    ASSERT_TRUE(needs);
    EXPECT_NEAR(needs->fixed_bytes, 4 << 20, 1);
    EXPECT_NEAR(needs->bytes_each, 3 * 4096, 1e-3);
  }
}

TEST(PlanFootprint, AViewTakesNoMemory) {
  auto plan = plan_of({8});
  plan.shapes[0].nodes[1].op = "Reshape";
  EXPECT_NEAR(footprint_of(plan)->bytes_each, 2 * 4096, 1e-3);
}

TEST(PlanFootprint, OnAGpuTheCudaContextIsAdded) {
  auto plan = plan_of({1, 8});
  plan.key.software = "driver 580, cuBLASLt 13";
  EXPECT_GT(footprint_of(plan)->fixed_bytes, 500 << 20);
}

TEST(PlanFootprint, WithoutAShapeOrAFileThereIsNoFootprint) {
  EXPECT_FALSE(footprint_of(plan_of({})));
  EXPECT_TRUE(plan_footprints({{"encoder", "/nowhere/encoder.plan"}}).empty());
}

}  // namespace
}  // namespace sluice::cli
