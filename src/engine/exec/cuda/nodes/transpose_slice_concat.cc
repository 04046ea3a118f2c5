// Transpose, Slice, Concat and similar operators as strided copies.
#include <algorithm>

#include "engine/exec/cuda/nodes/data_movement.h"
#include "engine/exec/cuda/nodes/data_movement_nodes.h"

namespace sluice::engine::cuda {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Permutes the axes of `shape` to `order`.
std::unique_ptr<Kernel> transposed(const Shape& shape, const std::vector<int>& order, int width) {
  Shape out;
  for (const int axis : order) out.push_back(shape[axis]);
  const auto from = strides_of(shape), to = strides_of(out);
  std::vector<CopyAxis> axes;
  for (int i = 0; i < out.rank(); ++i) axes.push_back({out[i], from[at(order[at(i)])], to[at(i)]});
  return strided_copy("transpose", std::move(axes), 0, width);
}

std::unique_ptr<Kernel> transpose(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const TensorType x = view.in(0);
  if (!is_copyable(x)) return nullptr;
  std::vector<int> order;
  const auto given = view.attributes().integers("perm");
  for (int i = 0; i < x.shape.rank(); ++i)
    order.push_back(given.empty() ? x.shape.rank() - 1 - i
                                  : resolve_axis(given[at(i)], x.shape.rank()));
  return transposed(x.shape, order, width_of(x));
}

std::unique_ptr<Kernel> depth_to_space(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const Shape s = view.in(0).shape;
  const std::int64_t b = view.attributes().integer("blocksize");
  if (s.rank() != 4 || b <= 0 || !is_copyable(view.in(0))) return nullptr;
  const std::int64_t c = s[1] / (b * b);
  if (view.attributes().string("mode", "DCR") == "DCR")
    return transposed({s[0], b, b, c, s[2], s[3]}, {0, 3, 4, 1, 5, 2}, width_of(view.in(0)));
  return transposed({s[0], c, b, b, s[2], s[3]}, {0, 1, 4, 2, 5, 3}, width_of(view.in(0)));
}

std::unique_ptr<Kernel> space_to_depth(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const Shape s = view.in(0).shape;
  const std::int64_t b = view.attributes().integer("blocksize");
  if (s.rank() != 4 || b <= 0 || !is_copyable(view.in(0))) return nullptr;
  return transposed({s[0], s[1], s[2] / b, b, s[3] / b, b}, {0, 3, 5, 1, 2, 4},
                    width_of(view.in(0)));
}

std::unique_ptr<Kernel> expand(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const Shape in = view.in(0).shape, out = view.out(0).shape;
  if (!is_copyable(view.out(0))) return nullptr;
  const auto from = strides_of(in), to = strides_of(out);
  std::vector<CopyAxis> axes;
  for (int i = 0; i < out.rank(); ++i) {
    const int own = i - (out.rank() - in.rank());
    axes.push_back({out[i], own < 0 || in[own] == 1 ? 0 : from[at(own)], to[at(i)]});
  }
  return strided_copy("expand", std::move(axes), 0, width_of(view.in(0)));
}

std::unique_ptr<Kernel> tile(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const Shape in = view.in(0).shape, out = view.out(0).shape;
  if (!is_copyable(view.out(0))) return nullptr;
  const auto from = strides_of(in), to = strides_of(out);
  std::vector<CopyAxis> axes;
  for (int i = 0; i < out.rank(); ++i) {
    if (in[i] == 0) return nothing_to_do();
    axes.push_back({out[i] / in[i], 0, to[at(i)] * in[i]});
    axes.push_back({in[i], from[at(i)], to[at(i)]});
  }
  return strided_copy("tile", std::move(axes), 0, width_of(view.in(0)));
}

// The first index of a slice of an axis.
std::int64_t slice_begin(std::int64_t begin, std::int64_t step, std::int64_t size) {
  if (begin < 0) begin += size;
  return step > 0 ? std::clamp<std::int64_t>(begin, 0, size)
                  : std::clamp<std::int64_t>(begin, 0, std::max<std::int64_t>(size - 1, 0));
}

std::unique_ptr<Kernel> slice(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const Shape in = view.in(0).shape, out = view.out(0).shape;
  const auto begins = view.list(1, "starts"), named = view.list(3, "axes"),
             steps = view.list(4, "steps");
  if (!is_copyable(view.in(0)) || !begins || (view.has(3) && !named) || (view.has(4) && !steps))
    return nullptr;
  auto from = strides_of(in);
  const auto to = strides_of(out);
  std::int64_t first = 0;
  for (std::size_t i = 0; i < begins->size(); ++i) {
    const int axis = named ? resolve_axis((*named)[i], in.rank()) : static_cast<int>(i);
    const std::int64_t step = steps ? (*steps)[i] : 1;
    first += slice_begin((*begins)[i], step, in[axis]) * from[at(axis)];
    from[at(axis)] = out[axis] > 1 ? from[at(axis)] * step : 0;
  }
  std::vector<CopyAxis> axes;
  for (int i = 0; i < out.rank(); ++i) axes.push_back({out[i], from[at(i)], to[at(i)]});
  return strided_copy("slice", std::move(axes), first, width_of(view.in(0)));
}

// The copies between a tensor and its parts along an axis.
struct Parts {
  std::vector<std::pair<std::size_t, StridedCopyCall>> moves{};

