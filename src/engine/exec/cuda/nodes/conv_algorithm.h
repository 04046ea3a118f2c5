// An algorithm for a convolution, and the kernel that runs it.
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

// One of cublaslt, cudnn, tma and direct is set.
struct ConvAlgorithm {
  std::string name;  // stored in plans: "cudnn 4"
  std::unique_ptr<CublasltPlan> cublaslt{};
  std::unique_ptr<CudnnPlan> cudnn{};
  std::optional<TmaConvolution> tma{};
  void (*direct)(const ConvCall&, CUstream_st*) = nullptr;
  bool conv_only = false;     // `epilogue` adds bias and residual
  bool has_epilogue = false;  // a separate kernel runs `epilogue`
  EpilogueCall epilogue{};
  int padded_channels = 0;            // of the input; 0: not padded
  SpaceToDepthCall space_to_depth{};  // of the input; without channels: none
  ConstMemory weight{};
  double us = 0;
  std::string kernel_name{};
};

class Convolution final : public Kernel {
 public:
  Convolution(ConvCall call, ConvAlgorithm algorithm, bool residual)
      : call_(call), algorithm_(std::move(algorithm)), residual_(residual) {
    std::size_t bytes = static_cast<std::size_t>(bytes_of(algorithm_.space_to_depth));
    if (algorithm_.padded_channels > 0)
      bytes = static_cast<std::size_t>(pixels_in() * algorithm_.padded_channels) * element();
    prepared_bytes_ = memory::round_up(bytes, memory::kAlignment);
  }

  void run(const KernelArgs& args) const override {
    auto* const stream = static_cast<CUstream_st*>(args.stream);
    const auto input = [&](std::size_t i) {
      return i < args.inputs.size() ? args.inputs[i] : nullptr;
    };
    const void *x = input(0), *bias = algorithm_.conv_only ? nullptr : input(2),
               *residual = algorithm_.conv_only ? nullptr : input(3);
    void *const y = args.outputs[0], *scratch = args.scratch;
    if (prepared_bytes_ > 0) {
      prepare_input(x, scratch, stream);
      x = scratch;
      scratch = static_cast<std::byte*>(scratch) + prepared_bytes_;
    }
    if (algorithm_.cublaslt)
      algorithm_.cublaslt->run({x, algorithm_.weight.get(), residual, bias, y, scratch}, stream);
    if (algorithm_.cudnn)
      algorithm_.cudnn->run({x, algorithm_.weight.get(), bias, residual, y, scratch}, stream);
    if (algorithm_.tma) {
      TileGemmCall gemm = algorithm_.tma->gemm;
      gemm.rows.x = x;
      gemm.epilogue.residual = residual;
      gemm.epilogue.y = y;
      enqueue_tile_gemm(gemm, stream);
    }
    if (algorithm_.direct != nullptr) {
      ConvCall call = call_;
      call.x = x, call.w = algorithm_.weight.get(), call.bias = bias, call.residual = residual;
      call.y = y;
      algorithm_.direct(call, stream);
    }
    if (!algorithm_.has_epilogue) return;
    EpilogueCall epilogue = algorithm_.epilogue;
    epilogue.x = y;
    epilogue.bias = algorithm_.conv_only ? input(2) : nullptr;
    epilogue.residual = algorithm_.conv_only ? input(3) : nullptr;
    enqueue_epilogue(epilogue, stream);
  }
  std::string_view name() const override { return algorithm_.kernel_name; }
  std::size_t scratch() const override {
    return prepared_bytes_ + (algorithm_.cublaslt ? algorithm_.cublaslt->scratch() : 0) +
           (algorithm_.cudnn ? algorithm_.cudnn->scratch() : 0);
  }
  int in_place() const override { return algorithm_.cublaslt && residual_ ? 3 : -1; }
  bool reads_constant(std::size_t input) const override { return input != 1; }

 private:
  void prepare_input(const void* x, void* to, CUstream_st* stream) const {
    if (algorithm_.padded_channels > 0)
      return enqueue_pad_columns(x, to, pixels_in(), call_.in, algorithm_.padded_channels,
                                 element(), stream);
    SpaceToDepthCall call = algorithm_.space_to_depth;
    call.x = x, call.to = to;
    enqueue_space_to_depth(call, stream);
  }
  std::int64_t pixels_in() const {
    return static_cast<std::int64_t>(call_.window.batch) * call_.window.height * call_.window.width;
  }
  std::size_t element() const { return call_.type == RealType::f32 ? 4 : 2; }

  ConvCall call_;
  ConvAlgorithm algorithm_;
  bool residual_;
  std::size_t prepared_bytes_ = 0;  // of the input after channel padding or space-to-depth
};

}  // namespace sluice::engine::cuda
