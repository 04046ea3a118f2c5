// f16 and bf16 convolutions over few channels, by TMA and by row tiles, against sums in double,
// whichever algorithm would be chosen.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>

#include "device/cuda/check.h"
#include "engine/exec/cuda/cuda_program.h"
#include "engine/exec/cuda/nodes/conv_space_to_depth.h"
#include "engine/exec/cuda/nodes/op_cases_for_tests.h"
#include "engine/exec/cuda/program_for_gpu_tests.h"
#include "engine/graph/fused_ops.h"
#include "kernels/conv/conv_few_channels_sm90.h"
#include "kernels/gemm/gemm_sm90.h"

namespace sluice::engine {
namespace {

// Converts from f32 to another type, and back.
template <class From, class To>
Tensor converted_as(const Tensor& x, DType to) {
  const Tensor made(to, x.shape());
  std::transform(x.values<From>().begin(), x.values<From>().end(), made.values<To>().begin(),
                 [](From value) { return To(static_cast<float>(value)); });
  return made;
}
Tensor narrowed(const Tensor& x, DType to) {
  return to == DType::f16 ? converted_as<float, Half>(x, to) : converted_as<float, BFloat16>(x, to);
}
Tensor widened(const Tensor& x) {
  return x.dtype() == DType::f16 ? converted_as<Half, float>(x, DType::f32)
                                 : converted_as<BFloat16, float>(x, DType::f32);
}

struct WindowCase {
  int batch, high, wide, in, out, window, stride, pad;
  bool residual;
};
std::ostream& operator<<(std::ostream& to, const WindowCase& c) {
  return to << c.batch << "x" << c.high << "x" << c.wide << "x" << c.in << " to " << c.out
            << " window " << c.window << " stride " << c.stride;
}
std::string name_of_case(const testing::TestParamInfo<WindowCase>& info) {
  return case_name(testing::PrintToString(info.param));
}

class FewChannelsTest : public CudaProgramTest {
 protected:
  void SetUp() override {
    if (!cuda::test_context().has_sm90()) GTEST_SKIP() << "needs a Hopper GPU and code for sm_90a";
  }

  static cuda::ConvCall call_of(const WindowCase& c, DType type) {
    const auto outs = [&](int size) { return (size + 2 * c.pad - c.window) / c.stride + 1; };
    cuda::ConvCall call;
    call.type = type == DType::f16 ? cuda::RealType::f16 : cuda::RealType::bf16;
    call.window.batch = c.batch, call.window.height = c.high, call.window.width = c.wide;
    call.window.out_height = outs(c.high), call.window.out_width = outs(c.wide);
    call.window.rows = call.window.columns = c.window;
    call.window.stride_x = call.window.stride_y = c.stride;
    call.window.top = call.window.left = c.pad;
    call.in = c.in, call.out = c.out;
    call.activation = Activation::relu;
    return call;
  }

  // The reference in double, from rounded inputs.
  static std::vector<double> reference(const cuda::ConvCall& call, const Tensor& x, const Tensor& w,
                                       const Tensor& bias, const Tensor& residual) {
    const auto pixels = x.values<float>(), filters = w.values<float>();
    const cuda::SlidingWindow& s = call.window;
    const int taps = s.rows * s.columns;
    std::vector<double> y;
    for (int row = 0; row < s.batch * s.out_height; ++row)
      for (int column = 0; column < s.out_width; ++column)
        for (int filter = 0; filter < call.out; ++filter) {
          double sum = bias ? bias.values<float>()[static_cast<std::size_t>(filter)] : 0;
          for (int i = 0; i < call.in * taps; ++i) {
            const int at = column * s.stride_x - s.left + i % s.columns;
            const int line = row % s.out_height * s.stride_y - s.top + i % taps / s.columns;
            if (line < 0 || line >= s.height || at < 0 || at >= s.width) continue;
            const int pixel = (row / s.out_height * s.height + line) * s.width + at;
            sum += double{pixels[static_cast<std::size_t>(pixel * call.in + i / taps)]} *
                   filters[static_cast<std::size_t>(filter * call.in * taps + i)];
          }
          if (residual) sum += residual.values<float>()[y.size()];
          y.push_back(call.activation == Activation::relu ? std::max(sum, 0.0) : sum);
        }
    return y;
  }

