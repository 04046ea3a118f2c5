// Convolutions of halves that see few channels, by Hopper's boxes and in bands, against sums in
// double, whichever way would be chosen.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>

#include "device/cuda/check.h"
#include "engine/exec/cuda/nodes/conv_space_to_depth.h"
#include "engine/exec/cuda/nodes/op_cases_for_tests.h"
#include "engine/exec/cuda/program_for_gpu_tests.h"
#include "kernels/conv/conv_few_channels_sm90.h"
#include "kernels/quantized/int8_gemm_sm90.h"

namespace sluice::engine {
namespace {

// From f32 to another type, and back.
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

class FewChannelsTest : public CudaProgramTest {
 protected:
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

  // In double, of what halves hold.
  static std::vector<double> by_hand(const cuda::ConvCall& call, const Tensor& x, const Tensor& w,
                                     const Tensor& bias, const Tensor& residual) {
    const auto pixels = x.values<float>(), filters = w.values<float>();
    const cuda::Sliding& s = call.window;
    const int places = s.rows * s.columns;
    std::vector<double> y;
    for (int row = 0; row < s.batch * s.out_height; ++row)
      for (int column = 0; column < s.out_width; ++column)
        for (int filter = 0; filter < call.out; ++filter) {
          double sum = bias ? bias.values<float>()[static_cast<std::size_t>(filter)] : 0;
          for (int i = 0; i < call.in * places; ++i) {
            const int at = column * s.stride_x - s.left + i % s.columns;
            const int line = row % s.out_height * s.stride_y - s.top + i % places / s.columns;
            if (line < 0 || line >= s.height || at < 0 || at >= s.width) continue;
            const int pixel = (row / s.out_height * s.height + line) * s.width + at;
            sum += double{pixels[static_cast<std::size_t>(pixel * call.in + i / places)]} *
                   filters[static_cast<std::size_t>(filter * call.in * places + i)];
          }
          if (residual) sum += residual.values<float>()[y.size()];
          y.push_back(call.activation == Activation::relu ? std::max(sum, 0.0) : sum);
        }
    return y;
  }

  // Of the GPU, widened; inputs are of its type.
  static Tensor by_boxes(const cuda::ConvCall& call, const Tensor& x, const Tensor& w,
                         const Tensor& bias, const Tensor& residual) {
    cuda::Context& context = cuda::test_context();
    const auto image = cuda::fold_convolution(call, w);
    if (!image) throw Error(Code::internal, "nothing to fold");
    const auto boxes = cuda::plan_boxes(context, call, *image, bias, static_cast<bool>(residual));
    if (!boxes) throw Error(Code::internal, "not by boxes");
    const auto from = context.constant(x);
    const auto added = residual ? context.constant(residual) : nullptr;
    const auto between = context.allocate(static_cast<std::size_t>(bytes_of(image->fold)));
    const Tensor y(x.dtype(),
                   {call.window.batch, call.window.out_height, call.window.out_width, call.out});
    const auto to = context.allocate(y.bytes());
    cuda::SmallFold fold = image->fold;
    fold.x = from.get(), fold.to = between.get();
    cuda::SmallProduct product = boxes->product;
    product.rows.x = between.get();
    product.finish.residual = added.get(), product.finish.y = to.get();
    device::check(cudaDeviceSynchronize());
    enqueue(fold, context.stream());
    enqueue(product, context.stream());
    device::check(cudaStreamSynchronize(context.stream()));
    device::check(cudaMemcpy(y.data(), to.get(), y.bytes(), cudaMemcpyDeviceToHost));
    return widened(y);
  }

  static Tensor by_band(const cuda::ConvCall& call, const Tensor& x, const Tensor& w,
                        const Tensor& bias) {
    if (!cuda::band_takes(call)) throw Error(Code::internal, "not in bands");
    cuda::Context& context = cuda::test_context();
    const auto from = context.constant(x), filters = context.constant(cuda::band_weights(call, w));
    const auto added = bias ? context.constant(bias) : nullptr;
    const Tensor y(x.dtype(),
                   {call.window.batch, call.window.out_height, call.window.out_width, call.out});
    const auto to = context.allocate(y.bytes());
    cuda::ConvCall own = call;
    own.x = from.get(), own.w = filters.get(), own.bias = added.get(), own.y = to.get();
    device::check(cudaDeviceSynchronize());
    enqueue_band(own, context.stream());
    device::check(cudaStreamSynchronize(context.stream()));
    device::check(cudaMemcpy(y.data(), to.get(), y.bytes(), cudaMemcpyDeviceToHost));
    return widened(y);
  }

