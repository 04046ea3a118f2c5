// Quantized GEMM and convolution on the GPU against the operators on the CPU.
#include <cuda_runtime_api.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "device/cuda/check.h"
#include "engine/exec/cuda/cuda_program.h"
#include "engine/exec/cuda/nodes/op_cases_for_tests.h"
#include "engine/exec/cuda/program_for_gpu_tests.h"
#include "engine/graph/fused_ops.h"
#include "engine/quantize/quantize_weights.h"
#include "kernels/gemm/epilogue_params_sm90.h"
#include "kernels/gemm/gemm_sm90.h"

namespace sluice::engine {
namespace {

using List = std::vector<std::int64_t>;

// Builds QuantizeLinear and DequantizeLinear nodes of this type.
struct QuantFormat {
  DType type = DType::i8;
  bool from_zero = false;  // zero point 0, so padding is 0
  float scale = 0.01f;

  Tensor zero() const {
    if (type == DType::u8) return Tensor::of(std::uint8_t(from_zero ? 0 : 131));
    if (type == DType::i8) return Tensor::of(std::int8_t(from_zero ? 0 : -3));
    return Tensor::of(Float8E4M3FN(0.0f));
  }
  ValueId quantize_dequantize(GraphBuilder& b, ValueId x) const {
    const ValueId by = b.constant(Tensor::of(scale)), from = b.constant(zero());
    return b.node("DequantizeLinear", {b.node("QuantizeLinear", {x, by, from}), by, from});
  }
  ValueId weights(GraphBuilder& b, const Tensor& wide, int axis) const {
    const QuantizedWeights w =
        type == DType::f8e4m3fn ? fp8_weights(wide) : int8_weights(wide, axis);
    return b.node("DequantizeLinear", {b.constant(w.values), b.constant(w.scales)},
                  {{"axis", std::int64_t{axis}}});
  }
};

class CudaQuantizedTest : public CudaProgramTest {
 protected:
  using CudaProgramTest::CudaProgramTest;