  // The GPU's result in f32; the inputs have its type.
  static Tensor with_tma(const cuda::ConvCall& call, const Tensor& x, const Tensor& w,
                         const Tensor& bias, const Tensor& residual) {
    cuda::Context& context = cuda::test_context();
    const auto image = cuda::space_to_depth_convolution(call, w);
    if (!image) throw Error(Code::internal, "not supported with space-to-depth");
    const auto tma =
        cuda::plan_tma_convolution(context, call, *image, bias, static_cast<bool>(residual));
    if (!tma) throw Error(Code::internal, "not supported with TMA");
    const auto from = context.constant(x);
    const auto added = residual ? context.constant(residual) : nullptr;
    const auto between =
        context.allocate(static_cast<std::size_t>(bytes_of(image->space_to_depth)));
    const Tensor y(x.dtype(),
                   {call.window.batch, call.window.out_height, call.window.out_width, call.out});
    const auto to = context.allocate(y.bytes());
    cuda::SpaceToDepthCall space_to_depth = image->space_to_depth;
    space_to_depth.x = from.get(), space_to_depth.to = between.get();
    cuda::TileGemmCall gemm = tma->gemm;
    gemm.rows.x = between.get();
    gemm.epilogue.residual = added.get(), gemm.epilogue.y = to.get();
    device::check(cudaDeviceSynchronize());
    enqueue_space_to_depth(space_to_depth, context.stream());
    enqueue_tile_gemm(gemm, context.stream());
    device::check(cudaStreamSynchronize(context.stream()));
    device::check(cudaMemcpy(y.data(), to.get(), y.bytes(), cudaMemcpyDeviceToHost));
    return widened(y);
  }

  static Tensor with_row_tiles(const cuda::ConvCall& call, const Tensor& x, const Tensor& w,
                               const Tensor& bias) {
    if (!cuda::conv_few_channels_supports(call))
      throw Error(Code::internal, "not supported with row tiles");
    cuda::Context& context = cuda::test_context();
    const auto from = context.constant(x),
               filters = context.constant(cuda::conv_few_channels_weights(call, w));
    const auto added = bias ? context.constant(bias) : nullptr;
    const Tensor y(x.dtype(),
                   {call.window.batch, call.window.out_height, call.window.out_width, call.out});
    const auto to = context.allocate(y.bytes());
    cuda::ConvCall own = call;
    own.x = from.get(), own.w = filters.get(), own.bias = added.get(), own.y = to.get();
    device::check(cudaDeviceSynchronize());
    enqueue_conv_few_channels(own, context.stream());
    device::check(cudaStreamSynchronize(context.stream()));
    device::check(cudaMemcpy(y.data(), to.get(), y.bytes(), cudaMemcpyDeviceToHost));
    return widened(y);
  }

