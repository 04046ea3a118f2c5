// Products and convolutions of small numbers on the GPU against the operators on the CPU.
#include <cuda_runtime_api.h>

#include <array>
#include <random>

#include "device/check.h"
#include "engine/cuda/op_cases_for_tests.h"
#include "engine/cuda/program_for_gpu_tests.h"
#include "engine/cuda/quantized_hopper.h"
#include "engine/quantize_weights.h"

namespace sluice::engine {
namespace {

using List = std::vector<std::int64_t>;

// Between QuantizeLinear and DequantizeLinear of this type.
struct Small {
  DType type = DType::i8;
  float scale = 0.01f;

  Tensor zero() const {
    if (type == DType::u8) return Tensor::of(std::uint8_t{131});
    if (type == DType::i8) return Tensor::of(std::int8_t{-3});
    return Tensor::of(Float8E4M3FN(0.0f));
  }
  ValueId rounded(GraphBuilder& b, ValueId x) const {
    const ValueId by = b.constant(Tensor::of(scale)), from = b.constant(zero());
    return b.node("DequantizeLinear", {b.node("QuantizeLinear", {x, by, from}), by, from});
  }
  ValueId weights(GraphBuilder& b, const Tensor& wide, int axis) const {
    const SmallWeights w = type == DType::f8e4m3fn ? fp8_weights(wide) : int8_weights(wide, axis);
    return b.node("DequantizeLinear", {b.constant(w.values), b.constant(w.scales)},
                  {{"axis", std::int64_t{axis}}});
  }
};

class CudaQuantizedTest : public CudaProgramTest {
 protected:
  // With a product or convolution of small numbers in it, and nothing on the CPU.
  void check_small(const Graph& graph, const std::vector<Tensor>& inputs, double slack) {
    check(graph, inputs, Precision::f32, slack);
    const auto program = compile(graph, inputs, Precision::f32);
    const bool of_bytes = kernels(*program).find("product of bytes") != std::string::npos;
    const bool own = cuda::test_context().capability() >= cuda::kSmallProductCapability;
    EXPECT_THAT(kernels(*program),
                testing::HasSubstr(of_bytes && own ? "bytes with all that follows"
                                                   : "cuBLASLt product of"));
  }
};

// A number between two steps may go either way; fp8 is summed in fewer bits.
constexpr double kFewSteps = 50;
double slack_of(DType type) { return type == DType::f8e4m3fn ? 200 : kFewSteps; }

TEST_F(CudaQuantizedTest, ProductsAgreeForEveryShapeAndType) {
  for (const DType type : {DType::i8, DType::u8, DType::f8e4m3fn})
    for (const auto& [m, k, n] : std::vector<std::array<std::int64_t, 3>>{
             {1, 16, 16}, {7, 33, 5}, {128, 384, 1536}, {513, 768, 100}, {9001, 64, 24}}) {
      SCOPED_TRACE(testing::Message()
                   << m << " x " << k << " x " << n << " of " << to_string(type));
      const Small small{type};
      GraphBuilder b(21);
      const ValueId x = small.rounded(b, b.input("x"));
      const ValueId product = b.node("MatMul", {x, small.weights(b, weights({k, n}, k, 2), 1)});
      check_small(b.output(b.node("Add", {product, b.constant(varied({n}, 3))})).take(),
                  {varied({m, k}, 1)}, slack_of(type));
    }
}

TEST_F(CudaQuantizedTest, AProductThatMakesStepsFeedsTheNext) {
  for (const DType type : {DType::i8, DType::u8, DType::f8e4m3fn}) {
    SCOPED_TRACE(to_string(type));
    const Small small{type};
    GraphBuilder b(21);
    const ValueId x = b.input("x");
    const ValueId first =
        b.node("MatMul", {small.rounded(b, x), small.weights(b, weights({96, 256}, 96, 2), 1)});
    const ValueId hidden = small.rounded(b, b.node("Relu", {first}));
    const ValueId second =
        b.node("MatMul", {hidden, small.weights(b, weights({256, 96}, 256, 3), 1)});
    const Graph graph = b.output(b.node("Add", {second, x})).take();
    // A step that is rounded the other way is a part in a hundred of a number.
    check_small(graph, {varied({300, 96}, 1)}, 300);
    check(graph, {varied({300, 96}, 1)}, Precision::f16, 10);
    check(graph, {varied({300, 96}, 1)}, Precision::bf16, 5);
  }
}

TEST_F(CudaQuantizedTest, ConvolutionsAgreeForEveryWindow) {
  struct Case {
    std::int64_t batch, side, in, out, window, stride, pad;
  };
  for (const DType type : {DType::i8, DType::u8})
    for (const Case& c :
         {Case{2, 14, 64, 64, 3, 1, 1}, Case{3, 28, 64, 32, 1, 1, 0}, Case{2, 28, 64, 128, 1, 2, 0},
          Case{2, 56, 3, 32, 7, 2, 3}, Case{1, 9, 5, 7, 2, 1, 0}, Case{40, 56, 64, 64, 3, 1, 1}}) {
      SCOPED_TRACE(testing::Message() << c.in << " -> " << c.out << ", window " << c.window
                                      << " by " << c.stride << " of " << to_string(type));
      const Small small{type};
      GraphBuilder b;
      const ValueId x = small.rounded(b, b.input("x"));
      const Tensor w = weights({c.out, c.in, c.window, c.window}, c.in * c.window * c.window, 2);
      const ValueId conv = b.node(
          "Conv", {x, small.weights(b, w, 0), b.constant(varied({c.out}, 3))},
          {{"strides", List{c.stride, c.stride}}, {"pads", List{c.pad, c.pad, c.pad, c.pad}}});
      check_small(b.output(b.node("Relu", {conv})).take(),
                  {varied({c.batch, c.in, c.side, c.side}, 1)}, kFewSteps);
    }
}

TEST_F(CudaQuantizedTest, ABlockWithAResidualOfBytesAgrees) {
  for (const DType type : {DType::i8, DType::u8}) {
    SCOPED_TRACE(to_string(type));
    const Small small{type};
    GraphBuilder b;
    const ValueId x = small.rounded(b, b.input("x"));
    const List ones{1, 1, 1, 1};
    const auto conv = [&](ValueId from, unsigned seed) {
      return b.node("Conv", {from, small.weights(b, weights({32, 32, 3, 3}, 288, seed), 0)},
                    {{"pads", ones}});
    };
    const ValueId hidden = small.rounded(b, b.node("Relu", {conv(x, 2)}));
    const ValueId sum = b.node("Relu", {b.node("Add", {conv(hidden, 3), x})});
    check_small(b.output(small.rounded(b, sum)).take(), {varied({2, 32, 15, 13}, 1)}, 300);
  }
}

// x, 11 x 9 pixels of 48 bytes, under a window of 3 x 3 that begins outside; and its sums by
// hand, which a float holds exactly.
struct ByHand {
  static constexpr int kImages = 7, kHigh = 11, kWide = 9, kChannels = 48, kFilters = 140;
  static constexpr int kOutHigh = 6, kOutWide = 5, kZero = 5;
  static constexpr int kRows = kImages * kOutHigh * kOutWide, kDepth = 9 * kChannels;
  std::vector<std::uint8_t> x, w;

