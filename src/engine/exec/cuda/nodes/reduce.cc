// Reductions, ArgMax, TopK, N-dimensional pooling and LRN.
#include "kernels/reduce/reduce.h"

#include <algorithm>

#include "engine/exec/cuda/nodes/data_movement_nodes.h"
#include "engine/ops/window.h"
#include "kernels/conv/pool_nd.h"

namespace sluice::engine::cuda {
namespace {

// Groups adjacent axes that are kept or reduced; false if there are too many groups.
bool group_axes(const Shape& shape, const std::vector<bool>& reduces, ReduceCall& call) {
  std::vector<std::pair<std::int64_t, std::int64_t>> lists[2];  // kept, reduced: size and stride
  std::int64_t stride = 1;
  int last = -1;
  call.kept.count = call.reduced.count = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    const int which = reduces[static_cast<std::size_t>(axis)] ? 1 : 0;
    (which == 1 ? call.reduced : call.kept).count *= shape[axis];
    if (shape[axis] != 1) {
      if (last == which)
        lists[which].back().first *= shape[axis];
      else
        lists[which].emplace_back(shape[axis], stride);
      last = which;
    }
    stride *= shape[axis];
  }
  for (int which = 0; which < 2; ++which) {
    AxisGroups& groups = which == 1 ? call.reduced : call.kept;
    if (lists[which].size() > static_cast<std::size_t>(kMaxAxisGroups)) return false;
    groups.rank = static_cast<int>(lists[which].size());
    for (int i = 0; i < groups.rank; ++i) {
      const auto& [size, own] = lists[which][static_cast<std::size_t>(groups.rank - 1 - i)];
      groups.size[i] = size;
      groups.stride[i] = own;
    }
  }
  return true;
}

std::unique_ptr<Kernel> reducing(const NodeView& view, const std::vector<bool>& reduces,
                                 Reduce op) {
  const TensorType in = view.in(0);
  const auto type = number_type(in.dtype);
  ReduceCall call{};
  call.op = op;
  if (!type || !group_axes(in.shape, reduces, call) || in.shape.size() == 0) return nullptr;
  return launched(
      "reduce",
      [call, t = *type](const KernelArgs& args) {
        ReduceCall now = call;
        now.from = args.inputs[0];
        now.to = args.outputs[0];
        run_reduce(t, now, args);
      },
      1u);
}

template <Reduce kOp>
std::unique_ptr<Kernel> reduce(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const int rank = view.in(0).shape.rank();
  const auto named = view.list(1, "axes");
  if (view.has(1) && !named) return nullptr;
  const bool none = !named || named->empty();
  const bool all = none && !view.attributes().flag("noop_with_empty_axes");
  std::vector<bool> reduces(static_cast<std::size_t>(rank), all);
  if (!none)
    for (const std::int64_t axis : *named)
      reduces[static_cast<std::size_t>(resolve_axis(axis, rank))] = true;
  return reducing(view, reduces, kOp);
}

std::vector<bool> spatial(int rank) {
  std::vector<bool> reduces(static_cast<std::size_t>(rank), true);
  reduces[0] = reduces[1] = false;
  return reduces;
}

template <Reduce kOp>
std::unique_ptr<Kernel> global_pool(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const int rank = view.in(0).shape.rank();
  if (rank < 2 || !is_computed_real(view.in(0).dtype)) return nullptr;
  Reduce op = kOp;
  if (node.op == "GlobalLpPool") {
    const std::int64_t p = view.version() < 2 ? 0 : view.attributes().integer("p", 2);
    if (p != 1 && p != 2) return nullptr;
    op = p == 1 ? Reduce::l1 : Reduce::l2;
  }
  return reducing(view, spatial(rank), op);
}

std::unique_ptr<Kernel> mean_variance(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const TensorType in = view.in(0);
  std::vector<bool> reduces(static_cast<std::size_t>(in.shape.rank()), false);
  for (const std::int64_t axis : view.attributes().integers("axes", {0, 2, 3}))
    reduces[static_cast<std::size_t>(resolve_axis(axis, in.shape.rank()))] = true;
  ReduceCall call{};
  if (!is_computed_real(in.dtype) || !group_axes(in.shape, reduces, call)) return nullptr;
  if (in.shape.size() == 0) return nothing_to_do();
  return launched("mean and variance", [call, type = real_type(in.dtype)](const KernelArgs& args) {
    ReduceCall now = call;
    now.from = args.inputs[0];
    now.to = args.outputs[0];
    run_mean_variance(type, now, args);
  });
}

std::unique_ptr<Kernel> arg(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const TensorType in = view.in(0);
  const auto type = number_type(in.dtype);
  if (!type || in.shape.rank() == 0) return nullptr;
  if (view.out(0).shape.size() == 0) return nothing_to_do();
  const int axis = resolve_axis(view.attributes().integer("axis", 0), in.shape.rank());
  const ArgReduceCall call{nullptr,
                           nullptr,
                           in.shape.size(0, axis),
                           in.shape[axis],
                           in.shape.size(axis + 1, in.shape.rank()),
                           node.op == "ArgMax",
                           view.attributes().flag("select_last_index")};
  return launched("arg max/min", [call, t = *type](const KernelArgs& args) {
    ArgReduceCall now = call;
    now.from = args.inputs[0];
    now.to = static_cast<std::int64_t*>(args.outputs[0]);
    run_arg_reduce(t, now, args);
  });
}

std::unique_ptr<Kernel> top(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const TensorType in = view.in(0);
  const auto type = number_type(in.dtype);
  if (!type || in.shape.rank() == 0) return nullptr;
  const std::size_t known = view.wants(0) ? 0 : 1;
  const int axis = resolve_axis(view.attributes().integer("axis", -1), in.shape.rank());
  const TopKCall call{nullptr,
                      nullptr,
                      nullptr,
                      in.shape.size(0, axis),
                      in.shape[axis],
                      in.shape.size(axis + 1, in.shape.rank()),
                      view.out(known).shape[axis],
                      view.attributes().flag("largest", true)};
  if (view.out(known).shape.size() == 0) return nothing_to_do();
  return launched(
      "top-k",
      [call, t = *type](const KernelArgs& args) {
        TopKCall now = call;
        now.from = args.inputs[0];
        now.values = args.outputs[0];
        now.indices =
            args.outputs.size() > 1 ? static_cast<std::int64_t*>(args.outputs[1]) : nullptr;
        run_top_k(t, now, args);
      },
      1u);
}

template <PoolNdCall::Kind kKind>
std::unique_ptr<Kernel> window(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const TensorType in = view.in(0);
  const int rank = in.shape.rank();
  if (!is_computed_real(in.dtype) || rank < 3 || rank > 5 || !is_copyable(in)) return nullptr;
  if (view.out(0).shape.size() == 0) return nothing_to_do();
  const Attributes& given = view.attributes();
  const Window w = read_window(
      given, in.shape, Tensor(),
      given.flag("ceil_mode") ? LastWindow::kept_where_it_begins_inside : LastWindow::dropped);
  PoolNdCall call{};
  call.kind = kKind;
  call.channels = in.shape[0] * in.shape[1];
  for (std::size_t i = 0; i < Window::kAxes; ++i) {
    const Window::Axis& a = w.axis[i];
    call.axis[i] = {static_cast<int>(a.in),       static_cast<int>(a.out),
                    static_cast<int>(a.kernel),   static_cast<int>(a.stride),
                    static_cast<int>(a.dilation), static_cast<int>(a.before),
                    static_cast<int>(a.after)};
  }
  call.counts_padding = given.flag("count_include_pad");
  call.column_major = kKind == PoolNdCall::Kind::max && given.integer("storage_order", 0) != 0;
  if (kKind == PoolNdCall::Kind::lp)
    call.p = view.version() < 2 ? given.real("p", 2) : static_cast<float>(given.integer("p", 2));
  return launched("pool", [call, type = real_type(in.dtype)](const KernelArgs& args) {
    PoolNdCall now = call;
    now.from = args.inputs[0];
    now.to = args.outputs[0];
    now.indices = args.outputs.size() > 1 ? static_cast<std::int64_t*>(args.outputs[1]) : nullptr;
    run_pool_nd(type, now, args);
  });
}

std::unique_ptr<Kernel> lrn(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const TensorType in = view.in(0);
  const std::int64_t size = view.attributes().integer("size");
  if (!is_computed_real(in.dtype) || in.shape.rank() < 2 || size <= 0 || size > 1 << 20)
    return nullptr;
  if (in.shape.size() == 0) return nothing_to_do();
  LrnCall call{};
  call.images = in.shape[0];
  call.channels = in.shape[1];
  call.pixels = in.shape.size(2, in.shape.rank());
  call.before = static_cast<int>((size - 1) / 2);
  call.after = static_cast<int>(size - 1) - call.before;
  call.alpha = view.attributes().real("alpha", 1e-4f) / static_cast<float>(size);
  call.beta = view.attributes().real("beta", 0.75f);
  call.bias = view.attributes().real("bias", 1);
  return launched("local response norm",
                  [call, type = real_type(in.dtype)](const KernelArgs& args) {
                    LrnCall now = call;
                    now.from = args.inputs[0];
                    now.to = args.outputs[0];
                    run_lrn(type, now, args);
                  });
}

constexpr Maker kReduceMakers[] = {
    {"ArgMax", "", arg},
    {"ArgMin", "", arg},
    {"AveragePool", "", window<PoolNdCall::Kind::average>},
    {"GlobalAveragePool", "", global_pool<Reduce::mean>},
    {"GlobalLpPool", "", global_pool<Reduce::l2>},
    {"GlobalMaxPool", "", global_pool<Reduce::max>},
    {"LRN", "", lrn},
    {"LpPool", "", window<PoolNdCall::Kind::lp>},
    {"MaxPool", "", window<PoolNdCall::Kind::max>},
    {"MeanVarianceNormalization", "", mean_variance},
    {"ReduceL1", "", reduce<Reduce::l1>},
    {"ReduceL2", "", reduce<Reduce::l2>},
    {"ReduceLogSum", "", reduce<Reduce::log_sum>},
    {"ReduceLogSumExp", "", reduce<Reduce::log_sum_exp>},
    {"ReduceMax", "", reduce<Reduce::max>},
    {"ReduceMean", "", reduce<Reduce::mean>},
    {"ReduceMin", "", reduce<Reduce::min>},
    {"ReduceProd", "", reduce<Reduce::product>},
    {"ReduceSum", "", reduce<Reduce::sum>},
    {"ReduceSumSquare", "", reduce<Reduce::sum_square>},
    {"TopK", "", top},
};

}  // namespace

std::span<const Maker> reduce_kernels() { return kReduceMakers; }

}  // namespace sluice::engine::cuda
