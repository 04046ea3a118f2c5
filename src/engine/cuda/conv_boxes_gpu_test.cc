// Convolutions of halves that see few channels, by Hopper's boxes and in bands, against sums in
// double, whichever way would be chosen.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>

#include "device/check.h"
#include "engine/cuda/conv_band.h"
#include "engine/cuda/conv_boxes.h"
#include "engine/cuda/op_cases_for_tests.h"
#include "engine/cuda/program_for_gpu_tests.h"
#include "engine/cuda/quantized_hopper.h"

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

struct BoxCase {
  int batch, high, wide, in, out, window, stride, pad;
  bool residual;
};

class BoxConvolutionTest : public CudaProgramTest {
 protected:
  static cuda::ConvCall call_of(const BoxCase& c, DType type) {
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
  static std::vector<double> by_hand(const BoxCase& c, const cuda::ConvCall& call, const Tensor& x,
                                     const Tensor& w, const Tensor& bias, const Tensor& residual) {
    const auto pixels = x.values<float>(), filters = w.values<float>();
    std::vector<double> y;
    for (int row = 0; row < c.batch * call.window.out_height; ++row)
      for (int column = 0; column < call.window.out_width; ++column)
        for (int filter = 0; filter < c.out; ++filter) {
          double sum = bias.values<float>()[static_cast<std::size_t>(filter)];
          for (int i = 0; i < c.in * c.window * c.window; ++i) {
            const int down = i / c.window % c.window, channel = i / (c.window * c.window);
            const int at = column * c.stride - c.pad + i % c.window;
            const int line = row % call.window.out_height * c.stride - c.pad + down;
            if (line < 0 || line >= c.high || at < 0 || at >= c.wide) continue;
            const int image = row / call.window.out_height;
            sum += double{pixels[static_cast<std::size_t>(
                       ((image * c.high + line) * c.wide + at) * c.in + channel)]} *
                   filters[static_cast<std::size_t>(filter * c.in * c.window * c.window + i)];
          }
          if (residual) sum += residual.values<float>()[y.size()];
          y.push_back(std::max(sum, 0.0));
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
    const auto added = context.constant(bias);
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

  static void check_case(const BoxCase& c, DType type, bool in_bands = false) {
    const cuda::ConvCall call = call_of(c, type);
    const std::int64_t k = c.in * c.window * c.window;
    const Tensor x = narrowed(varied({c.batch, c.high, c.wide, c.in}, 1), type);
    const Tensor w = narrowed(weights({c.out, c.in, c.window, c.window}, k, 2), type);
    const Tensor bias = narrowed(varied({c.out}, 3), type);
    const Shape shape{c.batch, call.window.out_height, call.window.out_width, c.out};
    const Tensor residual = c.residual ? narrowed(varied(shape, 4), type) : Tensor();
    const std::vector<double> wanted = by_hand(c, call, widened(x), widened(w), widened(bias),
                                               residual ? widened(residual) : Tensor());
    const Tensor got = in_bands ? by_band(call, x, w, bias) : by_boxes(call, x, w, bias, residual);
    const double slack = type == DType::f16 ? 1e-3 : 8e-3;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      ASSERT_NEAR(got.values<float>()[i], wanted[i], slack * (1 + std::abs(wanted[i]))) << i;
  }
};

TEST_F(BoxConvolutionTest, AgreeWithSumsInDouble) {
  if (cuda::test_context().capability() != cuda::kHopper) GTEST_SKIP() << "this GPU is no Hopper";
  for (const DType type : {DType::f16, DType::bf16})
    for (const BoxCase& c :
         {BoxCase{2, 31, 29, 3, 64, 7, 2, 3, false}, BoxCase{3, 32, 32, 3, 40, 7, 2, 3, true},
          BoxCase{1, 48, 64, 4, 136, 16, 16, 0, false}, BoxCase{2, 17, 23, 1, 16, 5, 3, 2, true}}) {
      SCOPED_TRACE(testing::Message() << c.in << " -> " << c.out << ", window " << c.window
                                      << " of " << to_string(type));
      check_case(c, type);
    }
}

TEST_F(BoxConvolutionTest, InBandsAgreeWithSumsInDouble) {
  if (cuda::test_context().capability() != cuda::kHopper) GTEST_SKIP() << "this GPU is no Hopper";
  for (const DType type : {DType::f16, DType::bf16})
    for (const BoxCase& c :
         {BoxCase{2, 31, 32, 3, 64, 7, 2, 3, false}, BoxCase{1, 224, 224, 3, 64, 7, 2, 3, false},
          BoxCase{3, 150, 144, 3, 72, 5, 2, 2, false}, BoxCase{2, 64, 300, 4, 136, 8, 2, 1, false},
          BoxCase{40, 33, 136, 1, 16, 3, 2, 1, false}, BoxCase{1, 9, 4, 2, 8, 1, 2, 0, false},
          BoxCase{150, 12, 16, 3, 200, 3, 2, 1, false}}) {
      SCOPED_TRACE(testing::Message() << c.in << " -> " << c.out << ", window " << c.window
                                      << " of " << to_string(type));
      check_case(c, type, true);
    }
}

}  // namespace
}  // namespace sluice::engine
