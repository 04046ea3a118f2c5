// Gather and scatter in their forms.
#include "engine/exec/cuda/nodes/data_movement.h"
#include "engine/exec/cuda/nodes/data_movement_nodes.h"
#include "engine/graph/graph_editor.h"

namespace sluice::engine::cuda {
namespace {

bool is_index(DType type) { return type == DType::i64 || type == DType::i32; }

// `tells`: of an index that is not there.
std::unique_ptr<Kernel> gather_along(const Site& site, int axis, bool tells) {
  const TensorType data = site.in(0), indices = site.in(1);
  if (!moves(site.out(0)) || !is_index(indices.dtype)) return nullptr;
  if (site.out(0).shape.size() == 0) return nothing_to_do();
  std::int64_t inner = data.shape.size(axis + 1, data.shape.rank());
  Take take{};
  take.width = width_of(data);
  while (take.width < 16 && inner % 2 == 0) take.width *= 2, inner /= 2;
  take.long_indices = indices.dtype == DType::i64;
  take.size = data.shape[axis];
  take.total = data.shape.size(0, axis) * indices.shape.size() * inner;
  take.count = Divisor(indices.shape.size());
  take.inner = Divisor(inner);
  return launched("gather", [take, tells](const KernelArgs& args) {
    Take now = take;
    if (tells) now.error = args.error;
    now.from = args.inputs[0];
    now.indices = args.inputs[1];
    now.to = args.outputs[0];
    run_take(now, args);
  });
}

std::unique_ptr<Kernel> gather(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const int rank = site.in(0).shape.rank();
  return gather_along(site, resolve_axis(site.attributes().integer("axis", 0), rank), true);
}

// Along the tokens; indices beyond the last make zeros.
std::unique_ptr<Kernel> place(const Graph& graph, const Node& node, Context&) {
  return gather_along(Site(graph, node), 1, false);
}

// Where elements lie that indices of that shape name in data of that shape.
std::optional<TakeElements> elements_of(const Site& site) {
  const TensorType data = site.in(0), indices = site.in(1);
  const int rank = data.shape.rank();
  if (!moves(data) || !moves(indices) || !is_index(indices.dtype) || rank > kMostMoveAxes ||
      rank == 0 || indices.shape.rank() != rank)
    return std::nullopt;
  const int axis = resolve_axis(site.attributes().integer("axis", 0), rank);
  const auto steps = steps_of(data.shape);
  TakeElements take{};
  take.width = width_of(data);
  take.rank = rank;
  take.long_indices = indices.dtype == DType::i64;
  take.total = indices.shape.size();
  take.size = data.shape[axis];
  take.axis_step = steps[static_cast<std::size_t>(axis)];
  for (int i = 0; i < rank && take.total > 0; ++i) {
    take.shape[i] = Divisor(indices.shape[i]);
    take.step[i] = i == axis ? 0 : steps[static_cast<std::size_t>(i)];
  }
  return take;
}

std::unique_ptr<Kernel> gather_elements(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const auto take = elements_of(site);
  if (!take) return nullptr;
  if (take->total == 0) return nothing_to_do();
  return launched("gather elements", [t = *take](const KernelArgs& args) {
    TakeElements now = t;
    now.error = args.error;
    now.from = args.inputs[0];
    now.indices = args.inputs[1];
    now.to = args.outputs[0];
    run_take_elements(now, args);
  });
}

struct TuplePlan {
  Tuples tuples{};
  std::int64_t inner = 1;
};

std::optional<TuplePlan> tuples_of(const Site& site, int batch_dims) {
  const TensorType data = site.in(0), indices = site.in(1);
  const int rank = data.shape.rank(), last = indices.shape.rank() - 1;
  if (!moves(data) || !moves(indices) || !is_index(indices.dtype) || last < 0) return std::nullopt;
  TuplePlan plan;
  Tuples& t = plan.tuples;
  t.long_indices = indices.dtype == DType::i64;
  t.depth = static_cast<int>(indices.shape[last]);
  if (t.depth + batch_dims > rank || t.depth > kMostMoveAxes || t.depth == 0) return std::nullopt;
  t.count = indices.shape.size(0, last);
  t.in_batch = std::max<std::int64_t>(1, indices.shape.size(batch_dims, last));
  t.batch_step = data.shape.size(batch_dims, rank);
  const auto steps = steps_of(data.shape);
  for (int d = 0; d < t.depth; ++d) {
    t.size[d] = data.shape[batch_dims + d];
    t.step[d] = steps[static_cast<std::size_t>(batch_dims + d)];
  }
  plan.inner = data.shape.size(batch_dims + t.depth, rank);
  return plan;
}

std::unique_ptr<Kernel> gather_nd(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const auto plan = tuples_of(site, static_cast<int>(site.attributes().integer("batch_dims", 0)));
  if (!plan || !moves(site.out(0))) return nullptr;
  if (site.out(0).shape.size() == 0) return nothing_to_do();
  return launched("gather blocks",
                  [p = *plan, width = width_of(site.in(0))](const KernelArgs& args) {
                    Tuples now = p.tuples;
                    now.error = args.error;
                    now.indices = args.inputs[1];
                    run_take_tuples(now, args.inputs[0], args.outputs[0], width, p.inner, args);
                  });
}

std::optional<Reduction> reduction_of(const Site& site) {
  const std::string name = site.attributes().string("reduction", "none");
  if (name == "none") return Reduction::none;
  if (name == "add") return Reduction::add;
  if (name == "mul") return Reduction::mul;
  if (name == "max") return Reduction::max;
  if (name == "min") return Reduction::min;
  return std::nullopt;
}

// A plain copy of input 0 to output 0.
Move copy_of(const TensorType& type) {
  Move move;
  plan_move({{type.shape.size(), 1, 1}}, 0, 0, width_of(type), move);
  return move;
}
void copy(const Move& plan, const KernelArgs& args) {
  Move now = plan;
  now.from = args.inputs[0];
  now.to = args.outputs[0];
  run_move(now, args);
}

std::unique_ptr<Kernel> scatter_elements(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const auto where = elements_of(site);
  const auto how = reduction_of(site);
  const auto type = number_type(site.in(0).dtype);
  if (!where || !how || (*how != Reduction::none && !type)) return nullptr;
  if (site.in(0).shape.size() == 0) return nothing_to_do();
  const int axis = resolve_axis(site.attributes().integer("axis", 0), site.in(0).shape.rank());
  return launched("scatter", [w = *where, axis, h = *how, type,
                              plan = copy_of(site.in(0))](const KernelArgs& args) {
    copy(plan, args);
    if (w.total == 0) return;
    PutElements put{w, axis};
    put.where.error = args.error;
    put.where.indices = args.inputs[1];
    put.where.from = args.inputs[2];
    put.where.to = args.outputs[0];
    run_put_elements(put, h, type.value_or(NumberType::f32), args);
  });
}

std::unique_ptr<Kernel> scatter_nd(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const auto plan = tuples_of(site, 0);
  const auto how = reduction_of(site);
  const auto type = number_type(site.in(0).dtype);
  if (!plan || !how || (*how != Reduction::none && !type)) return nullptr;
  if (site.in(0).shape.size() == 0) return nothing_to_do();
  return launched("scatter blocks", [p = *plan, h = *how, type, width = width_of(site.in(0)),
                                     all = copy_of(site.in(0))](const KernelArgs& args) {
    copy(all, args);
    if (p.tuples.count * p.inner == 0) return;
    Tuples now = p.tuples;
    now.error = args.error;
    now.indices = args.inputs[1];
    run_put_tuples(now, args.inputs[2], args.outputs[0], width, p.inner, h,
                   type.value_or(NumberType::f32), args);
  });
}

constexpr Maker kIndexMakers[] = {
    {"Gather", "", gather},
    {"GatherElements", "", gather_elements},
    {"GatherND", "", gather_nd},
    {"Place", kFused, place},
    {"Scatter", "", scatter_elements},
    {"ScatterElements", "", scatter_elements},
    {"ScatterND", "", scatter_nd},
};

}  // namespace

std::span<const Maker> index_makers() { return kIndexMakers; }

}  // namespace sluice::engine::cuda