  ByHand()
      : x(std::size_t{kImages} * kHigh * kWide * kChannels), w(std::size_t{kFilters} * kDepth) {
    std::mt19937 random(7);
    for (auto* const all : {&x, &w})
      for (std::uint8_t& byte : *all) byte = static_cast<std::uint8_t>(random());
  }

  float sum(int row, int filter) const {
    const int image = row / (kOutHigh * kOutWide), pixel = row % (kOutHigh * kOutWide);
    int sum = 0;
    for (int k = 0; k < kDepth; ++k) {
      const int place = k / kChannels;
      const int y = pixel / kOutWide * 2 - 1 + place / 3, at = pixel % kOutWide * 2 - 1 + place % 3;
      const bool is_inside = y >= 0 && y < kHigh && at >= 0 && at < kWide;
      const int there = ((image * kHigh + y) * kWide + at) * kChannels + k % kChannels;
      const int value = is_inside ? x[static_cast<std::size_t>(there)] : kZero;
      sum += value * static_cast<std::int8_t>(w[static_cast<std::size_t>(filter * kDepth + k)]);
    }
    return static_cast<float>(sum);
  }
};

std::vector<cuda::SmallTile> tiles_of(const cuda::Context& context) {
  using cuda::SmallTile;
  std::vector<SmallTile> all{SmallTile::large, SmallTile::tall, SmallTile::little};
  if (context.capability() == cuda::kHopper)
    all.insert(all.end(), {SmallTile::hopper, SmallTile::hopper_narrow, SmallTile::hopper_wide});
  return all;
}

TEST_F(CudaQuantizedTest, EveryTileGivesTheExactSums) {
  const ByHand hand;
  cuda::Context& context = cuda::test_context();
  const auto upload = [&]<class T>(const std::vector<T>& list) {
    return context.constant(Tensor::of(std::span<const T>(list)));
  };
  const auto x = upload(hand.x), w = upload(hand.w);
  const auto scale = upload(std::vector<float>(ByHand::kFilters, 1));
  std::vector<float> got(std::size_t{ByHand::kRows} * ByHand::kFilters);
  const auto y = context.allocate(got.size() * sizeof(float));
  cuda::SmallProduct product{.is_unsigned = true, .weight = w.get()};
  product.rows = {.x = x.get(),
                  .row = ByHand::kDepth,
                  .high = ByHand::kHigh,
                  .wide = ByHand::kWide,
                  .channels = ByHand::kChannels,
                  .out_high = ByHand::kOutHigh,
                  .out_wide = ByHand::kOutWide,
                  .kernel_high = 3,
                  .kernel_wide = 3,
                  .stride_high = 2,
                  .stride_wide = 2,
                  .top = 1,
                  .left = 1,
                  .outside = ByHand::kZero};
  product.finish = {.rows = ByHand::kRows,
                    .n = ByHand::kFilters,
                    .scale = static_cast<const float*>(scale.get()),
                    .y = y.get()};
  for (const cuda::SmallTile tile : tiles_of(context)) {
    SCOPED_TRACE(static_cast<int>(tile));
    product.tile = tile;
    device::check(cudaMemsetAsync(y.get(), 0xff, got.size() * sizeof(float), context.stream()));
    enqueue(product, context.stream());
    device::check(cudaStreamSynchronize(context.stream()));
    device::check(
        cudaMemcpy(got.data(), y.get(), got.size() * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < ByHand::kRows * ByHand::kFilters; ++i)
      ASSERT_EQ(got[static_cast<std::size_t>(i)],
                hand.sum(i / ByHand::kFilters, i % ByHand::kFilters))
          << i;
  }
}

}  // namespace
}  // namespace sluice::engine
