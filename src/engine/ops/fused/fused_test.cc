#include <gmock/gmock.h>

#include <cstring>

#include "engine/exec/cpu/gemm_for_tests.h"

namespace sluice::engine {
namespace {

using cpu::expect_close;
using cpu::KernelCase;
using cpu::random_tensor;
using ::testing::HasSubstr;
using Integer = std::int64_t;
using Integers = Attributes::Integers;
using Named = std::vector<std::pair<std::string, Attributes::Any>>;

Tensor run_fused(const std::string& op, const Named& with, std::vector<Tensor> inputs) {
  return KernelCase{{.op = op, .version = 1, .attributes = with, .domain = "sluice"},
                    std::move(inputs)}
      .expected();
}
Tensor run_onnx(const std::string& op, int version, const Named& with, std::vector<Tensor> inputs) {
  return KernelCase{{.op = op, .version = version, .attributes = with}, std::move(inputs)}
      .expected();
}
Tensor transposed(const Tensor& x, const Integers& perm) {
  return run_onnx("Transpose", 13, {{"perm", perm}}, {x});
}
std::string refusal_of_fused(const std::string& op, const Named& with, std::vector<Tensor> inputs) {
  try {
    run_fused(op, with, std::move(inputs));
  } catch (const Error& error) {
    return std::string(error.reason());
  }
  return "accepted";
}

const Integers kLast{0, 2, 3, 1}, kFirst{0, 3, 1, 2};

TEST(FusedTest, ConvMatchesOnnxWithChannelsLast) {
  const Tensor x = random_tensor({2, 7, 6, 4}, 1), w = random_tensor({6, 2, 3, 2}, 2);
  const Tensor bias = random_tensor({6}, 3), residual = random_tensor({2, 4, 5, 6}, 4);
  const Named with{{"strides", Integers{2, 1}},
                   {"pads", Integers{1, 0, 2, 1}},
                   {"dilations", Integers{1, 2}},
                   {"group", Integer{2}}};
  const Tensor plain = run_onnx("Conv", 11, with, {transposed(x, kFirst), w, bias});
  const Tensor sum = run_onnx("Add", 14, {}, {transposed(plain, kLast), residual});
  Named relu = with;
  relu.emplace_back("activation", std::string("relu"));
  expect_close(run_fused("Conv", relu, {x, w, bias, residual}), run_onnx("Relu", 14, {}, {sum}),
               1e-5f);
}

TEST(FusedTest, PoolsMatchOnnxWithChannelsLast) {
  const Tensor x = random_tensor({1, 5, 6, 3}, 1);
  for (const Integer all : {0, 1})
    for (const std::string op : {"MaxPool", "AveragePool"}) {
      Named with{{"strides", Integers{2, 1}}, {"pads", Integers{1, 0, 1, 1}}};
      if (op == "AveragePool") with.emplace_back("count_include_pad", all);
      Named ours = with;
      ours.emplace_back("kernel", Integers{3, 2});
      with.emplace_back("kernel_shape", Integers{3, 2});
      const Tensor plain = run_onnx(op, 11, with, {transposed(x, kFirst)});
      expect_close(run_fused(op, ours, {x}), transposed(plain, kLast), 1e-6f);
    }
}

TEST(FusedTest, Int8MaxPoolMatchesOnnxWithChannelsLast) {
  for (const DType type : {DType::u8, DType::i8}) {
    const Tensor x(type, {1, 5, 6, 3});
    for (std::size_t i = 0; i < x.bytes(); ++i)
      static_cast<std::uint8_t*>(x.data())[i] = static_cast<std::uint8_t>(i * 89);
    Named with{{"strides", Integers{2, 1}}, {"pads", Integers{1, 0, 1, 1}}};
    Named ours = with;
    ours.emplace_back("kernel", Integers{3, 2});
    with.emplace_back("kernel_shape", Integers{3, 2});
    const Tensor want = transposed(run_onnx("MaxPool", 12, with, {transposed(x, kFirst)}), kLast);
    const Tensor got = run_fused("MaxPool", ours, {x});
    ASSERT_EQ(got.dtype(), type);
    ASSERT_EQ(to_string(got.shape()), to_string(want.shape()));
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.bytes()), 0);
  }
}

TEST(FusedTest, LinearAppliesBiasThenActivationThenResidual) {
  const Tensor x = tensor_of<float>({1, 2}, {1, 2}), w = tensor_of<float>({2, 2}, {1, 0, 0, -1});
  const Tensor bias = tensor_of<float>({2}, {1, 1}), residual = tensor_of<float>({1, 2}, {-5, 7});
  const Tensor y =
      run_fused("Linear", {{"activation", std::string("relu")}}, {x, w, bias, residual});
  EXPECT_EQ(list_of<float>(y), (std::vector<float>{-3, 7}));
}

TEST(FusedTest, MismatchedShapesAreRejected) {
  const Tensor x = random_tensor({2, 3, 6}, 1), w = random_tensor({5, 4}, 2);
  EXPECT_THAT(refusal_of_fused("Linear", {}, {x, w}), HasSubstr("weights of shape"));
  EXPECT_THAT(refusal_of_fused("Linear", {}, {x}), HasSubstr("missing"));
  EXPECT_THAT(refusal_of_fused("Norm", {}, {x, Tensor(), random_tensor({5}, 1)}),
              HasSubstr("scale"));
  EXPECT_THAT(refusal_of_fused("Attention", {{"heads", Integer{4}}, {"packed", Integer{1}}}, {x}),
              HasSubstr("heads"));
  EXPECT_THAT(refusal_of_fused("Attention", {{"heads", Integer{1}}, {"packed", Integer{1}}},
                               {x, Tensor(), Tensor(), random_tensor({4}, 1)}),
              HasSubstr("broadcast"));
  EXPECT_THAT(refusal_of_fused("Conv", {{"group", Integer{3}}},
                               {random_tensor({1, 4, 4, 4}, 1), random_tensor({2, 4, 1, 1}, 1)}),
              HasSubstr("groups"));
  EXPECT_THAT(
      refusal_of_fused("MaxPool", {{"kernel", Integers{0, 1}}}, {random_tensor({1, 4, 4, 4}, 1)}),
      HasSubstr("kernel"));
  EXPECT_THAT(refusal_of_fused("Linear", {{"activation", std::string("fast")}},
                               {random_tensor({1, 5}, 1), w}),
              HasSubstr("not known"));
}

}  // namespace
}  // namespace sluice::engine