  // Part `i` covers [begin, begin + count) of `axis`.
  bool add(std::size_t i, const Shape& shape, int axis, std::int64_t begin, std::int64_t count,
           bool joins, int width) {
    const std::int64_t inner = shape.size(axis + 1, shape.rank()), rows = shape.size(0, axis);
    const std::int64_t far = shape[axis] * inner, near = count * inner;
    StridedCopyCall move;
    if (!plan_strided_copy({{rows, joins ? near : far, joins ? far : near}, {near, 1, 1}},
                           joins ? 0 : begin * inner, joins ? begin * inner : 0, width, move))
      return false;
    if (move.total > 0) moves.emplace_back(i, move);
    return true;
  }
};

std::unique_ptr<Kernel> concat(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const TensorType out = view.out(0);
  if (!is_copyable(out)) return nullptr;
  const std::int64_t given = view.attributes().integer("axis", 1);
  const int axis = resolve_axis(given, out.shape.rank());
  Parts parts;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < view.inputs(); ++i) {
    const std::int64_t count = view.in(i).shape[axis];
    if (!parts.add(i, out.shape, axis, begin, count, true, width_of(out))) return nullptr;
    begin += count;
  }
  return launched("concat", [parts](const KernelArgs& args) {
    for (const auto& [i, move] : parts.moves) {
      StridedCopyCall now = move;
      now.from = args.inputs[i];
      now.to = args.outputs[0];
      run_strided_copy(now, args);
    }
  });
}

std::unique_ptr<Kernel> split(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const TensorType in = view.in(0);
  if (!is_copyable(in)) return nullptr;
  const int axis = resolve_axis(view.attributes().integer("axis", 0), in.shape.rank());
  const auto sizes = view.list(1, "split");
  const std::int64_t size = in.shape[axis], n = static_cast<std::int64_t>(view.outputs());
  const std::int64_t each = (size + n - 1) / n;
  Parts parts;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < view.outputs(); ++i) {
    const std::int64_t count = sizes ? (*sizes)[i] : std::min(each, size - begin);
    if (view.wants(i) && !parts.add(i, in.shape, axis, begin, count, false, width_of(in)))
      return nullptr;
    begin += count;
  }
  return launched(
      "split",
      [parts](const KernelArgs& args) {
        for (const auto& [i, move] : parts.moves) {
          StridedCopyCall now = move;
          now.from = args.inputs[0];
          now.to = args.outputs[i];
          if (now.to != nullptr) run_strided_copy(now, args);
        }
      },
      1u);
}

constexpr Maker kMoveMakers[] = {
    {"Concat", "", concat}, {"DepthToSpace", "", depth_to_space}, {"Expand", "", expand},
    {"Slice", "", slice},   {"SpaceToDepth", "", space_to_depth}, {"Split", "", split},
    {"Tile", "", tile},     {"Transpose", "", transpose},
};

}  // namespace

std::span<const Maker> data_movement_kernels() {
  static const std::vector<Maker> all = [] {
    std::vector<Maker> list(std::begin(kMoveMakers), std::end(kMoveMakers));
    for (const auto& more : {gather_scatter_makers(), pad_resize_makers(), trilu_one_hot_makers()})
      list.insert(list.end(), more.begin(), more.end());
    return list;
  }();
  return all;
}

}  // namespace sluice::engine::cuda
