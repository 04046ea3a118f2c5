// Products and convolutions of small numbers on the GPU against the operators on the CPU.
#include <cuda_runtime_api.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "device/cuda/check.h"
#include "engine/exec/cuda/nodes/op_cases_for_tests.h"
#include "engine/exec/cuda/program_for_gpu_tests.h"
#include "engine/quantize/quantize_weights.h"
#include "kernels/quantized/epilogue_params_sm90.h"
#include "kernels/quantized/int8_gemm_sm90.h"

namespace sluice::engine {
namespace {

using List = std::vector<std::int64_t>;

// Between QuantizeLinear and DequantizeLinear of this type.
struct Small {
  DType type = DType::i8;
  bool from_zero = false;  // nothing is 0, and so is what lies outside
  float scale = 0.01f;

  Tensor zero() const {
    if (type == DType::u8) return Tensor::of(std::uint8_t(from_zero ? 0 : 131));
    if (type == DType::i8) return Tensor::of(std::int8_t(from_zero ? 0 : -3));
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

struct ConvCase {
  std::int64_t batch, side, in, out, window, stride, pad;
};
Graph conv_graph(const Small& small, const ConvCase& c) {
  GraphBuilder b;
  const ValueId x = small.rounded(b, b.input("x"));
  const Tensor w = weights({c.out, c.in, c.window, c.window}, c.in * c.window * c.window, 2);
  const ValueId conv =
      b.node("Conv", {x, small.weights(b, w, 0), b.constant(varied({c.out}, 3))},
             {{"strides", List{c.stride, c.stride}}, {"pads", List{c.pad, c.pad, c.pad, c.pad}}});
  return b.output(b.node("Relu", {conv})).take();
}

TEST_F(CudaQuantizedTest, ConvolutionsAgreeForEveryWindow) {
  for (const DType type : {DType::i8, DType::u8})
    for (const bool from_zero : {false, true})
      for (const ConvCase& c :
           {ConvCase{2, 14, 64, 64, 3, 1, 1}, ConvCase{3, 28, 64, 32, 1, 1, 0},
            ConvCase{2, 28, 64, 128, 1, 2, 0}, ConvCase{2, 56, 3, 32, 7, 2, 3},
            ConvCase{1, 9, 5, 7, 2, 1, 0}, ConvCase{5, 15, 160, 48, 3, 2, 1},
            ConvCase{2, 13, 256, 272, 5, 1, 2}, ConvCase{40, 56, 64, 64, 3, 1, 1}}) {
        SCOPED_TRACE(testing::Message() << c.in << " -> " << c.out << ", window " << c.window
                                        << " by " << c.stride << " of " << to_string(type));
        check_small(conv_graph({type, from_zero}, c), {varied({c.batch, c.in, c.side, c.side}, 1)},
                    kFewSteps);
      }
}

// Few channels: pixels are folded, if nothing speaks against it, and side by side read as one.
TEST_F(CudaQuantizedTest, WindowsOfFewChannelsAgree) {
  struct Few {
    std::int64_t channels, high, wide;  // of the window
    List strides, dilations, pads;
  };
  for (const bool from_zero : {false, true})
    for (const Few& c :
         {Few{3, 2, 3, {2, 1}, {2, 1}, {0, 0, 1, 2}}, Few{3, 1, 1, {3, 2}, {1, 1}, {0, 0, 0, 0}},
          Few{3, 1, 1, {20000, 20000}, {1, 1}, {0, 0, 0, 0}},
          Few{3, 3, 3, {1, 1}, {1, 1}, {1, 1, 1, 1}}, Few{1, 5, 4, {1, 3}, {1, 1}, {2, 0, 1, 3}},
          Few{5, 3, 2, {1, 1}, {2, 1}, {0, 0, 2, 1}}, Few{2, 1, 4, {1, 1}, {1, 2}, {0, 3, 0, 0}}}) {
      SCOPED_TRACE(testing::Message() << c.channels << " channels, window " << c.high << " x "
                                      << c.wide << " by " << c.strides[0]);
      const auto graph = [&](bool small) {
        const Small u8{DType::u8, from_zero};
        const Tensor w = weights({16, c.channels, c.high, c.wide}, c.channels * c.high * c.wide, 2);
        GraphBuilder b;
        const ValueId x = b.input("x");
        return b
            .output(b.node(
                "Conv", {small ? u8.rounded(b, x) : x, small ? u8.weights(b, w, 0) : b.constant(w)},
                {{"strides", c.strides}, {"dilations", c.dilations}, {"pads", c.pads}}))
            .take();
      };
      const std::vector<Tensor> inputs{varied({2, c.channels, 13, 17}, 1)};
      check_small(graph(true), inputs, kFewSteps);
      check(graph(false), inputs, Precision::f16);
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
  static constexpr int kOutHigh = 6, kOutWide = 5;
  static constexpr int kRows = kImages * kOutHigh * kOutWide, kDepth = 9 * kChannels;
  std::vector<std::uint8_t> x, w;
  std::uint8_t zero = 0;  // what lies outside

  ByHand()
      : x(std::size_t{kImages} * kHigh * kWide * kChannels), w(std::size_t{kFilters} * kDepth) {
    std::mt19937 random(7);
    for (auto* const all : {&x, &w})
      for (std::uint8_t& byte : *all) byte = static_cast<std::uint8_t>(random());
  }

  float sum(bool is_unsigned, int row, int filter) const {
    const int image = row / (kOutHigh * kOutWide), pixel = row % (kOutHigh * kOutWide);
    int sum = 0;
    for (int k = 0; k < kDepth; ++k) {
      const int place = k / kChannels;
      const int y = pixel / kOutWide * 2 - 1 + place / 3, at = pixel % kOutWide * 2 - 1 + place % 3;
      const bool is_inside = y >= 0 && y < kHigh && at >= 0 && at < kWide;
      const int there = ((image * kHigh + y) * kWide + at) * kChannels + k % kChannels;
      const std::uint8_t byte = is_inside ? x[static_cast<std::size_t>(there)] : zero;
      const int value = is_unsigned ? byte : static_cast<std::int8_t>(byte);
      sum += value * static_cast<std::int8_t>(w[static_cast<std::size_t>(filter * kDepth + k)]);
    }
    return static_cast<float>(sum);
  }
};

// What becomes of sums.
struct Becomes {
  cuda::SmallType to, residual;
  Activation activation;
  int columns;  // of ByHand's filters
  int zero = 7;
  float low = 0, high = 0;  // of clip
};
constexpr float kScale = 1 / 16384.0f, kToScale = 0.25f, kResidualScale = 0.125f;
constexpr int kResidualZero = 3;

class SmallTilesTest : public CudaProgramTest {
 protected:
  SmallTilesTest() {
    bias_ = Tensor(DType::f32, {ByHand::kFilters});
    for (float& x : bias_.values<float>()) x = next_ * 0.5f, next_ = next_ > 9 ? -9 : next_ + 1;
    const auto count = std::int64_t{ByHand::kRows} * ByHand::kFilters;
    residual_ = Tensor(DType::u8, {count});
    std::mt19937 random(8);
    for (std::uint8_t& x : residual_.values<std::uint8_t>())
      x = static_cast<std::uint8_t>(random());
    x_ = upload(std::span<const std::uint8_t>(hand_.x));
    w_ = upload(std::span<const std::uint8_t>(hand_.w));
    scales_ = upload(std::span<const float>(std::vector<float>(ByHand::kFilters, kScale)));
    biases_ = context().constant(bias_);
    residuals_ = context().constant(residual_);
    y_ = context().allocate(static_cast<std::size_t>(count) * sizeof(float));
    device::check(cudaDeviceSynchronize());
  }

  static cuda::Context& context() { return cuda::test_context(); }
  template <class T>
  static cuda::ConstMemory upload(std::span<const T> list) {
    return context().constant(Tensor::of(list));
  }

  cuda::SmallProduct product(bool is_unsigned, const Becomes& becomes) const {
    cuda::SmallProduct product{.weight = w_.get()};
    product.from = is_unsigned ? cuda::SmallType::u8 : cuda::SmallType::i8;
    product.rows = {.x = x_.get(),
                    .row = ByHand::kDepth,
                    .high = ByHand::kHigh,
                    .wide = ByHand::kWide,
                    .channels = ByHand::kChannels,
                    .pixel = ByHand::kChannels,
                    .out_high = ByHand::kOutHigh,
                    .out_wide = ByHand::kOutWide,
                    .kernel_high = 3,
                    .kernel_wide = 3,
                    .stride_high = 2,
                    .stride_wide = 2,
                    .top = 1,
                    .left = 1,
                    .outside = hand_.zero};
    product.finish = {.rows = ByHand::kRows,
                      .n = becomes.columns,
                      .scale = static_cast<const float*>(scales_.get()),
                      .bias = static_cast<const float*>(biases_.get()),
                      .residual = residuals_.get(),
                      .residual_type = becomes.residual,
                      .to = becomes.to,
                      .residual_scale = kResidualScale,
                      .to_scale = kToScale,
                      .residual_zero = kResidualZero,
                      .to_zero = becomes.zero,
                      .residual_first = true,
                      .activation = becomes.activation,
                      .low = becomes.low,
                      .high = becomes.high,
                      .y = y_.get()};
    return product;
  }

  // As tiles of Hopper want them.
  void arrange(cuda::SmallProduct& product) {
    std::vector<float> columns(4 * cuda::kMostColumns);
    for (std::size_t i = 0; i < ByHand::kFilters; ++i) {
      const auto own = cuda::hopper_column(product.finish, kScale, bias_.values<float>()[i], 0);
      columns[2 * i] = own.scale, columns[2 * i + 1] = own.bias;
    }
    const auto weights = cuda::in_hopper_order(hand_.w.data(), ByHand::kFilters, ByHand::kDepth);
    columns_ = upload(std::span<const float>(columns));
    arranged_ = upload(std::span<const std::uint8_t>(weights));
    device::check(cudaDeviceSynchronize());
    product.columns = static_cast<const cuda::SmallColumn*>(columns_.get());
    product.weight = arranged_.get();
  }

  // By hand, before it is stored.
  float wanted(bool is_unsigned, const Becomes& becomes, int row, int column) const {
    const auto at = static_cast<std::size_t>(row * becomes.columns + column);
    float x = std::fma(hand_.sum(is_unsigned, row, column), kScale,
                       bias_.values<float>()[static_cast<std::size_t>(column)]);
    const std::uint8_t byte = residual_.values<std::uint8_t>()[at];
    if (becomes.residual == cuda::SmallType::u8) x += (byte - kResidualZero) * kResidualScale;
    if (becomes.residual == cuda::SmallType::i8)
      x += (static_cast<std::int8_t>(byte) - kResidualZero) * kResidualScale;
    if (becomes.activation == Activation::clip) return std::clamp(x, becomes.low, becomes.high);
    return becomes.activation == Activation::relu ? std::max(x, 0.0f) : x;
  }

  // Of the kernel, as it is after storing.
  std::vector<float> run(const cuda::SmallProduct& product) const {
    const std::size_t count =
        static_cast<std::size_t>(product.finish.rows) * static_cast<std::size_t>(product.finish.n);
    const auto width = static_cast<std::size_t>(bytes_of(product.finish.to));
    std::vector<std::uint8_t> got(count * width);
    device::check(cudaMemsetAsync(y_.get(), 0xff, got.size(), context().stream()));
    enqueue(product, context().stream());
    device::check(cudaStreamSynchronize(context().stream()));
    device::check(cudaMemcpy(got.data(), y_.get(), got.size(), cudaMemcpyDeviceToHost));
    std::vector<float> numbers(count);
    for (std::size_t i = 0; i < count; ++i) {
      if (width == 4) std::memcpy(&numbers[i], &got[i * 4], 4);
      if (width == 1 && product.finish.to == cuda::SmallType::u8) numbers[i] = got[i];
      if (width == 1 && product.finish.to == cuda::SmallType::i8)
        numbers[i] = static_cast<std::int8_t>(got[i]);
      Half half;
      if (width == 2) std::memcpy(&half, &got[i * 2], 2), numbers[i] = static_cast<float>(half);
    }
    return numbers;
  }

  // How it is stored.
  static float stored(const Becomes& becomes, float x) {
    const auto steps = [&](float least) {
      return std::clamp(std::nearbyint(x / kToScale) + static_cast<float>(becomes.zero), least,
                        least + 255);
    };
    if (becomes.to == cuda::SmallType::u8) return steps(0);
    if (becomes.to == cuda::SmallType::i8) return steps(-128);
    if (becomes.to == cuda::SmallType::f16) return static_cast<float>(Half(x));
    return x;
  }

  void check_tile(cuda::SmallTile tile, bool is_unsigned, const Becomes& becomes) {
    cuda::SmallProduct p = product(is_unsigned, becomes);
    p.tile = tile;
    if (cuda::is_on_hopper(tile)) {
      if (context().capability() != cuda::kHopper || !cuda::hopper_takes(p)) return;
      arrange(p);
    }
    const std::vector<float> got = run(p);
    for (int i = 0; i < ByHand::kRows * becomes.columns; ++i) {
      const float x = wanted(is_unsigned, becomes, i / becomes.columns, i % becomes.columns);
      ASSERT_EQ(got[static_cast<std::size_t>(i)], stored(becomes, x))
          << i << ": " << x << ", tile " << static_cast<int>(tile);
    }
  }

  ByHand hand_;

 private:
  float next_ = -9;
  Tensor bias_, residual_;
  cuda::ConstMemory x_, w_, scales_, biases_, residuals_, columns_, arranged_;
  cuda::Memory y_;
};

TEST_F(SmallTilesTest, EveryTileGivesTheExactResults) {
  using cuda::SmallTile, cuda::SmallType;
  const SmallTile tiles[] = {SmallTile::large, SmallTile::tall, SmallTile::little,
                             SmallTile::hopper, SmallTile::hopper_narrow};
  const Becomes all[] = {
      {SmallType::f32, SmallType::none, Activation::none, ByHand::kFilters},
      {SmallType::f32, SmallType::none, Activation::relu, 37},
      {SmallType::f16, SmallType::u8, Activation::relu, ByHand::kFilters},
      {SmallType::u8, SmallType::u8, Activation::relu, ByHand::kFilters},
      {SmallType::u8, SmallType::u8, Activation::none, 128},
      {SmallType::u8, SmallType::none, Activation::none, 128, 0},
      {SmallType::u8, SmallType::none, Activation::relu, 64, 254},
      {SmallType::u8, SmallType::u8, Activation::clip, 64, 128, -3, 6},
      {SmallType::u8, SmallType::none, Activation::clip, 64, 255, 30, 60},
      {SmallType::i8, SmallType::none, Activation::clip, 64, -128, -60, -10},
      {SmallType::i8, SmallType::i8, Activation::none, 64},
      {SmallType::i8, SmallType::u8, Activation::none, 128, -2},
      {SmallType::i8, SmallType::i8, Activation::none, 37},
  };
  for (const bool is_unsigned : {true, false})
    for (const Becomes& becomes : all)
      for (const SmallTile tile : tiles) {
        SCOPED_TRACE(testing::Message()
                     << "unsigned " << is_unsigned << ", columns " << becomes.columns << ", to "
                     << static_cast<int>(becomes.to));
        check_tile(tile, is_unsigned, becomes);
      }
}

}  // namespace
}  // namespace sluice::engine
