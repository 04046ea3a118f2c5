// Data movement: Transpose, Slice, Split, Concat, Tile, Expand, DepthToSpace, SpaceToDepth.
#include "engine/ops/axes.h"
#include "engine/ops/families.h"
#include "engine/ops/moves.h"

namespace sluice::engine {
namespace {

void transpose(OpCall& call) {
  const Tensor& data = call.input(0);
  std::vector<int> order;
  if (call.attributes().has("perm")) {
    order = resolve_axes(call.attributes().integers("perm"), data.rank());
    require(static_cast<int>(order.size()) == data.rank(),
            "an order of " + std::to_string(order.size()) + " axes for " + to_string(data.shape()));
  } else {
    order = all_axes(data.rank());
    std::reverse(order.begin(), order.end());
  }
  Shape shape;
  for (const int axis : order) shape.push_back(data.shape()[axis]);
  call.declare_output(0, data.dtype(), shape);
  call.set_output(0, transposed(data, order, call.workers));
}

void concat(OpCall& call) {
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < call.inputs(); ++i) parts.push_back(call.input(i));
  require(!parts.empty(), "nothing to join");
  const std::int64_t requested_axis =
      call.version() < 4 ? call.attributes().integer("axis", 1) : call.attributes().integer("axis");
  const int axis = resolve_axis(requested_axis, parts[0].rank());
  call.declare_output(0, parts[0].dtype(), concatenated_shape(parts, axis));
  call.set_output(0, concatenated(parts, axis, call.workers));
}

std::vector<std::int64_t> split_sizes(const OpCall& call, std::int64_t total) {
  if (auto given = list_of(call, 1, "split")) return *given;
  const auto outputs = static_cast<std::int64_t>(call.outputs());
  const std::int64_t count = call.attributes().integer("num_outputs", outputs);
  require(count > 0 && count == outputs,
          std::to_string(count) + " parts for " + std::to_string(outputs) + " outputs");
  const bool uneven = call.version() >= 18;
  require(uneven || total % count == 0,
          std::to_string(total) + " elements do not split into " + std::to_string(count));
  const std::int64_t each = total / count + (total % count != 0 ? 1 : 0);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(count), each);
  sizes.back() = total - each * (count - 1);
  return sizes;
}

void split(OpCall& call) {
  const Tensor& data = call.input(0);
  const int axis = resolve_axis(call.attributes().integer("axis", 0), data.rank());
  const std::int64_t total = data.shape()[axis];
  const std::vector<std::int64_t> sizes = split_sizes(call, total);
  require(sizes.size() == call.outputs(), std::to_string(sizes.size()) + " parts for " +
                                              std::to_string(call.outputs()) + " outputs");
  std::int64_t left = total;
  for (const std::int64_t size : sizes) left = size >= 0 && size <= left ? left - size : -1;
  require(left == 0, "the split sizes do not add up to " + std::to_string(total) + " elements");
  Shape shape = data.shape();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    shape[axis] = sizes[i];
    call.declare_output(i, data.dtype(), shape);
  }
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < sizes.size(); begin += sizes[i++])
    if (call.wants(i)) call.set_output(i, slice_of(data, axis, begin, sizes[i], call.workers));
}

struct Range {
  std::int64_t begin, step, count;
};

Range clamp_range(std::int64_t begin, std::int64_t end, std::int64_t step, std::int64_t size) {
  require(step != 0, "a step of 0");
  step = std::max(step, -std::numeric_limits<std::int64_t>::max());
  if (begin < 0) begin += size;
  if (end < 0) end += size;
  if (step > 0) {
    begin = std::clamp<std::int64_t>(begin, 0, size);
    end = std::clamp<std::int64_t>(end, 0, size);
    return {begin, step, end > begin ? (end - begin - 1) / step + 1 : 0};
  }
  begin = std::clamp<std::int64_t>(begin, 0, std::max<std::int64_t>(size - 1, 0));
  end = std::clamp<std::int64_t>(end, -1, size - 1);
  if (size == 0 || begin <= end) return {0, step, 0};
  return {begin, step, (begin - end - 1) / -step + 1};
}

