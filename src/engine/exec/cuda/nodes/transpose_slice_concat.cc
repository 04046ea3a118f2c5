// Transpose, Slice, Concat and their kin: moves by steps.
#include <algorithm>

#include "engine/exec/cuda/nodes/data_movement.h"
#include "engine/exec/cuda/nodes/data_movement_nodes.h"

namespace sluice::engine::cuda {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Axes of `shape` in `order`.
std::unique_ptr<Kernel> turned(const Shape& shape, const std::vector<int>& order, int width) {
  Shape out;
  for (const int axis : order) out.push_back(shape[axis]);
  const auto from = steps_of(shape), to = steps_of(out);
  std::vector<MoveAxis> axes;
  for (int i = 0; i < out.rank(); ++i) axes.push_back({out[i], from[at(order[at(i)])], to[at(i)]});
  return moved("transpose", std::move(axes), 0, width);
}

std::unique_ptr<Kernel> transpose(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const TensorType x = site.in(0);
  if (!moves(x)) return nullptr;
  std::vector<int> order;
  const auto given = site.attributes().integers("perm");
  for (int i = 0; i < x.shape.rank(); ++i)
    order.push_back(given.empty() ? x.shape.rank() - 1 - i
                                  : resolve_axis(given[at(i)], x.shape.rank()));
  return turned(x.shape, order, width_of(x));
}

std::unique_ptr<Kernel> depth_to_space(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const Shape s = site.in(0).shape;
  const std::int64_t b = site.attributes().integer("blocksize");
  if (s.rank() != 4 || b <= 0 || !moves(site.in(0))) return nullptr;
  const std::int64_t c = s[1] / (b * b);
  if (site.attributes().string("mode", "DCR") == "DCR")
    return turned({s[0], b, b, c, s[2], s[3]}, {0, 3, 4, 1, 5, 2}, width_of(site.in(0)));
  return turned({s[0], c, b, b, s[2], s[3]}, {0, 1, 4, 2, 5, 3}, width_of(site.in(0)));
}

std::unique_ptr<Kernel> space_to_depth(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const Shape s = site.in(0).shape;
  const std::int64_t b = site.attributes().integer("blocksize");
  if (s.rank() != 4 || b <= 0 || !moves(site.in(0))) return nullptr;
  return turned({s[0], s[1], s[2] / b, b, s[3] / b, b}, {0, 3, 5, 1, 2, 4}, width_of(site.in(0)));
}

std::unique_ptr<Kernel> expand(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const Shape in = site.in(0).shape, out = site.out(0).shape;
  if (!moves(site.out(0))) return nullptr;
  const auto from = steps_of(in), to = steps_of(out);
  std::vector<MoveAxis> axes;
  for (int i = 0; i < out.rank(); ++i) {
    const int own = i - (out.rank() - in.rank());
    axes.push_back({out[i], own < 0 || in[own] == 1 ? 0 : from[at(own)], to[at(i)]});
  }
  return moved("expand", std::move(axes), 0, width_of(site.in(0)));
}

std::unique_ptr<Kernel> tile(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const Shape in = site.in(0).shape, out = site.out(0).shape;
  if (!moves(site.out(0))) return nullptr;
  const auto from = steps_of(in), to = steps_of(out);
  std::vector<MoveAxis> axes;
  for (int i = 0; i < out.rank(); ++i) {
    if (in[i] == 0) return nothing_to_do();
    axes.push_back({out[i] / in[i], 0, to[at(i)] * in[i]});
    axes.push_back({in[i], from[at(i)], to[at(i)]});
  }
  return moved("tile", std::move(axes), 0, width_of(site.in(0)));
}

// Where a slice of an axis begins.
std::int64_t slice_begin(std::int64_t begin, std::int64_t step, std::int64_t size) {
  if (begin < 0) begin += size;
  return step > 0 ? std::clamp<std::int64_t>(begin, 0, size)
                  : std::clamp<std::int64_t>(begin, 0, std::max<std::int64_t>(size - 1, 0));
}

std::unique_ptr<Kernel> slice(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const Shape in = site.in(0).shape, out = site.out(0).shape;
  const auto begins = site.list(1, "starts"), named = site.list(3, "axes"),
             steps = site.list(4, "steps");
  if (!moves(site.in(0)) || !begins || (site.has(3) && !named) || (site.has(4) && !steps))
    return nullptr;
  auto from = steps_of(in);
  const auto to = steps_of(out);
  std::int64_t first = 0;
  for (std::size_t i = 0; i < begins->size(); ++i) {
    const int axis = named ? resolve_axis((*named)[i], in.rank()) : static_cast<int>(i);
    const std::int64_t step = steps ? (*steps)[i] : 1;
    first += slice_begin((*begins)[i], step, in[axis]) * from[at(axis)];
    from[at(axis)] = out[axis] > 1 ? from[at(axis)] * step : 0;
  }
  std::vector<MoveAxis> axes;
  for (int i = 0; i < out.rank(); ++i) axes.push_back({out[i], from[at(i)], to[at(i)]});
  return moved("slice", std::move(axes), first, width_of(site.in(0)));
}

// Several moves between one tensor and its parts along an axis.
struct Parts {
  std::vector<std::pair<std::size_t, Move>> moves{};