  static void check_case(const cuda::ConvCall& call, DType type, bool residual,
                         bool uses_row_tiles) {
    const cuda::SlidingWindow& s = call.window;
    const std::int64_t k = call.in * s.rows * s.columns;
    const Tensor x = narrowed(varied({s.batch, s.height, s.width, call.in}, 1), type);
    const Tensor w = narrowed(weights({call.out, call.in, s.rows, s.columns}, k, 2), type);
    const bool biased = call.activation == Activation::relu;
    const Tensor bias = biased ? narrowed(varied({call.out}, 3), type) : Tensor();
    const Shape shape{s.batch, s.out_height, s.out_width, call.out};
    const Tensor added = residual ? narrowed(varied(shape, 4), type) : Tensor();
    const auto wide = [](const Tensor& t) { return t ? widened(t) : Tensor(); };
    const std::vector<double> expected = reference(call, wide(x), wide(w), wide(bias), wide(added));
    const Tensor got =
        uses_row_tiles ? with_row_tiles(call, x, w, bias) : with_tma(call, x, w, bias, added);
    const double slack = type == DType::f16 ? 1e-3 : 8e-3;
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(got.values<float>()[i], expected[i], slack * (1 + std::abs(expected[i]))) << i;
  }
  static void check_case(const WindowCase& c, DType type, bool uses_row_tiles = false) {
    check_case(call_of(c, type), type, c.residual, uses_row_tiles);
  }
};

class TmaConvolutionTest : public FewChannelsTest,
                           public testing::WithParamInterface<WindowCase> {};

TEST_P(TmaConvolutionTest, MatchesSumsInDouble) {
  for (const DType type : {DType::f16, DType::bf16}) {
    SCOPED_TRACE(to_string(type));
    check_case(GetParam(), type);
  }
}

INSTANTIATE_TEST_SUITE_P(FewChannels, TmaConvolutionTest,
                         testing::Values(WindowCase{2, 31, 29, 3, 64, 7, 2, 3, false},
                                         WindowCase{3, 32, 32, 3, 40, 7, 2, 3, true},
                                         WindowCase{1, 48, 64, 4, 136, 16, 16, 0, false},
                                         WindowCase{2, 17, 23, 1, 16, 5, 3, 2, true}),
                         name_of_case);

class RowTileConvolutionTest : public FewChannelsTest,
                               public testing::WithParamInterface<WindowCase> {};

TEST_P(RowTileConvolutionTest, MatchesSumsInDouble) {
  for (const DType type : {DType::f16, DType::bf16}) {
    SCOPED_TRACE(to_string(type));
    check_case(GetParam(), type, true);
  }
}

INSTANTIATE_TEST_SUITE_P(FewChannels, RowTileConvolutionTest,
                         testing::Values(WindowCase{2, 31, 32, 3, 64, 7, 2, 3, false},
                                         WindowCase{1, 224, 224, 3, 64, 7, 2, 3, false},
                                         WindowCase{3, 150, 144, 3, 72, 5, 2, 2, false},
                                         WindowCase{2, 64, 300, 4, 136, 8, 2, 1, false},
                                         WindowCase{40, 33, 136, 1, 16, 3, 2, 1, false},
                                         WindowCase{1, 9, 4, 2, 8, 1, 2, 0, false},
                                         WindowCase{150, 12, 16, 3, 200, 3, 2, 1, false}),
                         name_of_case);

// Asymmetric windows without bias and epilogue; a row tile that is all padding; unsupported sizes.
TEST_F(FewChannelsTest, RowTileConvolutionsMatchForAnyWindow) {
  for (int stride = 1; stride <= 4; ++stride) {
    cuda::ConvCall call = call_of({2, 21, 64, 3, 24, 5, 2, 2, false}, DType::f16);
    cuda::SlidingWindow& s = call.window;
    call.activation = Activation::none;
    s.stride_y = stride, s.rows = 2 * stride, s.columns = stride + 1, s.top = 11, s.left = 5;
    s.out_height = (s.height + 30 - s.rows) / stride + 1;
    s.out_width = (s.width + 9 - s.columns) / 2 + 1;
    SCOPED_TRACE(stride);
    check_case(call, DType::f16, false, true);
  }
  cuda::ConvCall call = call_of({2, 21, 64, 3, 24, 5, 2, 2, false}, DType::f16);
  EXPECT_TRUE(cuda::conv_few_channels_supports(call));
  call.window.out_width = 33'554'417;
  EXPECT_FALSE(cuda::conv_few_channels_supports(call));
  call.window.out_width = 32, call.out = 4'194'304;
  EXPECT_FALSE(cuda::conv_few_channels_supports(call));
}

}  // namespace
}  // namespace sluice::engine