  // The graph has a quantized GEMM or convolution, and nothing runs on the CPU.
  void check_quantized(const Graph& graph, const std::vector<Tensor>& inputs, double slack) {
    check(graph, inputs, Precision::f32, slack);
    const auto program = compile(graph, inputs, Precision::f32);
    const bool is_int8 = kernels(*program).find("int8 GEMM") != std::string::npos;
    const bool fused = cuda::test_context().code_capability() >= cuda::kTileGemmMinCapability;
    EXPECT_THAT(kernels(*program),
                testing::HasSubstr(is_int8 && fused ? "int8 GEMM with fused epilogue"
                                                    : "GEMM, then epilogue"));
  }
};

// A value between two quantized levels may round either way; fp8 accumulates with fewer bits.
constexpr double kFewLevels = 50;
double slack_of(DType type) { return type == DType::f8e4m3fn ? 200 : kFewLevels; }

class CudaQuantizedGemm : public CudaProgramCases<DType, CudaQuantizedTest> {};

TEST_P(CudaQuantizedGemm, MatchesTheCpuForEveryShape) {
  const DType type = GetParam();
  for (const auto& [m, k, n] : std::vector<std::array<std::int64_t, 3>>{
           {1, 16, 16}, {7, 33, 5}, {128, 384, 1536}, {513, 768, 100}, {9001, 64, 24}}) {
    SCOPED_TRACE(testing::Message() << m << " x " << k << " x " << n << " of " << to_string(type));
    const QuantFormat quant{type};
    GraphBuilder b(21);
    const ValueId x = quant.quantize_dequantize(b, b.input("x"));
    const ValueId gemm = b.node("MatMul", {x, quant.weights(b, weights({k, n}, k, 2), 1)});
    check_quantized(b.output(b.node("Add", {gemm, b.constant(varied({n}, 3))})).take(),
                    {varied({m, k}, 1)}, slack_of(type));
  }
}

TEST_P(CudaQuantizedGemm, FeedsTheNextGemm) {
  const QuantFormat quant{GetParam()};
  GraphBuilder b(21);
  const ValueId x = b.input("x");
  const ValueId first = b.node(
      "MatMul", {quant.quantize_dequantize(b, x), quant.weights(b, weights({96, 256}, 96, 2), 1)});
  const ValueId hidden = quant.quantize_dequantize(b, b.node("Relu", {first}));
  const ValueId second =
      b.node("MatMul", {hidden, quant.weights(b, weights({256, 96}, 256, 3), 1)});
  const Graph graph = b.output(b.node("Add", {second, x})).take();
  // Rounding to the adjacent quantized level changes a value by about one percent.
  check_quantized(graph, {varied({300, 96}, 1)}, 300);
  check(graph, {varied({300, 96}, 1)}, Precision::f16, 10);
  check(graph, {varied({300, 96}, 1)}, Precision::bf16, 5);
}

INSTANTIATE_TEST_SUITE_P(Quantized, CudaQuantizedGemm,
                         testing::Values(DType::i8, DType::u8, DType::f8e4m3fn),
                         [](const auto& type) { return case_name(to_string(type.param)); });

struct ConvCase {
  std::int64_t batch, side, in, out, window, stride, pad;
};
std::ostream& operator<<(std::ostream& to, const ConvCase& c) {
  return to << c.batch << "x" << c.side << "x" << c.side << "x" << c.in << " to " << c.out
            << " window " << c.window << " stride " << c.stride;
}
Graph conv_graph(const QuantFormat& quant, const ConvCase& c) {
  GraphBuilder b;
  const ValueId x = quant.quantize_dequantize(b, b.input("x"));
  const Tensor w = weights({c.out, c.in, c.window, c.window}, c.in * c.window * c.window, 2);
  const ValueId conv =
      b.node("Conv", {x, quant.weights(b, w, 0), b.constant(varied({c.out}, 3))},
             {{"strides", List{c.stride, c.stride}}, {"pads", List{c.pad, c.pad, c.pad, c.pad}}});
  return b.output(b.node("Relu", {conv})).take();
}

class CudaInt8Convolution : public CudaProgramCases<ConvCase, CudaQuantizedTest> {};

TEST_P(CudaInt8Convolution, MatchesTheCpu) {
  const ConvCase& c = GetParam();
  for (const DType type : {DType::i8, DType::u8})
    for (const bool from_zero : {false, true}) {
      SCOPED_TRACE(testing::Message() << to_string(type) << ", padding is 0: " << from_zero);
      check_quantized(conv_graph({type, from_zero}, c),
                      {varied({c.batch, c.in, c.side, c.side}, 1)}, kFewLevels);
    }
}

template <class Case>
std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  return case_name(testing::PrintToString(info.param));
}

INSTANTIATE_TEST_SUITE_P(
    Quantized, CudaInt8Convolution,
    testing::Values(ConvCase{2, 14, 64, 64, 3, 1, 1}, ConvCase{3, 28, 64, 32, 1, 1, 0},
                    ConvCase{2, 28, 64, 128, 1, 2, 0}, ConvCase{2, 56, 3, 32, 7, 2, 3},
                    ConvCase{1, 9, 5, 7, 2, 1, 0}, ConvCase{5, 15, 160, 48, 3, 2, 1},
                    ConvCase{2, 13, 256, 272, 5, 1, 2}, ConvCase{40, 56, 64, 64, 3, 1, 1}),
    name_of_case<ConvCase>);

struct FewChannelsCase {
  std::int64_t channels, high, wide;  // of the window
  List strides, dilations, pads;
};
std::ostream& operator<<(std::ostream& to, const FewChannelsCase& c) {
  return to << c.channels << " channels window " << c.high << "x" << c.wide << " stride "
            << c.strides[0] << "x" << c.strides[1];
}

class CudaConvolutionOfFewChannels : public CudaProgramCases<FewChannelsCase, CudaQuantizedTest> {};

// Few channels use space-to-depth where possible.
TEST_P(CudaConvolutionOfFewChannels, MatchesTheCpu) {
  const FewChannelsCase& c = GetParam();
  for (const bool from_zero : {false, true}) {
    SCOPED_TRACE(testing::Message() << "padding is 0: " << from_zero);
    const auto graph = [&](bool quant) {
      const QuantFormat u8{DType::u8, from_zero};
      const Tensor w = weights({16, c.channels, c.high, c.wide}, c.channels * c.high * c.wide, 2);
      GraphBuilder b;
      const ValueId x = b.input("x");
      return b
          .output(b.node("Conv",
                         {quant ? u8.quantize_dequantize(b, x) : x,
                          quant ? u8.weights(b, w, 0) : b.constant(w)},
                         {{"strides", c.strides}, {"dilations", c.dilations}, {"pads", c.pads}}))
          .take();
    };
    const std::vector<Tensor> inputs{varied({2, c.channels, 13, 17}, 1)};
    check_quantized(graph(true), inputs, kFewLevels);
    check(graph(false), inputs, Precision::f16);
  }
}

INSTANTIATE_TEST_SUITE_P(Quantized, CudaConvolutionOfFewChannels,
                         testing::Values(FewChannelsCase{3, 2, 3, {2, 1}, {2, 1}, {0, 0, 1, 2}},
                                         FewChannelsCase{3, 1, 1, {3, 2}, {1, 1}, {0, 0, 0, 0}},
                                         FewChannelsCase{
                                             3, 1, 1, {20000, 20000}, {1, 1}, {0, 0, 0, 0}},
                                         FewChannelsCase{3, 3, 3, {1, 1}, {1, 1}, {1, 1, 1, 1}},
                                         FewChannelsCase{1, 5, 4, {1, 3}, {1, 1}, {2, 0, 1, 3}},
                                         FewChannelsCase{5, 3, 2, {1, 1}, {2, 1}, {0, 0, 2, 1}},
                                         FewChannelsCase{2, 1, 4, {1, 1}, {1, 2}, {0, 3, 0, 0}}),
                         name_of_case<FewChannelsCase>);

TEST_F(CudaQuantizedTest, BlockWithAnInt8ResidualMatches) {
  for (const DType type : {DType::i8, DType::u8}) {
    SCOPED_TRACE(to_string(type));
    const QuantFormat quant{type};
    GraphBuilder b;
    const ValueId x = quant.quantize_dequantize(b, b.input("x"));
    const List ones{1, 1, 1, 1};
    const auto conv = [&](ValueId from, unsigned seed) {
      return b.node("Conv", {from, quant.weights(b, weights({32, 32, 3, 3}, 288, seed), 0)},
                    {{"pads", ones}});
    };
    const ValueId hidden = quant.quantize_dequantize(b, b.node("Relu", {conv(x, 2)}));
    const ValueId sum = b.node("Relu", {b.node("Add", {conv(hidden, 3), x})});
    check_quantized(b.output(quant.quantize_dequantize(b, sum)).take(),
                    {varied({2, 32, 15, 13}, 1)}, 300);
  }
}

// x, 11 x 9 pixels of 48 bytes, under a padded 3 x 3 window; and reference sums, which a float
// holds exactly.
struct Reference {
  static constexpr int kImages = 7, kHigh = 11, kWide = 9, kChannels = 48, kFilters = 140;
  static constexpr int kOutHigh = 6, kOutWide = 5;
  static constexpr int kRows = kImages * kOutHigh * kOutWide, kDepth = 9 * kChannels;
  std::vector<std::uint8_t> x, w;
  std::uint8_t zero = 0;  // padding

