// fp8 GEMM computed in f32, and conversions between fp8 and f32. CPUs have no fp8 arithmetic: this
// runs models that were quantized for a GPU.
#include <array>
#include <string>

#include "engine/exec/cpu/backend.h"
#include "engine/exec/cpu/nodes.h"
#include "engine/graph/fused_ops.h"
#include "engine/ops/op.h"
#include "kernels/gemm/packed_gemm.h"
#include "tensor/byte_size.h"

namespace sluice::engine::cpu {
namespace {

using Fp8 = Float8E4M3FN;
constexpr std::size_t kFp8Grain = 16 << 10;

std::array<float, 256> all_values() {
  std::array<float, 256> values{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    Fp8 quantized;
    quantized.bits = static_cast<std::uint8_t>(i);
    values[i] = quantized;
  }
  return values;
}

void to_fp8(compute::Workers& workers, const float* from, std::size_t count, float scale,
            std::uint8_t* to) {
  workers.each(count, kFp8Grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) to[i] = Fp8(from[i] / scale).bits;
  });
}

void from_fp8(compute::Workers& workers, const void* from, std::size_t count,
              const std::array<float, 256>& values, float scale, float* to) {
  const auto* const bits = static_cast<const std::uint8_t*>(from);
  workers.each(count, kFp8Grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) to[i] = values[bits[i]] * scale;
  });
}

class Fp8LinearKernel final : public Kernel {
 public:
  Fp8LinearKernel(const Graph& graph, const Node& node, const Tensor& w, Context& context)
      : workers_(context.workers),
        k_(w.shape()[0]),
        n_(w.shape()[1]),
        m_(input_type(graph, node, 0).shape.size() / k_),
        residual_(input_type(graph, node, 3).dtype),
        activation_(activation_params_of(node.attributes)),
        quant_(quant_params_of(node.attributes)) {
    const Tensor bias = constant(graph, node, 2);
    bias_ = packed_bias(n_, bias ? as<float>(bias).data() : nullptr);
    panels_ = panels_of(k_, n_, {as<float>(scaled(w, constant(graph, node, 4))).data(), n_, 1});
  }

  void run(const KernelArgs& args) const override {
    auto* const x = static_cast<float*>(args.scratch);
    float* const y = is_quantized() ? x + m_ * k_ : static_cast<float*>(args.outputs[0]);
    from_fp8(workers_, args.inputs[0], static_cast<std::size_t>(m_ * k_), values_, 1, x);
    const PackedGemm gemm{.m = m_,
                          .n = n_,
                          .segments = 1,
                          .depth = k_,
                          .panels = as<float>(panels_).data(),
                          .bias = bias_.get(),
                          .c = y,
                          .c_row = n_,
                          .last = residual_ == DType::f32 ? floats(args, 3) : nullptr,
                          .activation = activation_};
    packed_gemm(workers_, gemm, MatrixRows(x, k_));
    if (is_quantized())
      to_fp8(workers_, y, static_cast<std::size_t>(m_ * n_), quant_.to_scale,
             static_cast<std::uint8_t*>(args.outputs[0]));
  }
  std::string_view name() const override { return "fp8 GEMM in f32"; }
  std::size_t scratch() const override {
    return byte_size(Shape{m_, k_ + (is_quantized() ? n_ : 0)}, DType::f32);
  }
  bool reads_constant(std::size_t input) const override { return input == 0 || input == 3; }

 private:
  bool is_quantized() const { return quant_.to != DType::f32; }

  // The dequantized weights.
  Tensor scaled(const Tensor& w, const Tensor& scale) const {
    const Tensor wide(DType::f32, w.shape());
    for (std::size_t i = 0; i < static_cast<std::size_t>(w.size()); ++i)
      as<float>(wide)[i] =
          values_[as<Fp8>(w)[i].bits] * as<float>(scale)[i % static_cast<std::size_t>(n_)];
    return wide;
  }

  compute::Workers& workers_;
  std::int64_t k_, n_, m_;
  DType residual_;
  ActivationParams activation_;
  QuantParams quant_;
  std::array<float, 256> values_ = all_values();
  Floats bias_;
  Tensor panels_;
};

std::unique_ptr<Kernel> make_fp8_linear(const Graph& graph, const Node& node, Context& context) {
  const Tensor w = constant(graph, node, 1);
  const DType residual = input_type(graph, node, 3).dtype;
  const DType to = type_of(graph[node.outputs[0]]).dtype;
  const bool takes_bias = input_type(graph, node, 2).dtype == DType::none ||
                          constant(graph, node, 2).dtype() == DType::f32;
  if (!takes_bias || input_type(graph, node, 0).dtype != DType::f8e4m3fn ||
      w.dtype() != DType::f8e4m3fn || constant(graph, node, 4).dtype() != DType::f32 ||
      w.size() == 0 || (residual != DType::none && residual != DType::f32) ||
      (to != DType::f32 && to != DType::f8e4m3fn))
    return nullptr;
  return std::make_unique<Fp8LinearKernel>(graph, node, w, context);
}

class Fp8QuantizeKernel final : public Kernel {
 public:
  Fp8QuantizeKernel(bool dequantizes, std::size_t count, float scale, Context& context)
      : workers_(context.workers), dequantizes_(dequantizes), count_(count), scale_(scale) {}

  void run(const KernelArgs& args) const override {
    if (dequantizes_)
      from_fp8(workers_, args.inputs[0], count_, values_, scale_,
               static_cast<float*>(args.outputs[0]));
    else
      to_fp8(workers_, floats(args, 0), count_, scale_,
             static_cast<std::uint8_t*>(args.outputs[0]));
  }
  std::string_view name() const override {
    return dequantizes_ ? "dequantize fp8" : "quantize fp8";
  }
  bool reads_constant(std::size_t input) const override { return input == 0; }

 private:
  compute::Workers& workers_;
  bool dequantizes_;
  std::size_t count_;
  float scale_;
  std::array<float, 256> values_ = all_values();
};

std::unique_ptr<Kernel> make_fp8_quantize(const Graph& graph, const Node& node, Context& context) {
  const TensorType x = input_type(graph, node, 0), y = type_of(graph[node.outputs[0]]);
  const Tensor scale = constant(graph, node, 1);
  const bool dequantizes = x.dtype == DType::f8e4m3fn;
  const DType quantized = dequantizes ? x.dtype : y.dtype, real = dequantizes ? y.dtype : x.dtype;
  if (quantized != DType::f8e4m3fn || real != DType::f32 || scale.dtype() != DType::f32 ||
      scale.size() != 1 || node.attributes.integer("block_size", 0) != 0 ||
      node.attributes.has("precision") || !node.attributes.flag("saturate", true))
    return nullptr;
  return std::make_unique<Fp8QuantizeKernel>(dequantizes, static_cast<std::size_t>(x.shape.size()),
                                             as<float>(scale)[0], context);
}

constexpr Maker kFp8Makers[] = {
    {"DequantizeLinear", "", make_fp8_quantize},
    {"QuantizeLinear", "", make_fp8_quantize},
    {"QuantizedLinear", "sluice", make_fp8_linear},
};

}  // namespace

std::span<const Maker> fp8_kernels() { return kFp8Makers; }

}  // namespace sluice::engine::cpu