void slice(OpCall& call) {
  const Tensor& data = call.input(0);
  const auto begins = list_of(call, 1, "starts"), ends = list_of(call, 2, "ends");
  require(begins && ends && begins->size() == ends->size(), "starts and ends do not match");
  const auto named = list_of(call, 3, "axes");
  std::vector<int> axes = named ? resolve_axes(*named, data.rank())
                                : all_axes(static_cast<int>(std::min<std::size_t>(
                                      begins->size(), static_cast<std::size_t>(data.rank()))));
  const auto steps = list_of(call, 4, "steps");
  require(axes.size() == begins->size() && (!steps || steps->size() == axes.size()),
          "starts, ends, axes and steps are of different lengths");
  Shape shape = data.shape();
  Strides from = strides_of(shape);
  std::int64_t first = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Range range =
        clamp_range((*begins)[i], (*ends)[i], steps ? (*steps)[i] : 1, data.shape()[axes[i]]);
    auto& step = from[static_cast<std::size_t>(axes[i])];
    first += range.begin * step;
    step = range.count > 1 ? step * range.step : 0;  // the step of a single element may be huge
    shape[axes[i]] = range.count;
  }
  const Tensor out = call.output(0, data.dtype(), shape);
  const Strides to = strides_of(shape);
  std::vector<CopyAxis> moves;
  for (int i = 0; i < shape.rank(); ++i) moves.push_back({shape[i], at(from, i), at(to, i)});
  move_elements({data, first}, {out}, std::move(moves), call.workers);
}

void expand(OpCall& call) {
  const Tensor& data = call.input(0);
  const Shape shape = broadcast(data.shape(), checked_shape(call.integers(1)));
  checked_size(shape.dims());
  const Tensor out = call.output(0, data.dtype(), shape);
  const Strides from = strides_of(data.shape()), to = strides_of(shape);
  std::vector<CopyAxis> moves;
  for (int i = 0; i < shape.rank(); ++i) {
    const int own = i - (shape.rank() - data.rank());
    const bool is_broadcast = own < 0 || data.shape()[own] == 1;
    moves.push_back({shape[i], is_broadcast ? 0 : at(from, own), at(to, i)});
  }
  move_elements({data}, {out}, std::move(moves), call.workers);
}

// Tile before opset 6: one axis and its repeat count.
std::vector<std::int64_t> repeats_of(const OpCall& call, int rank) {
  if (call.version() >= 6) return call.integers(1);
  const auto one = [&](std::size_t i) {
    const Tensor& tensor = call.input(i);
    if (tensor.dtype() != DType::f32) return integer_of(call, i);
    require(tensor.size() == 1, "tiles and axis are one number each");
    return static_cast<std::int64_t>(tensor.values<float>()[0]);
  };
  std::vector<std::int64_t> repeats(static_cast<std::size_t>(rank), 1);
  repeats[static_cast<std::size_t>(resolve_axis(one(2), rank))] = one(1);
  return repeats;
}

void tile(OpCall& call) {
  const Tensor& data = call.input(0);
  const std::vector<std::int64_t> repeats = repeats_of(call, data.rank());
  require(static_cast<int>(repeats.size()) == data.rank(),
          std::to_string(repeats.size()) + " repeats for " + to_string(data.shape()));
  Shape shape = data.shape();
  for (int i = 0; i < shape.rank(); ++i) {
    const std::int64_t times[] = {shape[i], repeats[static_cast<std::size_t>(i)]};
    shape[i] = checked_size(times);
  }
  const Tensor out = call.output(0, data.dtype(), checked_shape(shape.dims()));
  const Strides from = strides_of(data.shape()), to = strides_of(shape);
  std::vector<CopyAxis> moves;
  for (int i = 0; i < shape.rank(); ++i) {
    const std::int64_t dim = data.shape()[i];
    moves.push_back({repeats[static_cast<std::size_t>(i)], 0, at(to, i) * dim});
    moves.push_back({dim, at(from, i), at(to, i)});
  }
  move_elements({data}, {out}, std::move(moves), call.workers);
}

// DepthToSpace and SpaceToDepth: both are transposes of six axes.
void reorder(OpCall& call, const Shape& cut, const std::vector<int>& order, const Shape& shape) {
  call.declare_output(0, call.input(0).dtype(), shape);
  const Tensor reordered = transposed(call.input(0).reshaped(cut), order, call.workers);
  call.set_output(0, reordered.reshaped(shape));
}