  Reference()
      : x(std::size_t{kImages} * kHigh * kWide * kChannels), w(std::size_t{kFilters} * kDepth) {
    std::mt19937 random(7);
    for (auto* const all : {&x, &w})
      for (std::uint8_t& byte : *all) byte = static_cast<std::uint8_t>(random());
  }

  float sum(bool is_unsigned, int row, int filter) const {
    const int image = row / (kOutHigh * kOutWide), pixel = row % (kOutHigh * kOutWide);
    int sum = 0;
    for (int k = 0; k < kDepth; ++k) {
      const int tap = k / kChannels;
      const int y = pixel / kOutWide * 2 - 1 + tap / 3, at = pixel % kOutWide * 2 - 1 + tap % 3;
      const bool is_inside = y >= 0 && y < kHigh && at >= 0 && at < kWide;
      const int there = ((image * kHigh + y) * kWide + at) * kChannels + k % kChannels;
      const std::uint8_t byte = is_inside ? x[static_cast<std::size_t>(there)] : zero;
      const int value = is_unsigned ? byte : static_cast<std::int8_t>(byte);
      sum += value * static_cast<std::int8_t>(w[static_cast<std::size_t>(filter * kDepth + k)]);
    }
    return static_cast<float>(sum);
  }
};

// The epilogue of a case.
struct Becomes {
  cuda::GemmType to, residual;
  Activation activation;
  int columns;  // of Reference's filters
  int zero = 7;
  float low = 0, high = 0;  // of clip
};
constexpr float kScale = 1 / 16384.0f, kToScale = 0.25f, kResidualScale = 0.125f;
constexpr int kResidualZero = 3;

class Int8GemmTileTest : public CudaProgramTest,
                         public testing::WithParamInterface<cuda::GemmTile> {
 protected:
  Int8GemmTileTest() {
    bias_ = Tensor(DType::f32, {Reference::kFilters});
    for (float& x : bias_.values<float>()) x = next_ * 0.5f, next_ = next_ > 9 ? -9 : next_ + 1;
    const auto count = std::int64_t{Reference::kRows} * Reference::kFilters;
    residual_ = Tensor(DType::u8, {count});
    std::mt19937 random(8);
    for (std::uint8_t& x : residual_.values<std::uint8_t>())
      x = static_cast<std::uint8_t>(random());
    x_ = upload(std::span<const std::uint8_t>(hand_.x));
    w_ = upload(std::span<const std::uint8_t>(hand_.w));
    scales_ = upload(std::span<const float>(std::vector<float>(Reference::kFilters, kScale)));
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

  cuda::TileGemmCall gemm_call(bool is_unsigned, const Becomes& becomes) const {
    cuda::TileGemmCall gemm{.weight = w_.get()};
    gemm.from = is_unsigned ? cuda::GemmType::u8 : cuda::GemmType::i8;
    gemm.rows = {.x = x_.get(),
                 .row_bytes = Reference::kDepth,
                 .height = Reference::kHigh,
                 .width = Reference::kWide,
                 .channels = Reference::kChannels,
                 .pixel_stride = Reference::kChannels,
                 .out_height = Reference::kOutHigh,
                 .out_width = Reference::kOutWide,
                 .kernel_height = 3,
                 .kernel_width = 3,
                 .stride_y = 2,
                 .stride_x = 2,
                 .pad_top = 1,
                 .pad_left = 1,
                 .pad_value = hand_.zero};
    gemm.epilogue = {.rows = Reference::kRows,
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
    return gemm;
  }

  // In the layout of the sm90 tiles.
  void arrange(cuda::TileGemmCall& gemm) {
    std::vector<float> columns(4 * cuda::kMaxTileColumns);
    for (std::size_t i = 0; i < Reference::kFilters; ++i) {
      const auto own = cuda::sm90_scale_bias(gemm.epilogue, kScale, bias_.values<float>()[i], 0);
      columns[2 * i] = own.scale, columns[2 * i + 1] = own.bias;
    }
    const auto weights =
        cuda::sm90_weight_order(hand_.w.data(), Reference::kFilters, Reference::kDepth);
    columns_ = upload(std::span<const float>(columns));
    arranged_ = upload(std::span<const std::uint8_t>(weights));
    device::check(cudaDeviceSynchronize());
    gemm.scale_bias = static_cast<const cuda::ScaleBias*>(columns_.get());
    gemm.weight = arranged_.get();
  }

  // The reference, before it is stored.
  float wanted(bool is_unsigned, const Becomes& becomes, int row, int column) const {
    const auto at = static_cast<std::size_t>(row * becomes.columns + column);
    float x = std::fma(hand_.sum(is_unsigned, row, column), kScale,
                       bias_.values<float>()[static_cast<std::size_t>(column)]);
    const std::uint8_t byte = residual_.values<std::uint8_t>()[at];
    if (becomes.residual == cuda::GemmType::u8) x += (byte - kResidualZero) * kResidualScale;
    if (becomes.residual == cuda::GemmType::i8)
      x += (static_cast<std::int8_t>(byte) - kResidualZero) * kResidualScale;
    if (becomes.activation == Activation::clip) return std::clamp(x, becomes.low, becomes.high);
    return becomes.activation == Activation::relu ? std::max(x, 0.0f) : x;
  }

  // The kernel's result, as stored.
  std::vector<float> run(const cuda::TileGemmCall& gemm) const {
    const std::size_t count =
        static_cast<std::size_t>(gemm.epilogue.rows) * static_cast<std::size_t>(gemm.epilogue.n);
    const auto width = static_cast<std::size_t>(bytes_of(gemm.epilogue.to));
    std::vector<std::uint8_t> got(count * width);
    device::check(cudaMemsetAsync(y_.get(), 0xff, got.size(), context().stream()));
    enqueue_tile_gemm(gemm, context().stream());
    device::check(cudaStreamSynchronize(context().stream()));
    device::check(cudaMemcpy(got.data(), y_.get(), got.size(), cudaMemcpyDeviceToHost));
    std::vector<float> numbers(count);
    for (std::size_t i = 0; i < count; ++i) {
      if (width == 4) std::memcpy(&numbers[i], &got[i * 4], 4);
      if (width == 1 && gemm.epilogue.to == cuda::GemmType::u8) numbers[i] = got[i];
      if (width == 1 && gemm.epilogue.to == cuda::GemmType::i8)
        numbers[i] = static_cast<std::int8_t>(got[i]);
      Half half;
      if (width == 2) std::memcpy(&half, &got[i * 2], 2), numbers[i] = static_cast<float>(half);
    }
    return numbers;
  }

  // Converts to the stored type.
  static float stored(const Becomes& becomes, float x) {
    const auto steps = [&](float min) {
      return std::clamp(std::nearbyint(x / kToScale) + static_cast<float>(becomes.zero), min,
                        min + 255);
    };
    if (becomes.to == cuda::GemmType::u8) return steps(0);
    if (becomes.to == cuda::GemmType::i8) return steps(-128);
    if (becomes.to == cuda::GemmType::f16) return static_cast<float>(Half(x));
    return x;
  }

  void check_tile(cuda::GemmTile tile, bool is_unsigned, const Becomes& becomes) {
    cuda::TileGemmCall p = gemm_call(is_unsigned, becomes);
    p.tile = tile;
    if (cuda::is_sm90(tile)) {
      if (!cuda::gemm_sm90_supports(p)) return;
      arrange(p);
    }
    const std::vector<float> got = run(p);
    for (int i = 0; i < Reference::kRows * becomes.columns; ++i) {
      const float x = wanted(is_unsigned, becomes, i / becomes.columns, i % becomes.columns);
      ASSERT_EQ(got[static_cast<std::size_t>(i)], stored(becomes, x))
          << i << ": " << x << ", tile " << static_cast<int>(tile);
    }
  }

  Reference hand_;

 private:
  float next_ = -9;
  Tensor bias_, residual_;
  cuda::ConstMemory x_, w_, scales_, biases_, residuals_, columns_, arranged_;
  cuda::Memory y_;
};

TEST_P(Int8GemmTileTest, ComputesTheExactResults) {
  if (cuda::test_context().code_capability() < cuda::kTileGemmMinCapability)
    GTEST_SKIP() << "needs code for 8.0 and up";
  using cuda::GemmType;
  if (cuda::is_sm90(GetParam()) && !context().has_sm90())
    GTEST_SKIP() << "needs a Hopper GPU and code for sm_90a";
  const Becomes all[] = {
      {GemmType::f32, GemmType::none, Activation::none, Reference::kFilters},
      {GemmType::f32, GemmType::none, Activation::relu, 37},
      {GemmType::f16, GemmType::u8, Activation::relu, Reference::kFilters},
      {GemmType::u8, GemmType::u8, Activation::relu, Reference::kFilters},
      {GemmType::u8, GemmType::u8, Activation::none, 128},
      {GemmType::u8, GemmType::none, Activation::none, 128, 0},
      {GemmType::u8, GemmType::none, Activation::relu, 64, 254},
      {GemmType::u8, GemmType::u8, Activation::clip, 64, 128, -3, 6},
      {GemmType::u8, GemmType::none, Activation::clip, 64, 255, 30, 60},
      {GemmType::i8, GemmType::none, Activation::clip, 64, -128, -60, -10},
      {GemmType::i8, GemmType::i8, Activation::none, 64},
      {GemmType::i8, GemmType::u8, Activation::none, 128, -2},
      {GemmType::i8, GemmType::i8, Activation::none, 37},
  };
  for (const bool is_unsigned : {true, false})
    for (const Becomes& becomes : all) {
      SCOPED_TRACE(testing::Message()
                   << "unsigned " << is_unsigned << ", columns " << becomes.columns << ", to "
                   << static_cast<int>(becomes.to));
      check_tile(GetParam(), is_unsigned, becomes);
    }
}

std::string name_of_tile(const testing::TestParamInfo<cuda::GemmTile>& tile) {
  constexpr const char* kNames[] = {"M128N128", "M128N64", "M64N64", "Sm90M128N128", "Sm90M128N64"};
  return kNames[static_cast<int>(tile.param)];
}

INSTANTIATE_TEST_SUITE_P(Quantized, Int8GemmTileTest,
                         testing::Values(cuda::GemmTile::m128n128, cuda::GemmTile::m128n64,
                                         cuda::GemmTile::m64n64, cuda::GemmTile::sm90_m128n128,
                                         cuda::GemmTile::sm90_m128n64),
                         name_of_tile);

}  // namespace
}  // namespace sluice::engine
