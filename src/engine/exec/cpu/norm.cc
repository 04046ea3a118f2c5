// LayerNormalization, Softmax and the fused Norm.
#include <algorithm>

#include "engine/exec/cpu/backend.h"
#include "engine/exec/cpu/nodes.h"
#include "kernels/norm/norm_cpu.h"

namespace sluice::engine::cpu {
namespace {

constexpr std::size_t kGrain = 1 << 14;  // minimum elements for another thread

std::size_t rows_at_once(std::size_t n) { return std::max<std::size_t>(1, kGrain / n); }

class NormKernel final : public Kernel {
 public:
  struct Inputs {
    std::size_t residual, scale, bias;
  };
  static constexpr std::size_t kNone = 1000;

  NormKernel(Context& context, const Node& node, const Inputs& inputs, std::size_t rows,
             std::size_t n)
      : workers_(context.workers),
        inputs_(inputs),
        rows_(rows),
        n_(n),
        epsilon_(node.attributes.real("epsilon", 1e-5f)),
        residual_(inputs.residual < node.inputs.size() &&
                  node.inputs[inputs.residual] != kNoValue) {}

  void run(const KernelArgs& args) const override {
    const float* const x = floats(args, 0);
    const float* const residual = floats(args, inputs_.residual);
    auto* const y = static_cast<float*>(args.outputs[0]);
    workers_.each(rows_, rows_at_once(n_), [&](std::size_t begin, std::size_t end) {
      const std::size_t at = begin * n_;
      norm_rows({.x = x + at,
                 .residual = residual != nullptr ? residual + at : nullptr,
                 .scale = floats(args, inputs_.scale),
                 .bias = floats(args, inputs_.bias),
                 .y = y + at,
                 .rows = end - begin,
                 .n = n_,
                 .epsilon = epsilon_});
    });
  }
  std::string_view name() const override {
    return residual_ ? "layer norm + residual" : "layer norm";
  }
  int in_place() const override { return 0; }

 private:
  compute::Workers& workers_;
  Inputs inputs_;
  std::size_t rows_, n_;
  float epsilon_;
  bool residual_;
};

class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(Context& context, std::size_t rows, std::size_t n)
      : workers_(context.workers), rows_(rows), n_(n) {}

  void run(const KernelArgs& args) const override {
    const float* const x = floats(args, 0);
    auto* const y = static_cast<float*>(args.outputs[0]);
    workers_.each(rows_, rows_at_once(n_), [&](std::size_t begin, std::size_t end) {
      softmax_rows(x + begin * n_, y + begin * n_, end - begin, n_);
    });
  }
  std::string_view name() const override { return "softmax"; }
  int in_place() const override { return 0; }

 private:
  compute::Workers& workers_;
  std::size_t rows_, n_;
};

bool absent_or(const TensorType& type, const Shape& shape) {
  return type.dtype == DType::none || type == TensorType{DType::f32, shape};
}

std::unique_ptr<Kernel> make_norm(const Graph& graph, const Node& node, Context& context) {
  const TensorType x = input_type(graph, node, 0), residual = input_type(graph, node, 1);
  if (x.dtype != DType::f32 || x.shape.rank() == 0 || x.shape.size() == 0) return nullptr;
  const Shape last{x.shape[x.shape.rank() - 1]};
  if (!absent_or(residual, x.shape) || !absent_or(input_type(graph, node, 3), last) ||
      !(input_type(graph, node, 2) == TensorType{DType::f32, last}) || node.outputs.size() > 1)
    return nullptr;
  const auto n = static_cast<std::size_t>(last[0]);
  return std::make_unique<NormKernel>(context, node, NormKernel::Inputs{1, 2, 3},
                                      static_cast<std::size_t>(x.shape.size()) / n, n);
}

// Supports one output, with a scale and a bias for each element of a row.
std::unique_ptr<Kernel> make_layer_norm(const Graph& graph, const Node& node, Context& context) {
  const TensorType x = input_type(graph, node, 0), scale = input_type(graph, node, 1);
  if (x.dtype != DType::f32 || x.shape.rank() == 0 || x.shape.size() == 0) return nullptr;
  for (std::size_t i = 1; i < node.outputs.size(); ++i)
    if (node.outputs[i] != kNoValue) return nullptr;
  const int axis = resolve_axis(node.attributes.integer("axis", -1), x.shape.rank());
  const Shape tail(x.shape.dims().subspan(static_cast<std::size_t>(axis)));
  if (!(scale == TensorType{DType::f32, tail}) || !absent_or(input_type(graph, node, 2), tail))
    return nullptr;
  const auto n = static_cast<std::size_t>(tail.size());
  return std::make_unique<NormKernel>(context, node, NormKernel::Inputs{NormKernel::kNone, 1, 2},
                                      static_cast<std::size_t>(x.shape.size()) / n, n);
}

// Before opset 13, softmax flattens all axes from `axis` on.
std::unique_ptr<Kernel> make_softmax(const Graph& graph, const Node& node, Context& context) {
  const TensorType x = input_type(graph, node, 0);
  const int rank = x.shape.rank();
  if (x.dtype != DType::f32 || rank == 0 || x.shape.size() == 0) return nullptr;
  const bool one_axis = node.version >= 13;
  const std::int64_t named = node.attributes.integer("axis", one_axis ? -1 : 1);
  if (named >= rank) return nullptr;
  const int axis = resolve_axis(named, rank);
  if (one_axis && x.shape.size(axis + 1, rank) != 1) return nullptr;
  return std::make_unique<SoftmaxKernel>(context, static_cast<std::size_t>(x.shape.size(0, axis)),
                                         static_cast<std::size_t>(x.shape.size(axis, rank)));
}

constexpr Maker kNormMakers[] = {
    {"Norm", kFused, make_norm},
    {"LayerNormalization", "", make_layer_norm},
    {"Softmax", "", make_softmax},
};

}  // namespace

std::span<const Maker> norm_kernels() { return kNormMakers; }

}  // namespace sluice::engine::cpu
