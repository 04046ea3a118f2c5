// A way to compute a convolution, and the kernel that goes it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/exec/cuda/cudnn/cudnn_fusion.h"
#include "engine/exec/cuda/nodes/conv_space_to_depth.h"
#include "engine/exec/cuda/nodes/cublaslt_gemm.h"
#include "kernels/conv/conv.h"
#include "kernels/gemm/epilogue_kernel.h"
#include "kernels/gemm/pack_weights.h"

namespace sluice::engine::cuda {

// One way to compute it.
struct Way {
  std::string name;  // by which it is chosen again: "dnn 4"
  std::unique_ptr<ProductPlan> product{};
  std::unique_ptr<DnnPlan> dnn{};
  std::optional<BoxConvolution> boxes{};
  void (*own)(const ConvCall&, CUstream_st*) = nullptr;  // one of these four
  bool bare = false;                                     // bias and residual are left for `rest`
  bool after = false;                                    // `rest` follows
  After rest{};
  int channels = 0;  // of the input after it was widened; 0: as it is
  SmallFold fold{};  // of the input; no channels: as it is
  ConstMemory weight{};
  double us = 0;
  std::string what{};
};

class Convolution final : public Kernel {
 public:
  Convolution(ConvCall call, Way way, bool residual)
      : call_(call), way_(std::move(way)), residual_(residual) {
    std::size_t bytes = static_cast<std::size_t>(bytes_of(way_.fold));
    if (way_.channels > 0)
      bytes = static_cast<std::size_t>(pixels_in() * way_.channels) * element();
    changed_ = memory::round_up(bytes, memory::kAlignment);
  }

  void run(const KernelArgs& args) const override {
    auto* const stream = static_cast<CUstream_st*>(args.stream);
    const auto input = [&](std::size_t i) {
      return i < args.inputs.size() ? args.inputs[i] : nullptr;
    };
    const void *x = input(0), *bias = way_.bare ? nullptr : input(2),
               *residual = way_.bare ? nullptr : input(3);
    void *const y = args.outputs[0], *scratch = args.scratch;
    if (changed_ > 0) {
      change(x, scratch, stream);
      x = scratch;
      scratch = static_cast<std::byte*>(scratch) + changed_;
    }
    if (way_.product) way_.product->run({x, way_.weight.get(), residual, bias, y, scratch}, stream);
    if (way_.dnn) way_.dnn->run({x, way_.weight.get(), bias, residual, y, scratch}, stream);
    if (way_.boxes) {
      SmallProduct product = way_.boxes->product;
      product.rows.x = x;
      product.finish.residual = residual;
      product.finish.y = y;
      enqueue(product, stream);
    }
    if (way_.own != nullptr) {
      ConvCall call = call_;
      call.x = x, call.w = way_.weight.get(), call.bias = bias, call.residual = residual;
      call.y = y;
      way_.own(call, stream);
    }
    if (!way_.after) return;
    After rest = way_.rest;
    rest.x = y;
    rest.bias = way_.bare ? input(2) : nullptr;
    rest.before = way_.bare ? input(3) : nullptr;
    enqueue(rest, stream);
  }
  std::string_view what() const override { return way_.what; }
  std::size_t scratch() const override {
    return changed_ + (way_.product ? way_.product->scratch() : 0) +
           (way_.dnn ? way_.dnn->scratch() : 0);
  }
  int in_place() const override { return way_.product && residual_ ? 3 : -1; }
  bool reads_constant(std::size_t input) const override { return input != 1; }

 private:
  void change(const void* x, void* to, CUstream_st* stream) const {
    if (way_.channels > 0)
      return enqueue_widen(x, to, pixels_in(), call_.in, way_.channels, element(), stream);
    SmallFold fold = way_.fold;
    fold.x = x, fold.to = to;
    enqueue(fold, stream);
  }
  std::int64_t pixels_in() const {
    return static_cast<std::int64_t>(call_.window.batch) * call_.window.height * call_.window.width;
  }
  std::size_t element() const { return call_.type == RealType::f32 ? 4 : 2; }

  ConvCall call_;
  Way way_;
  bool residual_;
  std::size_t changed_ = 0;  // bytes of the input as it is widened or folded
};

}  // namespace sluice::engine::cuda
