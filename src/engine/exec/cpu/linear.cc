// Linear with constant weights, and MatMul of two dynamic operands.
#include <string>

#include "engine/exec/cpu/backend.h"
#include "engine/exec/cpu/nodes.h"
#include "engine/graph/fused_ops.h"
#include "engine/ops/broadcast.h"
#include "kernels/common/each_task.h"
#include "kernels/gemm/packed_gemm.h"
#include "tensor/byte_size.h"

namespace sluice::engine::cpu {
namespace {

class LinearKernel final : public Kernel {
 public:
  LinearKernel(const Node& node, const Tensor& weights, const Tensor& bias, std::int64_t rows,
               bool residual, Context& context)
      : workers_(context.workers),
        m_(rows),
        k_(weights.shape()[0]),
        n_(weights.shape()[1]),
        residual_(residual),
        activation_(activation_params_of(node.attributes)),
        bias_(packed_bias(n_, bias ? as<float>(bias).data() : nullptr)) {
    panels_ =
        context.packed(weights, panel_format("panels"), {DType::f32, {panel_values(k_, n_)}}, [&] {
          return panels_of(k_, n_, {as<float>(weights).data(), n_, 1});
        });
    name_ = "GEMM";
    if (bias) name_ += " + bias";
    if (activation_.activation != Activation::none)
      name_ += " + " + std::string(to_string(activation_.activation));
    if (residual_) name_ += " + residual";
  }

  void run(const KernelArgs& args) const override {
    const float* const residual = residual_ ? floats(args, 3) : nullptr;
    const PackedGemm gemm{.m = m_,
                          .n = n_,
                          .segments = 1,
                          .depth = k_,
                          .panels = as<float>(panels_).data(),
                          .bias = bias_.get(),
                          .c = static_cast<float*>(args.outputs[0]),
                          .c_row = n_,
                          .residual = residual_begins() ? residual : nullptr,
                          .last = residual_begins() ? nullptr : residual,
                          .activation = activation_};
    packed_gemm(workers_, gemm, MatrixRows(floats(args, 0), k_));
  }
  std::string_view name() const override { return name_; }
  int in_place() const override { return residual_ && residual_begins() ? 3 : -1; }
  bool reads_constant(std::size_t input) const override { return input != 1 && input != 2; }

 private:
  bool residual_begins() const { return activation_.activation == Activation::none; }

  compute::Workers& workers_;
  std::int64_t m_, k_, n_;
  bool residual_;
  ActivationParams activation_;
  Floats bias_;
  Tensor panels_;
  std::string name_;
};

std::unique_ptr<Kernel> make_linear(const Graph& graph, const Node& node, Context& context) {
  const Tensor weights = constant(graph, node, 1), bias = constant(graph, node, 2);
  const TensorType x = input_type(graph, node, 0), residual = input_type(graph, node, 3);
  if (!is_f32(x) || weights.dtype() != DType::f32) return nullptr;
  if (input_type(graph, node, 2).dtype != DType::none && bias.dtype() != DType::f32) return nullptr;
  return std::make_unique<LinearKernel>(node, weights, bias, x.shape.size(0, x.shape.rank() - 1),
                                        residual.dtype != DType::none, context);
}

// Batched matmul with broadcasting. The right operand is packed at run time: by each thread for its
// own matrices if there are enough of them, else once for all threads.
class MatMulKernel final : public Kernel {
 public:
  MatMulKernel(const Shape& a, const Shape& b, Context& context) : workers_(context.workers) {
    m_ = a[a.rank() - 2], k_ = a[a.rank() - 1], n_ = b[b.rank() - 1];
    bias_ = packed_bias(n_, nullptr);
    const auto stack = [](const Shape& s) {
      return Shape(s.dims().first(static_cast<std::size_t>(s.rank() - 2)));
    };
    const Shape common = broadcast(stack(a), stack(b));
    const BroadcastLoop<2> loop(common, {stack(a), stack(b)});
    loop.each_row([&](std::int64_t, const auto& at, std::int64_t count, const auto& step) {
      for (std::int64_t i = 0; i < count; ++i)
        pairs_.push_back({(at[0] + i * step[0]) * m_ * k_, (at[1] + i * step[1]) * k_ * n_});
    });
    if (pairs_.size() > 1 && stack(b).size() == 1 && stack(a).rank() >= stack(b).rank()) {
      m_ *= static_cast<std::int64_t>(pairs_.size());  // one tall matrix
      pairs_.resize(1);
    }
  }

  void run(const KernelArgs& args) const override {
    float* const scratch = static_cast<float*>(args.scratch);
    if (alone()) {
      each_task(workers_, pairs_.size(), [&](std::size_t i, std::size_t slot) {
        float* const panels = scratch + static_cast<std::int64_t>(slot) * panel_values(k_, n_);
        packed_gemm(laid_out(args, i, panels), rows(args, i));
      });
      return;
    }
    for (std::size_t i = 0; i < pairs_.size(); ++i)
      packed_gemm(workers_, laid_out(args, i, scratch), rows(args, i));
  }
  std::string_view name() const override { return "GEMM, both operands dynamic"; }
  std::size_t scratch() const override {
    return byte_size(Shape{alone() ? workers_.threads() : 1, panel_values(k_, n_)}, DType::f32);
  }

 private:
  struct Pair {
    std::int64_t a, b;
  };

  bool alone() const { return pairs_.size() >= static_cast<std::size_t>(workers_.threads()); }

  MatrixRows rows(const KernelArgs& args, std::size_t i) const {
    return {floats(args, 0) + pairs_[i].a, k_};
  }

  PackedGemm laid_out(const KernelArgs& args, std::size_t i, float* panels) const {
    pack(k_, n_, {floats(args, 1) + pairs_[i].b, n_, 1}, panels);
    return {.m = m_,
            .n = n_,
            .segments = 1,
            .depth = k_,
            .panels = panels,
            .bias = bias_.get(),
            .c = static_cast<float*>(args.outputs[0]) + static_cast<std::int64_t>(i) * m_ * n_,
            .c_row = n_};
  }

  compute::Workers& workers_;
  std::int64_t m_, k_, n_;
  Floats bias_;
  std::vector<Pair> pairs_;
};

std::unique_ptr<Kernel> make_matmul(const Graph& graph, const Node& node, Context& context) {
  const TensorType a = input_type(graph, node, 0), b = input_type(graph, node, 1);
  if (!is_f32(a) || !is_f32(b) || a.shape.rank() < 2 || b.shape.rank() < 2 || a.shape.size() == 0 ||
      b.shape.size() == 0)
    return nullptr;
  if (const Tensor weights = constant(graph, node, 1); weights && weights.rank() == 2)
    return std::make_unique<LinearKernel>(node, weights, Tensor(),
                                          a.shape.size(0, a.shape.rank() - 1), false, context);
  return std::make_unique<MatMulKernel>(a.shape, b.shape, context);
}

constexpr Maker kLinearMakers[] = {
    {"Linear", "sluice", make_linear},
    {"MatMul", "", make_matmul},
};

}  // namespace

std::span<const Maker> linear_kernels() { return kLinearMakers; }

}  // namespace sluice::engine::cpu
