#include "tensor/shape.h"

#include <limits>

#include "base/error.h"

namespace sluice {

Shape::Shape(std::span<const std::int64_t> dims) {
  for (const std::int64_t dim : dims) push_back(dim);
}

void Shape::push_back(std::int64_t dim) { insert(rank_, dim); }

void Shape::insert(int axis, std::int64_t dim) {
  require(rank_ < kMaxDims, "a tensor has at most 16 dimensions");
  std::copy_backward(begin() + axis, end(), dims_.data() + rank_ + 1);
  (*this)[axis] = dim;
  ++rank_;
}

void Shape::erase(int axis) {
  std::copy(begin() + axis + 1, end(), dims_.data() + axis);
  --rank_;
}

std::int64_t Shape::size(int from, int to) const noexcept {
  std::uint64_t product = 1;  // may wrap around if another dimension is 0
  for (int i = from; i < to; ++i) product *= static_cast<std::uint64_t>((*this)[i]);
  return static_cast<std::int64_t>(product);
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

int resolve_axis(std::int64_t axis, int rank) {
  require(axis >= -rank && axis < rank, "axis " + std::to_string(axis) + " of a tensor with " +
                                            std::to_string(rank) + " dimensions");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Shape broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& other = a.rank() >= b.rank() ? b : a;
  Shape both = longer;
  const int ahead = longer.rank() - other.rank();
  for (int i = 0; i < other.rank(); ++i) {
    const std::int64_t x = longer[ahead + i], y = other[i];
    require(x == y || x == 1 || y == 1,
            "shapes " + to_string(a) + " and " + to_string(b) + " do not broadcast");
    both[ahead + i] = x == 1 ? y : x;
  }
  return both;
}

std::int64_t checked_size(std::span<const std::int64_t> dims) {
  constexpr std::int64_t kMax =
      std::numeric_limits<std::int64_t>::max() / 16;  // so that bytes do not overflow either
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t dim : dims) {
    if (dim < 0) throw Error(Code::invalid_argument, "a dimension of " + std::to_string(dim));
    if (dim == 0) {
      empty = true;
      continue;
    }
    require(product <= kMax / dim, "more elements than memory can hold");
    product *= dim;
  }
  return empty ? 0 : product;
}

}  // namespace sluice
