#include "engine/exec/cpu/gemm_for_tests.h"
#include "kernels/gemm/packed_gemm.h"

namespace sluice::engine::cpu {
namespace {

constexpr float kLinearTolerance = 2e-5f;  // for sums of a few hundred terms

KernelCase linear(std::int64_t m, std::int64_t n, std::int64_t k, const std::string& activation,
                  bool bias, bool residual) {
  OneNode what{"Linear", 1, {{"activation", activation}}, 1, "sluice"};
  if (activation == "clip") {
    what.attributes.emplace_back("low", -0.5f);
    what.attributes.emplace_back("high", 0.75f);
  }
  return {
      what,
      {random_tensor({m, k}, 1), random_tensor({k, n}, 2), bias ? random_tensor({n}, 3) : Tensor(),
       residual ? random_tensor({m, n}, 4) : Tensor()}};
}

TEST(LinearTest, AllShapesAreRightOnAllInstructionSets) {
  for_each_target([] {
    for (const std::int64_t m : {1, 5, 13, 130})
      for (const std::int64_t n : {1, 16, 33, 200})
        for (const std::int64_t k : {1, 7, 129}) {
          SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k);
          const KernelCase of = linear(m, n, k, "none", true, false);
          expect_close(of.made({m, n}, 2), of.expected(), kLinearTolerance);
        }
  });
}

TEST(LinearTest, EveryActivationWithBiasAndResidualIsRight) {
  for_each_target([] {
    for (const char* activation :
         {"none", "relu", "gelu", "gelu_tanh", "tanh", "sigmoid", "silu", "hard_swish", "clip"})
      for (const bool residual : {false, true}) {
        SCOPED_TRACE(activation);
        const KernelCase of = linear(14, 70, 30, activation, residual, residual);
        expect_close(of.made({14, 70}, 2), of.expected(), kLinearTolerance);
      }
  });
}

TEST(LinearTest, DeepGemmsContinueTheirSums) {
  for_each_target([] {
    const KernelCase of = linear(30, 50, 2600, "gelu", true, true);
    expect_close(of.made({30, 50}, 2), of.expected(), 2e-4f);
  });
}

TEST(LinearTest, ResultMayOverwriteTheResidual) {
  const KernelCase of = linear(30, 50, 2600, "none", true, true);
  expect_close(of.made({30, 50}, 2, true), of.expected(), 2e-4f);
}

TEST(LinearTest, RowDoesNotDependOnTheBatchOrTheThreads) {
  const std::int64_t n = 100, k = 1500;
  const KernelCase many = linear(77, n, k, "gelu", true, true);
  const Tensor all = many.made({77, n}, 3);
  for (const std::int64_t row : {0, 40, 76}) {
    KernelCase one = many;
    for (const std::size_t i : {std::size_t{0}, std::size_t{3}}) {
      const std::int64_t width = i == 0 ? k : n;
      one.inputs[i] = Tensor(DType::f32, {1, width});
      std::copy_n(many.inputs[i].values<float>().begin() + row * width, width,
                  one.inputs[i].values<float>().begin());
    }
    const Tensor alone = one.made({1, n}, 1);
    EXPECT_TRUE(std::equal(alone.values<float>().begin(), alone.values<float>().end(),
                           all.values<float>().begin() + row * n));
  }
}

TEST(LinearTest, GemmWithoutDepthIsTheBias) {
  const KernelCase of = linear(3, 5, 0, "none", true, false);
  expect_close(of.made({3, 5}, 2), of.expected(), 0);
}

TEST(LinearTest, NodesThatShareWeightsSharePanels) {
  compute::Workers workers(1);
  Context context(workers);
  const Tensor weights = random_tensor({8, 8}, 1);
  int made = 0;
  const auto pack = [&] { return ++made, panels_of(8, 8, {weights.values<float>().data(), 8, 1}); };
  const TensorType type{DType::f32, {panel_values(8, 8)}};
  const Tensor one = context.packed(weights, "panels", type, pack);
  EXPECT_EQ(context.packed(weights, "panels", type, pack).data(), one.data());
  EXPECT_EQ(made, 1);
  context.packed(weights.reshaped({4, 16}), "panels", type, pack);
  EXPECT_EQ(made, 2) << "another shape of the same elements is packed differently";
  EXPECT_THROW(context.packed(weights, "panels", {DType::f32, {65}}, pack), Error);
  EXPECT_THROW(context.packed(weights, "panels", {DType::u8, type.shape}, pack), Error);
}

KernelCase matmul(const Shape& a, const Shape& b) {
  return {{"MatMul", 13}, {random_tensor(a, 1), random_tensor(b, 2)}, false};
}

TEST(MatMulKernelTest, BatchedMatricesAreBroadcast) {
  struct Case {
    Shape a, b, c;
  };
  for (const Case& of :
       {Case{{3, 2, 17, 40}, {3, 2, 40, 70}, {3, 2, 17, 70}},
        Case{{3, 1, 17, 40}, {2, 40, 70}, {3, 2, 17, 70}}, Case{{4, 17, 40}, {40, 70}, {4, 17, 70}},
        Case{{17, 40}, {5, 40, 7}, {5, 17, 7}}, Case{{1, 300}, {300, 1}, {1, 1}}}) {
    SCOPED_TRACE(to_string(of.a) + " by " + to_string(of.b));
    const KernelCase gemm = matmul(of.a, of.b);
    for (const int threads : {1, 2, 5})
      expect_close(gemm.made(of.c, threads), gemm.expected(), kLinearTolerance);
  }
}

TEST(MatMulKernelTest, ConstantRightOperandIsPackedOnce) {
  KernelCase gemm = matmul({2, 17, 40}, {40, 70});
  gemm.weights = true;
  expect_close(gemm.made({2, 17, 70}, 2), gemm.expected(), kLinearTolerance);
}

}  // namespace
}  // namespace sluice::engine::cpu
