// The Gather and Scatter operators.
#include "engine/exec/cuda/nodes/data_movement.h"
#include "engine/exec/cuda/nodes/data_movement_nodes.h"
#include "engine/graph/graph_editor.h"

namespace sluice::engine::cuda {
namespace {

bool is_index(DType type) { return type == DType::i64 || type == DType::i32; }

// `reports_errors`: an index out of range is an error, else it yields zeros.
std::unique_ptr<Kernel> gather_along(const NodeView& view, int axis, bool reports_errors) {
  const TensorType data = view.in(0), indices = view.in(1);
  if (!is_copyable(view.out(0)) || !is_index(indices.dtype)) return nullptr;
  if (view.out(0).shape.size() == 0) return nothing_to_do();
  std::int64_t inner = data.shape.size(axis + 1, data.shape.rank());
  GatherCall take{};
  take.width = width_of(data);
  while (take.width < 16 && inner % 2 == 0) take.width *= 2, inner /= 2;
  take.long_indices = indices.dtype == DType::i64;
  take.size = data.shape[axis];
  take.total = data.shape.size(0, axis) * indices.shape.size() * inner;
  take.count = Divisor(indices.shape.size());
  take.inner = Divisor(inner);
  return launched("gather", [take, reports_errors](const KernelArgs& args) {
    GatherCall now = take;
    if (reports_errors) now.error = args.error;
    now.from = args.inputs[0];
    now.indices = args.inputs[1];
    now.to = args.outputs[0];
    run_gather(now, args);
  });
}

std::unique_ptr<Kernel> gather(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const int rank = view.in(0).shape.rank();
  return gather_along(view, resolve_axis(view.attributes().integer("axis", 0), rank), true);
}

// Gathers along the tokens; an index >= num_tokens yields zeros, for padding.
std::unique_ptr<Kernel> pad_tokens(const Graph& graph, const Node& node, Context&) {
  return gather_along(NodeView(graph, node), 1, false);
}

// The addressing of GatherElements and ScatterElements.
std::optional<GatherElementsCall> elements_of(const NodeView& view) {
  const TensorType data = view.in(0), indices = view.in(1);
  const int rank = data.shape.rank();
  if (!is_copyable(data) || !is_copyable(indices) || !is_index(indices.dtype) ||
      rank > kMaxCopyAxes || rank == 0 || indices.shape.rank() != rank)
    return std::nullopt;
  const int axis = resolve_axis(view.attributes().integer("axis", 0), rank);
  const auto strides = strides_of(data.shape);
  GatherElementsCall take{};
  take.width = width_of(data);
  take.rank = rank;
  take.long_indices = indices.dtype == DType::i64;
  take.total = indices.shape.size();
  take.size = data.shape[axis];
  take.axis_stride = strides[static_cast<std::size_t>(axis)];
  for (int i = 0; i < rank && take.total > 0; ++i) {
    take.shape[i] = Divisor(indices.shape[i]);
    take.stride[i] = i == axis ? 0 : strides[static_cast<std::size_t>(i)];
  }
  return take;
}

std::unique_ptr<Kernel> gather_elements(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const auto take = elements_of(view);
  if (!take) return nullptr;
  if (take->total == 0) return nothing_to_do();
  return launched("gather elements", [t = *take](const KernelArgs& args) {
    GatherElementsCall now = t;
    now.error = args.error;
    now.from = args.inputs[0];
    now.indices = args.inputs[1];
    now.to = args.outputs[0];
    run_gather_elements(now, args);
  });
}

struct TuplePlan {
  GatherNdIndices tuples{};
  std::int64_t inner = 1;
};

std::optional<TuplePlan> tuples_of(const NodeView& view, int batch_dims) {
  const TensorType data = view.in(0), indices = view.in(1);
  const int rank = data.shape.rank(), last = indices.shape.rank() - 1;
  if (!is_copyable(data) || !is_copyable(indices) || !is_index(indices.dtype) || last < 0)
    return std::nullopt;
  TuplePlan plan;
  GatherNdIndices& t = plan.tuples;
  t.long_indices = indices.dtype == DType::i64;
  t.depth = static_cast<int>(indices.shape[last]);
  if (t.depth + batch_dims > rank || t.depth > kMaxCopyAxes || t.depth == 0) return std::nullopt;
  t.count = indices.shape.size(0, last);
  t.tuples_per_batch = std::max<std::int64_t>(1, indices.shape.size(batch_dims, last));
  t.batch_stride = data.shape.size(batch_dims, rank);
  const auto strides = strides_of(data.shape);
  for (int d = 0; d < t.depth; ++d) {
    t.size[d] = data.shape[batch_dims + d];
    t.stride[d] = strides[static_cast<std::size_t>(batch_dims + d)];
  }
  plan.inner = data.shape.size(batch_dims + t.depth, rank);
  return plan;
}

std::unique_ptr<Kernel> gather_nd(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const auto plan = tuples_of(view, static_cast<int>(view.attributes().integer("batch_dims", 0)));
  if (!plan || !is_copyable(view.out(0))) return nullptr;
  if (view.out(0).shape.size() == 0) return nothing_to_do();
  return launched("gather blocks",
                  [p = *plan, width = width_of(view.in(0))](const KernelArgs& args) {
                    GatherNdIndices now = p.tuples;
                    now.error = args.error;
                    now.indices = args.inputs[1];
                    run_gather_nd(now, args.inputs[0], args.outputs[0], width, p.inner, args);
                  });
}

std::optional<Reduction> reduction_of(const NodeView& view) {
  const std::string name = view.attributes().string("reduction", "none");
  if (name == "none") return Reduction::none;
  if (name == "add") return Reduction::add;
  if (name == "mul") return Reduction::mul;
  if (name == "max") return Reduction::max;
  if (name == "min") return Reduction::min;
  return std::nullopt;
}

// A plain copy of input 0 to output 0.
StridedCopyCall copy_of(const TensorType& type) {
  StridedCopyCall move;
  plan_strided_copy({{type.shape.size(), 1, 1}}, 0, 0, width_of(type), move);
  return move;
}
void copy(const StridedCopyCall& plan, const KernelArgs& args) {
  StridedCopyCall now = plan;
  now.from = args.inputs[0];
  now.to = args.outputs[0];
  run_strided_copy(now, args);
}

std::unique_ptr<Kernel> scatter_elements(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const auto where = elements_of(view);
  const auto how = reduction_of(view);
  const auto type = number_type(view.in(0).dtype);
  if (!where || !how || (*how != Reduction::none && !type)) return nullptr;
  if (view.in(0).shape.size() == 0) return nothing_to_do();
  const int axis = resolve_axis(view.attributes().integer("axis", 0), view.in(0).shape.rank());
  return launched("scatter", [w = *where, axis, h = *how, type,
                              plan = copy_of(view.in(0))](const KernelArgs& args) {
    copy(plan, args);
    if (w.total == 0) return;
    ScatterElementsCall put{w, axis};
    put.target.error = args.error;
    put.target.indices = args.inputs[1];
    put.target.from = args.inputs[2];
    put.target.to = args.outputs[0];
    run_scatter_elements(put, h, type.value_or(NumberType::f32), args);
  });
}

std::unique_ptr<Kernel> scatter_nd(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const auto plan = tuples_of(view, 0);
  const auto how = reduction_of(view);
  const auto type = number_type(view.in(0).dtype);
  if (!plan || !how || (*how != Reduction::none && !type)) return nullptr;
  if (view.in(0).shape.size() == 0) return nothing_to_do();
  return launched("scatter blocks", [p = *plan, h = *how, type, width = width_of(view.in(0)),
                                     all = copy_of(view.in(0))](const KernelArgs& args) {
    copy(all, args);
    if (p.tuples.count * p.inner == 0) return;
    GatherNdIndices now = p.tuples;
    now.error = args.error;
    now.indices = args.inputs[1];
    run_scatter_nd(now, args.inputs[2], args.outputs[0], width, p.inner, h,
                   type.value_or(NumberType::f32), args);
  });
}

constexpr Maker kGatherScatterMakers[] = {
    {"Gather", "", gather},
    {"GatherElements", "", gather_elements},
    {"GatherND", "", gather_nd},
    {"PadTokens", kFused, pad_tokens},
    {"Scatter", "", scatter_elements},
    {"ScatterElements", "", scatter_elements},
    {"ScatterND", "", scatter_nd},
};

}  // namespace

std::span<const Maker> gather_scatter_makers() { return kGatherScatterMakers; }

}  // namespace sluice::engine::cuda
