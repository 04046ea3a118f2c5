#include "kernels/norm/norm.h"

#include "engine/exec/cuda/nodes/node_view.h"
#include "engine/graph/fused_ops.h"
#include "engine/graph/graph_editor.h"

namespace sluice::engine::cuda {
namespace {

std::unique_ptr<Kernel> make_layer_norm(std::string name, const NodeView& view,
                                        const LayerNormCall& call, std::size_t residual,
                                        std::size_t scale) {
  const RealType type = real_type(view.in(0).dtype);
  return launched(std::move(name), [=](const KernelArgs& args) {
    const auto input = [&](std::size_t i) {
      return i > 0 && i < args.inputs.size() ? args.inputs[i] : nullptr;
    };
    const auto output = [&](std::size_t i) {
      return i < args.outputs.size() ? static_cast<float*>(args.outputs[i]) : nullptr;
    };
    LayerNormCall now = call;
    now.x = args.inputs[0];
    now.residual = input(residual);
    now.scale = input(scale);
    now.bias = input(scale + 1);
    now.out = args.outputs[0];
    if (call.quantized.scale > 0) {
      now.quantized.to = output(1);
    } else {
      now.mean = output(1);
      now.rstd = output(2);
    }
    layer_norm(type, now, args);
  });
}

// Whether all inputs have the same supported element type.
bool have_same_real_type(const NodeView& view, std::size_t count) {
  const DType type = view.in(0).dtype;
  if (!is_computed_real(type)) return false;
  for (std::size_t i = 1; i < count; ++i)
    if (view.has(i) && view.in(i).dtype != type) return false;
  return true;
}

// Whether input i is omitted or has n values, shared by all rows.
bool is_per_channel(const NodeView& view, std::size_t i, std::int64_t n) {
  return !view.has(i) || view.in(i).shape.size() == n;
}

// Reads the quantization of output 1; false if it is not supported.
bool read_quant_output(const Attributes& attributes, QuantOutput& to) {
  const QuantParams quant = quant_params_of(attributes);
  to.scale = quant.to_scale;
  to.zero = quant.to_zero;
  to.is_signed = quant.to == DType::i8;
  return to.scale > 0 && (to.is_signed || quant.to == DType::u8);
}

std::unique_ptr<Kernel> fused_norm(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const TensorType x = view.in(0);
  if (!have_same_real_type(view, 4) || x.shape.rank() == 0) return nullptr;
  const std::int64_t n = x.shape[x.shape.rank() - 1];
  if (n == 0 || !view.has(2) || !is_per_channel(view, 2, n) || !is_per_channel(view, 3, n))
    return nullptr;
  if (view.has(1) && !(view.in(1).shape == x.shape)) return nullptr;
  if (x.shape.size() == 0) return nothing_to_do();
  LayerNormCall call{};
  call.rows = x.shape.size() / n;
  call.n = n;
  call.epsilon = view.attributes().real("epsilon", 1e-5f);
  const std::string suffix = view.wants(1) ? " + quantize" : "";
  if (view.wants(1) && !read_quant_output(node.attributes, call.quantized)) return nullptr;
  return make_layer_norm((view.has(1) ? "residual + layer norm" : "layer norm") + suffix, view,
                         call, 1, 2);
}

// LayerNormalization and RMSNormalization: a row is everything from `axis` on.
std::unique_ptr<Kernel> onnx_norm(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const TensorType x = view.in(0);
  if (!have_same_real_type(view, 3)) return nullptr;
  const int axis = resolve_axis(view.attributes().integer("axis", -1), x.shape.rank());
  const std::int64_t n = x.shape.size(axis, x.shape.rank());
  const bool stashes = view.wants(1) || view.wants(2);
  if (n == 0 || !is_per_channel(view, 1, n) || !is_per_channel(view, 2, n) ||
      (stashes && view.attributes().dtype("stash_type", DType::f32) != DType::f32))
    return nullptr;
  if (x.shape.size() == 0) return nothing_to_do();
  LayerNormCall call{};
  call.rows = x.shape.size() / n;
  call.n = n;
  call.epsilon = view.attributes().real("epsilon", 1e-5f);
  call.centre = node.op == "LayerNormalization";
  return make_layer_norm(call.centre ? "layer norm" : "RMS norm", view, call, 0, 1);
}

// GroupNormalization and InstanceNormalization.
std::unique_ptr<Kernel> make_group_norm(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const Shape shape = view.in(0).shape;
  if (!have_same_real_type(view, 3) || shape.rank() < 2 || shape.size() == 0) return nullptr;
  const bool instance = node.op == "InstanceNormalization";
  const std::int64_t groups = instance ? shape[1] : view.attributes().integer("num_groups");
  if (groups <= 0 || shape[1] % groups != 0) return nullptr;
  const bool per_group = !instance && view.version() < 21;
  LayerNormCall call{};
  call.rows = shape[0] * groups;
  call.n = shape.size() / call.rows;
  call.period = groups;
  call.each = per_group ? 1 : shape[1] / groups;
  call.pixels = per_group ? call.n : shape.size(2, shape.rank());
  call.epsilon = view.attributes().real("epsilon", 1e-5f);
  const std::int64_t count = per_group ? groups : shape[1];
  if (!is_per_channel(view, 1, count) || !is_per_channel(view, 2, count)) return nullptr;
  return make_layer_norm(instance ? "instance norm" : "group norm", view, call, 0, 1);
}

AxisNorm axis_norm_of(const NodeView& view) {
  const std::string& op = view.node().op;
  if (op == "Softmax") return AxisNorm::softmax;
  if (op == "LogSoftmax") return AxisNorm::log_softmax;
  if (op == "Hardmax") return AxisNorm::hardmax;
  return view.attributes().integer("p", 2) == 1 ? AxisNorm::l1 : AxisNorm::l2;
}

const char* axis_norm_name(AxisNorm kind) {
  switch (kind) {
    case AxisNorm::softmax: return "softmax";
    case AxisNorm::log_softmax: return "log softmax";
    case AxisNorm::hardmax: return "hardmax";
    case AxisNorm::l1: return "L1 norm";
    case AxisNorm::l2: return "L2 norm";
  }
  return "norm";
}

std::unique_ptr<Kernel> make_axis_norm(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const TensorType x = view.in(0);
  if (!is_computed_real(x.dtype)) return nullptr;
  if (x.shape.size() == 0) return nothing_to_do();
  const int rank = x.shape.rank();
  const bool flat = node.op != "LpNormalization" && view.version() < 13;  // all from `axis` on
  std::int64_t axis = view.attributes().integer("axis", flat ? 1 : -1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank || (!flat && axis == rank)) return nullptr;
  const int from = static_cast<int>(axis), to = flat ? rank : from + 1;
  const AxisNormCall call{nullptr,
                          nullptr,
                          x.shape.size(0, from),
                          x.shape.size(from, to),
                          x.shape.size(to, rank),
                          axis_norm_of(view)};
  return launched(axis_norm_name(call.kind),
                  [call, type = real_type(x.dtype)](const KernelArgs& args) {
                    AxisNormCall now = call;
                    now.x = args.inputs[0];
                    now.out = args.outputs[0];
                    axis_norm(type, now, args);
                  });
}

constexpr Maker kNormMakers[] = {
    {"Norm", kFused, fused_norm},
    {"LayerNormalization", "", onnx_norm},
    {"RMSNormalization", "", onnx_norm},
    {"GroupNormalization", "", make_group_norm},
    {"InstanceNormalization", "", make_group_norm},
    {"Softmax", "", make_axis_norm},
    {"LogSoftmax", "", make_axis_norm},
    {"Hardmax", "", make_axis_norm},
    {"LpNormalization", "", make_axis_norm},
};

}  // namespace

std::span<const Maker> norm_kernels() { return kNormMakers; }

}  // namespace sluice::engine::cuda
