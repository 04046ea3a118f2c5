// Loops over tensors that are broadcast to one shape.
#pragma once

#include <array>

#include "engine/ops/op.h"

namespace sluice::engine {

// Strides of N inputs over their common shape; 0 along broadcast axes. Axes that are contiguous in
// all inputs are merged.
template <std::size_t N>
struct BroadcastLoop {
  Shape shape;  // merged
  std::array<std::array<std::int64_t, kMaxDims>, N> stride{};

  BroadcastLoop(const Shape& common, const std::array<Shape, N>& inputs) {
    std::array<std::int64_t, N> size;
    size.fill(1);
    for (int axis = common.rank() - 1; axis >= 0; --axis) {
      if (common[axis] == 1) continue;
      std::array<std::int64_t, N> along{};
      for (std::size_t i = 0; i < N; ++i) {
        const int own = axis - (common.rank() - inputs[i].rank());
        const std::int64_t dim = own >= 0 ? inputs[i][own] : 1;
        along[i] = dim == 1 ? 0 : size[i];
        size[i] *= dim;
      }
      if (shape.rank() > 0 && merges(along))
        shape[0] *= common[axis];
      else
        prepend(common[axis], along);
    }
  }

  // Calls body(output offset, input offsets, count, input strides) for each innermost row.
  template <class Body>
  void each_row(Body&& body) const {
    const int rank = shape.rank();
    const std::int64_t inner = rank > 0 ? shape[rank - 1] : 1;
    const std::int64_t rows = inner == 0 ? 0 : shape.size() / inner;
    std::array<std::int64_t, N> strides{}, at{};
    for (std::size_t i = 0; i < N; ++i)
      strides[i] = rank > 0 ? stride[i][static_cast<std::size_t>(rank - 1)] : 0;
    std::array<std::int64_t, kMaxDims> index{};
    for (std::int64_t row = 0; row < rows; ++row) {
      body(row * inner, at, inner, strides);
      for (int axis = rank - 2; axis >= 0; --axis) {
        const auto a = static_cast<std::size_t>(axis);
        for (std::size_t i = 0; i < N; ++i) at[i] += stride[i][a];
        if (++index[a] < shape[axis]) break;
        for (std::size_t i = 0; i < N; ++i) at[i] -= stride[i][a] * shape[axis];
        index[a] = 0;
      }
    }
  }

 private:
  bool merges(const std::array<std::int64_t, N>& along) const {
    for (std::size_t i = 0; i < N; ++i)
      if (along[i] != stride[i][0] * shape[0]) return false;
    return true;
  }

  void prepend(std::int64_t dim, const std::array<std::int64_t, N>& along) {
    shape.insert(0, dim);
    for (std::size_t i = 0; i < N; ++i) {
      std::copy_backward(stride[i].begin(), stride[i].end() - 1, stride[i].end());
      stride[i][0] = along[i];
    }
  }
};

// Input 1. Before opset 7 it was broadcast to input 0 only if `broadcast` was set, starting at
// `axis`.
inline Tensor second_input(OpCall& call) {
  const Tensor& b = call.input(1);
  if (call.version() >= 7 || !call.attributes().flag("broadcast")) return b;
  const int rank = call.input(0).rank();
  const std::int64_t axis = call.attributes().integer("axis", rank - b.rank());
  require(axis >= 0 && axis + b.rank() <= rank, "axis " + std::to_string(axis) + " is outside");
  Shape shape = b.shape();
  while (shape.rank() + axis < rank) shape.push_back(1);
  return b.reshaped(shape);
}

// out[...] = f(a[...], b[...]), with a and b broadcast to the shape of `out`.
template <class A, class B, class R, class F>
void map2(const Tensor& a, const Tensor& b, const Tensor& out, F&& f) {
  const BroadcastLoop<2> loop(out.shape(), {a.shape(), b.shape()});
  const A* const x = as<A>(a).data();
  const B* const y = as<B>(b).data();
  R* const z = as<R>(out).data();
  loop.each_row([&](std::int64_t to, const auto& at, std::int64_t count, const auto& stride) {
    const A* p = x + at[0];
    const B* q = y + at[1];
    R* r = z + to;
    if (stride[0] == 1 && stride[1] == 1)
      for (std::int64_t i = 0; i < count; ++i) r[i] = f(p[i], q[i]);
    else if (stride[0] == 1 && stride[1] == 0)
      for (std::int64_t i = 0; i < count; ++i) r[i] = f(p[i], *q);
    else if (stride[0] == 0 && stride[1] == 1)
      for (std::int64_t i = 0; i < count; ++i) r[i] = f(*p, q[i]);
    else
      for (std::int64_t i = 0; i < count; ++i) r[i] = f(p[i * stride[0]], q[i * stride[1]]);
  });
}

}  // namespace sluice::engine
