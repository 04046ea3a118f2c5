#include <array>
#include <limits>

#include "engine/exec/cpu/gemm_for_tests.h"
#include "engine/exec/cpu/kernel_for_tests.h"

namespace sluice::engine::cpu {
namespace {

using Integer = std::int64_t;

Node attention(Integer heads, bool packed = false) {
  return fused_node("Attention",
                    {{"heads", heads}, {"scale", 0.3f}, {"packed", Integer{packed ? 1 : 0}}});
}

std::vector<float> first(const Tensor& tensor, std::size_t count) {
  const auto all = tensor.values<float>();
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)};
}

TEST(AttentionKernelTest, MatchesTheOperatorForAnyLengthAndHeadSize) {
  struct Case {
    Integer batch, heads, queries, keys, size;
  };
  for (const Case& c : {Case{2, 3, 32, 32, 64}, Case{1, 2, 1, 1, 1}, Case{1, 1, 33, 47, 32},
                        Case{2, 2, 7, 130, 80}, Case{1, 3, 135, 300, 5}, Case{1, 1, 16, 13, 17}}) {
    const Shape q{c.batch, c.queries, c.heads * c.size}, k{c.batch, c.keys, c.heads * c.size};
    for_each_target([&] {
      const KernelTest test(attention(c.heads), {varied(q), varied(k, 2), varied(k, 3)});
      EXPECT_EQ(test.kernel().name(), "attention");
      EXPECT_LT(test.difference(), 3e-6) << to_string(q) << to_string(k);
    });
  }
}

TEST(AttentionKernelTest, PackedQueriesKeysAndValuesMatchTheOperator) {
  const KernelTest test(attention(4, true), {varied({3, 50, 3 * 4 * 24})});
  EXPECT_EQ(test.kernel().name(), "attention");
  EXPECT_LT(test.difference(), 3e-6);
}

TEST(AttentionKernelTest, MasksAreBroadcast) {
  const Tensor x = varied({2, 37, 3 * 2 * 32});
  for (const Shape& shape : {Shape{2, 1, 1, 37}, Shape{37, 37}, Shape{2, 2, 37, 37},
                             Shape{1, 2, 37, 1}, Shape{37}, Shape{1, 1, 1, 1}}) {
    const Tensor mask = varied(shape, 5);
    for (float& value : mask.values<float>())
      if (shape[shape.rank() - 1] > 1 && value > 0.5f) value = std::numeric_limits<float>::lowest();
    for_each_target([&] {
      const KernelTest test(attention(2, true), {x, Tensor(), Tensor(), mask});
      EXPECT_EQ(test.kernel().name(), "attention");
      EXPECT_LT(test.difference(), 3e-6) << to_string(shape);
    });
  }
}

// The sum with a mask of -1e9 is a multiple of 64, also for the kernel.
TEST(AttentionKernelTest, LargeMasksAreAddedToTheRoundedScores) {
  const Tensor x = varied({2, 37, 3 * 2 * 32}), by_query(DType::f32, {37, 37});
  for (float& value : x.values<float>()) value *= 8;
  std::ranges::fill(by_query.values<float>(), -1e9f);
  for (const Tensor& mask : {tensor_of<float>({1}, {-1e9f}), by_query})
    for_each_target([&] {
      const KernelTest test(attention(2, true), {x, Tensor(), Tensor(), mask});
      EXPECT_EQ(test.kernel().name(), "attention");
      EXPECT_LT(test.difference(), 1e-4) << to_string(mask.shape());
    });
}

TEST(AttentionKernelTest, VarlenSequencesMatchTheOperator) {
  Node node = attention(2, true);
  node.attributes.set("max_seqlen", Integer{70});
  const Tensor cu_seqlens(DType::i32, {6});
  std::copy_n(std::array{0, 1, 71, 71, 104, 120}.begin(), 6,
              cu_seqlens.values<std::int32_t>().begin());
  const Tensor x = varied({1, 120, 3 * 2 * 24});
  for_each_target([&] {
    const KernelTest test(node, {x, Tensor(), Tensor(), Tensor(), cu_seqlens});
    EXPECT_EQ(test.kernel().name(), "attention");
    EXPECT_LT(test.difference(), 3e-6);
  });
}

// The kernel validates its inputs itself: a model may be malformed, and the operator does not run.
TEST(AttentionKernelTest, InvalidVarlenInputsHaveNoKernel) {
  const auto has_kernel = [](Integer max_seqlen, Integer seqlens, Integer keys) {
    Graph graph;
    const auto value = [&](DType dtype, const Shape& shape) {
      graph.values.push_back({.name = "", .dtype = dtype, .dims = std::vector<Dim>()});
      for (const Integer size : shape) graph.values.back().dims->push_back({size, ""});
      return static_cast<ValueId>(graph.values.size() - 1);
    };
    Node node = attention(2);
    node.attributes.set("max_seqlen", max_seqlen);
    const ValueId k = value(DType::f32, {1, keys, 48});
    node.inputs = {value(DType::f32, {1, 64, 48}), k, k, kNoValue, value(DType::i32, {seqlens})};
    node.outputs = {value(DType::f32, {1, 64, 48})};
    graph.nodes = {node};
    compute::Workers workers(1);
    Context context(workers);
    const auto kernel = make_kernel(graph, graph.nodes[0], context);
    return kernel && kernel->name() == "attention";
  };
  EXPECT_TRUE(has_kernel(64, 3, 64));
  for (const Integer max_seqlen : {Integer{0}, Integer{-1}, Integer{65}, Integer{1} << 62})
    EXPECT_FALSE(has_kernel(max_seqlen, 3, 64)) << max_seqlen;
  EXPECT_FALSE(has_kernel(64, 0, 64));
  EXPECT_FALSE(has_kernel(64, 1, 64));
  EXPECT_FALSE(has_kernel(64, 3, 63));
}

TEST(AttentionKernelTest, FullyMaskedQueriesAreNan) {
  const Tensor mask = varied({1, 1, 4, 4});
  for (float& value : mask.values<float>().first(4))
    value = -std::numeric_limits<float>::infinity();
  const KernelTest test(attention(1, true), {varied({1, 4, 24}), Tensor(), Tensor(), mask});
  EXPECT_TRUE(std::isnan(test.run().values<float>()[0]));
  EXPECT_LT(test.difference(), 3e-6);
}

TEST(AttentionKernelTest, ResultDoesNotDependOnTheBatchOrTheThreads) {
  const Tensor all = varied({3, 70, 3 * 2 * 48});
  const Tensor one = all.reshaped({3 * 70, 3 * 2 * 48});
  const Tensor alone(DType::f32, {1, 70, 3 * 2 * 48});
  std::copy_n(one.values<float>().begin(), alone.size(), alone.values<float>().begin());
  const KernelTest many(attention(2, true), {all}, 3), single(attention(2, true), {alone}, 1);
  const auto count = static_cast<std::size_t>(70 * 2 * 48);
  EXPECT_EQ(first(many.run(), count), first(single.run(), count));
}

}  // namespace
}  // namespace sluice::engine::cpu
