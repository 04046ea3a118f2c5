#include "kernels/norm/norm.h"

#include "engine/exec/cuda/nodes/node_view.h"
#include "engine/graph/fused_ops.h"
#include "engine/graph/graph_editor.h"

namespace sluice::engine::cuda {
namespace {

std::unique_ptr<Kernel> made(std::string what, const Site& site, const RowNorm& call,
                             std::size_t residual, std::size_t scale) {
  const RealType type = real_type(site.in(0).dtype);
  return launched(std::move(what), [=](const KernelArgs& args) {
    const auto input = [&](std::size_t i) {
      return i > 0 && i < args.inputs.size() ? args.inputs[i] : nullptr;
    };
    const auto output = [&](std::size_t i) {
      return i < args.outputs.size() ? static_cast<float*>(args.outputs[i]) : nullptr;
    };
    RowNorm now = call;
    now.x = args.inputs[0];
    now.residual = input(residual);
    now.scale = input(scale);
    now.bias = input(scale + 1);
    now.out = args.outputs[0];
    if (call.steps.scale > 0) {
      now.steps.to = output(1);
    } else {
      now.mean = output(1);
      now.inverse = output(2);
    }
    row_norm(type, now, args);
  });
}

// Element types all the same, as the kernels want them.
bool same_reals(const Site& site, std::size_t count) {
  const DType type = site.in(0).dtype;
  if (!is_computed_real(type)) return false;
  for (std::size_t i = 1; i < count; ++i)
    if (site.has(i) && site.in(i).dtype != type) return false;
  return true;
}

// One list for all rows.
bool is_list(const Site& site, std::size_t i, std::int64_t n) {
  return !site.has(i) || site.in(i).shape.size() == n;
}

// False where they are of another kind.
bool take_steps(const Attributes& attributes, StepsOf& to) {
  const QuantParams rounding = quant_params_of(attributes);
  to.scale = rounding.to_scale;
  to.zero = rounding.to_zero;
  to.is_signed = rounding.to == DType::i8;
  return to.scale > 0 && (to.is_signed || rounding.to == DType::u8);
}

std::unique_ptr<Kernel> fused_norm(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const TensorType x = site.in(0);
  if (!same_reals(site, 4) || x.shape.rank() == 0) return nullptr;
  const std::int64_t n = x.shape[x.shape.rank() - 1];
  if (n == 0 || !site.has(2) || !is_list(site, 2, n) || !is_list(site, 3, n)) return nullptr;
  if (site.has(1) && !(site.in(1).shape == x.shape)) return nullptr;
  if (x.shape.size() == 0) return nothing_to_do();
  RowNorm call{};
  call.rows = x.shape.size() / n;
  call.n = n;
  call.epsilon = site.attributes().real("epsilon", 1e-5f);
  const std::string steps = site.wants(1) ? " + steps" : "";
  if (site.wants(1) && !take_steps(node.attributes, call.steps)) return nullptr;
  return made((site.has(1) ? "residual + layer norm" : "layer norm") + steps, site, call, 1, 2);
}

// LayerNormalization and RMSNormalization: rows from an axis on.
std::unique_ptr<Kernel> onnx_norm(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const TensorType x = site.in(0);
  if (!same_reals(site, 3)) return nullptr;
  const int axis = resolve_axis(site.attributes().integer("axis", -1), x.shape.rank());
  const std::int64_t n = x.shape.size(axis, x.shape.rank());
  const bool stashes = site.wants(1) || site.wants(2);
  if (n == 0 || !is_list(site, 1, n) || !is_list(site, 2, n) ||
      (stashes && site.attributes().dtype("stash_type", DType::f32) != DType::f32))
    return nullptr;
  if (x.shape.size() == 0) return nothing_to_do();
  RowNorm call{};
  call.rows = x.shape.size() / n;
  call.n = n;
  call.epsilon = site.attributes().real("epsilon", 1e-5f);
  call.centre = node.op == "LayerNormalization";
  return made(call.centre ? "layer norm" : "RMS norm", site, call, 0, 1);
}

// Parts of the channels of each image.
std::unique_ptr<Kernel> grouped(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const Shape shape = site.in(0).shape;
  if (!same_reals(site, 3) || shape.rank() < 2 || shape.size() == 0) return nullptr;
  const bool instance = node.op == "InstanceNormalization";
  const std::int64_t groups = instance ? shape[1] : site.attributes().integer("num_groups");
  if (groups <= 0 || shape[1] % groups != 0) return nullptr;
  const bool per_group = !instance && site.version() < 21;
  RowNorm call{};
  call.rows = shape[0] * groups;
  call.n = shape.size() / call.rows;
  call.period = groups;
  call.each = per_group ? 1 : shape[1] / groups;
  call.pixels = per_group ? call.n : shape.size(2, shape.rank());
  call.epsilon = site.attributes().real("epsilon", 1e-5f);
  const std::int64_t count = per_group ? groups : shape[1];
  if (!is_list(site, 1, count) || !is_list(site, 2, count)) return nullptr;
  return made(instance ? "instance norm" : "group norm", site, call, 0, 1);
}

LineKind line_kind(const Site& site) {
  const std::string& op = site.node().op;
  if (op == "Softmax") return LineKind::softmax;
  if (op == "LogSoftmax") return LineKind::log_softmax;
  if (op == "Hardmax") return LineKind::hardmax;
  return site.attributes().integer("p", 2) == 1 ? LineKind::length1 : LineKind::length2;
}

std::unique_ptr<Kernel> lines(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const TensorType x = site.in(0);
  if (!is_computed_real(x.dtype)) return nullptr;
  if (x.shape.size() == 0) return nothing_to_do();
  const int rank = x.shape.rank();
  const bool flat = node.op != "LpNormalization" && site.version() < 13;  // all from `axis` on
  std::int64_t axis = site.attributes().integer("axis", flat ? 1 : -1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank || (!flat && axis == rank)) return nullptr;
  const int from = static_cast<int>(axis), to = flat ? rank : from + 1;
  const Lines call{nullptr,
                   nullptr,
                   x.shape.size(0, from),
                   x.shape.size(from, to),
                   x.shape.size(to, rank),
                   line_kind(site)};
  return launched("along an axis", [call, type = real_type(x.dtype)](const KernelArgs& args) {
    Lines now = call;
    now.x = args.inputs[0];
    now.out = args.outputs[0];
    along_lines(type, now, args);
  });
}

constexpr Maker kNormMakers[] = {
    {"Norm", kFused, fused_norm},
    {"LayerNormalization", "", onnx_norm},
    {"RMSNormalization", "", onnx_norm},
    {"GroupNormalization", "", grouped},
    {"InstanceNormalization", "", grouped},
    {"Softmax", "", lines},
    {"LogSoftmax", "", lines},
    {"Hardmax", "", lines},
    {"LpNormalization", "", lines},
};

}  // namespace

std::span<const Maker> norm_kernels() { return kNormMakers; }

}  // namespace sluice::engine::cuda