  static void check_case(const cuda::ConvCall& call, DType type, bool residual, bool in_bands) {
    const cuda::Sliding& s = call.window;
    const std::int64_t k = call.in * s.rows * s.columns;
    const Tensor x = narrowed(varied({s.batch, s.height, s.width, call.in}, 1), type);
    const Tensor w = narrowed(weights({call.out, call.in, s.rows, s.columns}, k, 2), type);
    const bool biased = call.activation == Activation::relu;
    const Tensor bias = biased ? narrowed(varied({call.out}, 3), type) : Tensor();
    const Shape shape{s.batch, s.out_height, s.out_width, call.out};
    const Tensor added = residual ? narrowed(varied(shape, 4), type) : Tensor();
    const auto wide = [](const Tensor& t) { return t ? widened(t) : Tensor(); };
    const std::vector<double> wanted = by_hand(call, wide(x), wide(w), wide(bias), wide(added));
    const Tensor got = in_bands ? by_band(call, x, w, bias) : by_boxes(call, x, w, bias, added);
    const double slack = type == DType::f16 ? 1e-3 : 8e-3;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      ASSERT_NEAR(got.values<float>()[i], wanted[i], slack * (1 + std::abs(wanted[i]))) << i;
  }
  static void check_case(const WindowCase& c, DType type, bool in_bands = false) {
    check_case(call_of(c, type), type, c.residual, in_bands);
  }
};

TEST_F(FewChannelsTest, ByBoxesAgreeWithSumsInDouble) {
  if (cuda::test_context().capability() != cuda::kHopper) GTEST_SKIP() << "this GPU is no Hopper";
  for (const DType type : {DType::f16, DType::bf16})
    for (const WindowCase& c :
         {WindowCase{2, 31, 29, 3, 64, 7, 2, 3, false}, WindowCase{3, 32, 32, 3, 40, 7, 2, 3, true},
          WindowCase{1, 48, 64, 4, 136, 16, 16, 0, false},
          WindowCase{2, 17, 23, 1, 16, 5, 3, 2, true}}) {
      SCOPED_TRACE(testing::Message() << c.in << " -> " << c.out << ", window " << c.window
                                      << " of " << to_string(type));
      check_case(c, type);
    }
}

TEST_F(FewChannelsTest, InBandsAgreeWithSumsInDouble) {
  if (cuda::test_context().capability() != cuda::kHopper) GTEST_SKIP() << "this GPU is no Hopper";
  for (const DType type : {DType::f16, DType::bf16})
    for (const WindowCase& c :
         {WindowCase{2, 31, 32, 3, 64, 7, 2, 3, false},
          WindowCase{1, 224, 224, 3, 64, 7, 2, 3, false},
          WindowCase{3, 150, 144, 3, 72, 5, 2, 2, false},
          WindowCase{2, 64, 300, 4, 136, 8, 2, 1, false},
          WindowCase{40, 33, 136, 1, 16, 3, 2, 1, false}, WindowCase{1, 9, 4, 2, 8, 1, 2, 0, false},
          WindowCase{150, 12, 16, 3, 200, 3, 2, 1, false}}) {
      SCOPED_TRACE(testing::Message() << c.in << " -> " << c.out << ", window " << c.window
                                      << " of " << to_string(type));
      check_case(c, type, true);
    }
}

// What is not the same in both directions, without a bias and what follows; a band that lies all
// in the padding; sizes that are not taken.
TEST_F(FewChannelsTest, BandsOfAnyWindow) {
  if (cuda::test_context().capability() != cuda::kHopper) GTEST_SKIP() << "this GPU is no Hopper";
  for (int stride = 1; stride <= 4; ++stride) {
    cuda::ConvCall call = call_of({2, 21, 64, 3, 24, 5, 2, 2, false}, DType::f16);
    cuda::Sliding& s = call.window;
    call.activation = Activation::none;
    s.stride_y = stride, s.rows = 2 * stride, s.columns = stride + 1, s.top = 11, s.left = 5;
    s.out_height = (s.height + 30 - s.rows) / stride + 1;
    s.out_width = (s.width + 9 - s.columns) / 2 + 1;
    SCOPED_TRACE(stride);
    check_case(call, DType::f16, false, true);
  }
  cuda::ConvCall call = call_of({2, 21, 64, 3, 24, 5, 2, 2, false}, DType::f16);
  EXPECT_TRUE(cuda::band_takes(call));
  call.window.out_width = 33'554'417;
  EXPECT_FALSE(cuda::band_takes(call));
  call.window.out_width = 32, call.out = 4'194'304;
  EXPECT_FALSE(cuda::band_takes(call));
}

}  // namespace
}  // namespace sluice::engine