  // Part number `i`, `count` long, from place `begin` of `whole` on.
  bool add(std::size_t i, const Shape& shape, int axis, std::int64_t begin, std::int64_t count,
           bool joins, int width) {
    const std::int64_t inner = shape.size(axis + 1, shape.rank()), rows = shape.size(0, axis);
    const std::int64_t far = shape[axis] * inner, near = count * inner;
    Move move;
    if (!plan_move({{rows, joins ? near : far, joins ? far : near}, {near, 1, 1}},
                   joins ? 0 : begin * inner, joins ? begin * inner : 0, width, move))
      return false;
    if (move.total > 0) moves.emplace_back(i, move);
    return true;
  }
};

std::unique_ptr<Kernel> concat(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const TensorType out = site.out(0);
  if (!moves(out)) return nullptr;
  const std::int64_t given = site.attributes().integer("axis", 1);
  const int axis = resolve_axis(given, out.shape.rank());
  Parts parts;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < site.inputs(); ++i) {
    const std::int64_t count = site.in(i).shape[axis];
    if (!parts.add(i, out.shape, axis, begin, count, true, width_of(out))) return nullptr;
    begin += count;
  }
  return launched("concat", [parts](const KernelArgs& args) {
    for (const auto& [i, move] : parts.moves) {
      Move now = move;
      now.from = args.inputs[i];
      now.to = args.outputs[0];
      run_move(now, args);
    }
  });
}

std::unique_ptr<Kernel> split(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const TensorType in = site.in(0);
  if (!moves(in)) return nullptr;
  const int axis = resolve_axis(site.attributes().integer("axis", 0), in.shape.rank());
  const auto sizes = site.list(1, "split");
  const std::int64_t whole = in.shape[axis], n = static_cast<std::int64_t>(site.outputs());
  const std::int64_t each = (whole + n - 1) / n;
  Parts parts;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < site.outputs(); ++i) {
    const std::int64_t count = sizes ? (*sizes)[i] : std::min(each, whole - begin);
    if (site.wants(i) && !parts.add(i, in.shape, axis, begin, count, false, width_of(in)))
      return nullptr;
    begin += count;
  }
  return launched(
      "split",
      [parts](const KernelArgs& args) {
        for (const auto& [i, move] : parts.moves) {
          Move now = move;
          now.from = args.inputs[0];
          now.to = args.outputs[i];
          if (now.to != nullptr) run_move(now, args);
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

std::span<const Maker> move_kernels() {
  static const std::vector<Maker> all = [] {
    std::vector<Maker> list(std::begin(kMoveMakers), std::end(kMoveMakers));
    for (const auto& more : {index_makers(), table_makers(), rule_makers()})
      list.insert(list.end(), more.begin(), more.end());
    return list;
  }();
  return all;
}

}  // namespace sluice::engine::cuda
