#include "engine/ops/moves.h"

#include <array>
#include <cstring>

#include "engine/ops/axes.h"

namespace sluice::engine {
namespace {

constexpr std::int64_t kTile = 32;           // two tiles of 4-byte elements fit the L1 cache
constexpr std::int64_t kPerPiece = 1 << 15;  // minimum work per task, in elements

// A copy cut into rows: `row` is copied at once, or a tile of `row` and `across` if the contiguous
// axis of the source is another one.
struct CopyPlan {
  std::vector<CopyAxis> outer;
  CopyAxis row{1, 1, 1}, across{1, 1, 1};
  std::int64_t tiles = 1;  // along `across`

  explicit CopyPlan(std::vector<CopyAxis> axes) : outer(std::move(axes)) {
    if (outer.empty()) return;
    row = outer.back();
    outer.pop_back();
    if (row.from == 1 || row.from == 0) return;
    for (std::size_t i = 0; i < outer.size(); ++i) {
      if (outer[i].from != 1) continue;
      across = outer[i];
      tiles = (across.size + kTile - 1) / kTile;
      outer.erase(outer.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }

  std::int64_t count() const {
    std::int64_t product = tiles;
    for (const CopyAxis& axis : outer) product *= axis.size;
    return product;
  }
};

template <class T>
void copy_row(const T* from, T* to, const CopyAxis& row) {
  if (row.from == 1 && row.to == 1) {
    std::copy_n(from, row.size, to);
  } else if (row.from == 0 && row.to == 1) {
    std::fill_n(to, row.size, *from);
  } else {
    for (std::int64_t i = 0; i < row.size; ++i) to[i * row.to] = from[i * row.from];
  }
}

template <class T>
void copy_tile(const T* from, T* to, const CopyAxis& row, const CopyAxis& across,
               std::int64_t wide) {
  for (std::int64_t begin = 0; begin < row.size; begin += kTile) {
    const std::int64_t end = std::min(begin + kTile, row.size);
    for (std::int64_t j = 0; j < wide; ++j)
      for (std::int64_t i = begin; i < end; ++i)
        to[j * across.to + i * row.to] = from[i * row.from + j];
  }
}

template <class T>
void copy_piece(const CopyPlan& plan, const T* from, T* to, std::int64_t item) {
  const std::int64_t tile = item % plan.tiles * kTile;
  item /= plan.tiles;
  for (std::size_t i = plan.outer.size(); i-- > 0;) {
    const CopyAxis& axis = plan.outer[i];
    from += item % axis.size * axis.from;
    to += item % axis.size * axis.to;
    item /= axis.size;
  }
  if (plan.across.size == 1) return copy_row(from, to, plan.row);
  const std::int64_t wide = std::min(kTile, plan.across.size - tile);
  copy_tile(from + tile, to + tile * plan.across.to, plan.row, plan.across, wide);
}

// Bytes of the strings that a copy creates.
double contents_of(const std::string* from, std::span<const CopyAxis> axes) {
  if (axes.empty()) return static_cast<double>(string_bytes({from, 1}));
  const auto [size, stride, to] = axes.front();
  if (stride == 0) return static_cast<double>(size) * contents_of(from, axes.subspan(1));
  double sum = 0;
  for (std::int64_t i = 0; i < size; ++i) sum += contents_of(from + i * stride, axes.subspan(1));
  return sum;
}

}  // namespace

void reserve_string_bytes(const Tensor& tensor, double bytes) {
  tensor.reserve_string_bytes(1, static_cast<std::size_t>(std::min(bytes, 1e18)));
}

void move_elements(TensorOffset from, TensorOffset to, std::vector<CopyAxis> axes,
                   compute::Workers& workers) {
  for (const CopyAxis& axis : axes)
    if (axis.size == 0) return;
  if (from.tensor.dtype() == DType::string)
    reserve_string_bytes(to.tensor,
                         contents_of(as<std::string>(from.tensor).data() + from.at, axes));
  const CopyPlan plan(kernels::merged_axes(std::move(axes)));
  const std::int64_t each = plan.row.size * std::min(plan.across.size, kTile);
  const auto grain = static_cast<std::size_t>(std::max<std::int64_t>(1, kPerPiece / each));
  visit_widths(from.tensor.dtype(), [&]<class T>() {
    const T* const source = static_cast<const T*>(from.tensor.data()) + from.at;
    T* const target = static_cast<T*>(to.tensor.data()) + to.at;
    auto some = [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i)
        copy_piece<T>(plan, source, target, static_cast<std::int64_t>(i));
    };
    const auto count = static_cast<std::size_t>(plan.count());
    if (count <= grain) return some(0, count);
    workers.each(count, grain, some);
  });
}

void fill(const Tensor& tensor, const Tensor& value) {
  if (tensor.dtype() == DType::string)
    reserve_string_bytes(tensor,
                         static_cast<double>(tensor.size()) *
                             static_cast<double>(string_bytes(as<std::string>(value).first(1))));
  visit_widths(tensor.dtype(), [&]<class T>() {
    const auto all = as<T>(tensor);
    std::fill(all.begin(), all.end(), *static_cast<const T*>(value.data()));
  });
}

void fill_zero(const Tensor& tensor) {
  if (tensor.dtype() == DType::string) {
    const auto all = as<std::string>(tensor);
    std::fill(all.begin(), all.end(), std::string());
  } else if (tensor.bytes() > 0) {
    std::memset(tensor.data(), 0, tensor.bytes());
  }
}

Tensor transposed(const Tensor& tensor, const std::vector<int>& order, compute::Workers& workers) {
  Shape shape;
  for (const int axis : order) shape.push_back(tensor.shape()[axis]);
  Tensor out(tensor.dtype(), shape);
  const Strides from = strides_of(tensor.shape()), to = strides_of(shape);
  std::vector<CopyAxis> axes;
  for (int axis = 0; axis < shape.rank(); ++axis)
    axes.push_back({shape[axis], at(from, order[static_cast<std::size_t>(axis)]), at(to, axis)});
  move_elements({tensor}, {out}, std::move(axes), workers);
  return out;
}

Shape concatenated_shape(const std::vector<Tensor>& parts, int axis) {
  Shape shape = parts.at(0).shape();
  shape[axis] = 0;
  for (const Tensor& part : parts) {
    require(part.dtype() == parts[0].dtype(), "tensors of different element types");
    Shape like = part.shape();
    require(like.rank() == shape.rank(),
            "tensors of shapes " + to_string(parts[0].shape()) + " and " + to_string(part.shape()));
    shape[axis] += like[axis];
    like[axis] = shape[axis];
    require(like == shape, "tensors of shapes " + to_string(parts[0].shape()) + " and " +
                               to_string(part.shape()) + " along axis " + std::to_string(axis));
  }
  return shape;
}

Tensor concatenated(const std::vector<Tensor>& parts, int axis, compute::Workers& workers) {
  const Shape shape = concatenated_shape(parts, axis);
  Tensor out(parts[0].dtype(), shape);
  const std::int64_t inner = shape.size(axis + 1, shape.rank());
  std::int64_t done = 0;
  for (const Tensor& part : parts) {
    const std::int64_t run = part.shape()[axis] * inner;
    const std::int64_t rows = shape.size(0, axis);
    move_elements({part}, {out, done}, {{rows, run, shape[axis] * inner}, {run, 1, 1}}, workers);
    done += run;
  }
  return out;
}

Tensor slice_of(const Tensor& tensor, int axis, std::int64_t begin, std::int64_t count,
                compute::Workers& workers) {
  Shape shape = tensor.shape();
  const std::int64_t size = shape[axis];
  const std::int64_t inner = shape.size(axis + 1, shape.rank());
  shape[axis] = count;
  Tensor out(tensor.dtype(), shape);
  move_elements({tensor, begin * inner}, {out},
                {{shape.size(0, axis), size * inner, count * inner}, {count * inner, 1, 1}},
                workers);
  return out;
}

void gather_blocks(const Tensor& from, const Tensor& to, const std::vector<std::int64_t>& offsets,
                   std::int64_t size, compute::Workers& workers) {
  if (size == 0) return;
  if (from.dtype() == DType::string) {
    double bytes = 0;
    for (const std::int64_t offset : offsets)
      bytes += contents_of(as<std::string>(from).data() + offset, std::array{CopyAxis{size, 1, 1}});
    reserve_string_bytes(to, bytes);
  }
  const auto grain = static_cast<std::size_t>(std::max<std::int64_t>(1, kPerPiece / size));
  visit_widths(from.dtype(), [&]<class T>() {
    const T* const source = as<T>(from).data();
    T* const target = as<T>(to).data();
    workers.each(offsets.size(), grain, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i)
        std::copy_n(source + offsets[i], size, target + static_cast<std::int64_t>(i) * size);
    });
  });
}

Tensor gathered(const Tensor& tensor, int axis, const std::vector<std::int64_t>& indices,
                compute::Workers& workers) {
  Shape shape = tensor.shape();
  const std::int64_t size = shape[axis];
  shape[axis] = static_cast<std::int64_t>(indices.size());
  Tensor out(tensor.dtype(), shape);
  const std::int64_t inner = shape.size(axis + 1, shape.rank());
  const std::int64_t outer = inner == 0 || indices.empty() ? 0 : shape.size(0, axis);
  const Tensor reservation(DType::i64, Shape{outer, shape[axis]});  // accounts for `offsets`
  std::vector<std::int64_t> offsets;
  offsets.reserve(static_cast<std::size_t>(outer) * indices.size());
  for (std::int64_t i = 0; i < outer; ++i)
    for (const std::int64_t index : indices) offsets.push_back((i * size + index) * inner);
  gather_blocks(tensor, out, offsets, inner, workers);
  return out;
}

}  // namespace sluice::engine