std::int64_t block_size(const OpCall& call) {
  const Tensor& data = call.input(0);
  require(data.rank() == 4, "a tensor of four dimensions, not " + to_string(data.shape()));
  for (const std::int64_t dim : data.shape())
    require(dim < (std::int64_t{1} << 40), "a dimension of " + std::to_string(dim));
  const std::int64_t block = call.attributes().integer("blocksize");
  require(block > 0 && block < (1 << 20), "a block size of " + std::to_string(block));
  return block;
}

void depth_to_space(OpCall& call) {
  const std::int64_t b = block_size(call);
  const Shape& s = call.input(0).shape();
  require(s[1] % (b * b) == 0,
          std::to_string(s[1]) + " channels in blocks of " + std::to_string(b));
  const std::int64_t c = s[1] / (b * b);
  const std::string mode = call.attributes().string("mode", "DCR");
  require(mode == "DCR" || mode == "CRD", "no mode " + mode);
  const Shape out{s[0], c, s[2] * b, s[3] * b};
  if (mode == "DCR") return reorder(call, {s[0], b, b, c, s[2], s[3]}, {0, 3, 4, 1, 5, 2}, out);
  reorder(call, {s[0], c, b, b, s[2], s[3]}, {0, 1, 4, 2, 5, 3}, out);
}

void space_to_depth(OpCall& call) {
  const std::int64_t b = block_size(call);
  const Shape& s = call.input(0).shape();
  require(s[2] % b == 0 && s[3] % b == 0,
          to_string(s) + " does not fall into blocks of " + std::to_string(b));
  reorder(call, {s[0], s[1], s[2] / b, b, s[3] / b, b}, {0, 3, 5, 1, 2, 4},
          {s[0], s[1] * b * b, s[2] / b, s[3] / b});
}

void reverse_sequence(OpCall& call) {
  const Tensor& data = call.input(0);
  const int batch = resolve_axis(call.attributes().integer("batch_axis", 1), data.rank());
  const int time = resolve_axis(call.attributes().integer("time_axis", 0), data.rank());
  require(batch != time, "batch and time are one axis");
  const std::vector<std::int64_t> lengths = call.integers(1);
  const Shape& shape = data.shape();
  require(static_cast<std::int64_t>(lengths.size()) == shape[batch],
          std::to_string(lengths.size()) + " lengths for " + std::to_string(shape[batch]));
  const Tensor out = call.output(0, data.dtype(), shape);
  const Strides steps = strides_of(shape);
  for (std::int64_t b = 0; b < shape[batch]; ++b) {
    const std::int64_t length = lengths[static_cast<std::size_t>(b)];
    require(length >= 0 && length <= shape[time],
            "a length of " + std::to_string(length) + " in " + std::to_string(shape[time]));
    std::vector<CopyAxis> moves;
    for (int i = 0; i < shape.rank(); ++i)
      if (i != batch && i != time) moves.push_back({shape[i], at(steps, i), at(steps, i)});
    const std::int64_t step = at(steps, time), base = b * at(steps, batch);
    moves.push_back({length, -step, step});
    move_elements({data, base + (length - 1) * step}, {out, base}, moves, call.workers);
    moves.back() = {shape[time] - length, step, step};
    const std::int64_t rest = base + length * step;
    move_elements({data, rest}, {out, rest}, std::move(moves), call.workers);
  }
}

constexpr Op kLayoutOps[] = {
    {"Transpose", 1, kAnyType, transpose},
    {"Concat", 1, kAnyType, concat},
    {"Split", 1, kAnyType, split},
    {"Slice", 1, kAnyType, slice},
    {"Expand", 8, kAnyType, expand},
    {"Tile", 1, kAnyType, tile},
    {"DepthToSpace", 1, kAnyType, depth_to_space},
    {"SpaceToDepth", 1, kAnyType, space_to_depth},
    {"ReverseSequence", 10, kAnyType, reverse_sequence},
};

}  // namespace

std::span<const Op> layout_ops() { return kLayoutOps; }

}  // namespace sluice::engine
