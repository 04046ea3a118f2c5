// A small encoder as exporters write it, and variable-length inputs for it.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "engine/graph/graph_for_tests.h"
#include "engine/ops/one_op_for_tests.h"
#include "engine/ops/op.h"

namespace sluice::engine {

// The output derived from the last layer.
enum class EncoderOutput { hidden, first, masked_mean, all, mean, last, mean_of_rest, backwards };
// Variants of the attention.
enum class EncoderVariant { none, first_is_seen, keys_of_others, queries_with_others };

class EncoderForTests {
 public:
  static constexpr std::int64_t kWords = 50, kPositions = 96, kHeads = 2, kSize = 16,
                                kWidth = kHeads * kSize;

  // `as_rows`: GEMMs have [batch * length, width] rows.
  explicit EncoderForTests(EncoderOutput end, bool as_rows = false,
                           EncoderVariant twist = EncoderVariant::none, std::int64_t heads = kHeads,
                           std::int64_t size = kSize)
      : as_rows_(as_rows), heads_(heads), size_(size), width_(heads * size) {
    ids_ = b_.input("ids", DType::i64);
    mask_ = b_.input("mask", DType::i64);
    if (twist == EncoderVariant::keys_of_others) others_ = b_.input("others");
    if (twist == EncoderVariant::queries_with_others) added_ = b_.input("others");
    const ValueId real = b_.node("Cast", {mask_}, {{"to", kFloat}});
    ValueId wide = b_.node("Unsqueeze", {real, b_.integers({1, 2})});
    if (twist == EncoderVariant::first_is_seen) {
      const Tensor always(DType::f32, {1, 1, 1, 64});
      for (std::size_t i = 0; i < 64; ++i) always.values<float>()[i] = i == 0 ? 1 : 0;
      wide = b_.node("Max", {wide, b_.constant(always)});
    }
    shut_ = b_.node("Mul", {b_.node("Sub", {number(1), wide}), number(-3.4e38f)});
    ValueId x = b_.node("Gather", {b_.constant(varied({kWords, width_}, 3)), ids_});
    const ValueId length = b_.node("Gather", {b_.node("Shape", {ids_}), b_.integers({1})});
    const ValueId positions = b_.node("Slice", {b_.constant(varied({1, kPositions, width_}, 4)),
                                                b_.integers({0}), length, b_.integers({1})});
    x = norm(b_.node("Add", {x, positions}));
    for (int i = 0; i < 2; ++i) x = layer(x);
    finish(x, real, end);
  }

  Graph take() { return b_.take(); }

 private:
  static constexpr std::int64_t kFloat = 1;

  ValueId number(float x) { return b_.constant(Tensor::of(x)); }
  ValueId weights(const Shape& shape) {
    const Tensor made = varied(shape, ++seed_);
    for (float& w : made.values<float>()) w *= 0.4f;
    return b_.constant(made);
  }
  ValueId norm(ValueId x) {
    return b_.node("LayerNormalization", {x, weights({width_}), weights({width_})});
  }
  ValueId linear(ValueId x, std::int64_t k, std::int64_t n) {
    if (!as_rows_) return b_.node("Add", {b_.node("MatMul", {x, weights({k, n})}), weights({n})});
    const ValueId rows = b_.node("Reshape", {x, b_.integers({-1, k})});
    const ValueId y = b_.node("Gemm", {rows, weights({k, n}), weights({n})});
    const ValueId sizes = b_.node("Concat", {b_.node("Shape", {ids_}), b_.integers({n})},
                                  {{"axis", std::int64_t{0}}});
    return b_.node("Reshape", {y, sizes});
  }
  ValueId heads(ValueId x, std::vector<std::int64_t> order) {
    const ValueId four = b_.node("Reshape", {x, b_.integers({0, 0, heads_, size_})});
    return b_.node("Transpose", {four}, {{"perm", std::move(order)}});
  }
  ValueId layer(ValueId x) {
    ValueId query = linear(x, width_, width_);
    if (added_ != kNoValue) query = b_.node("Add", {query, added_});
    const ValueId q = heads(query, {0, 2, 1, 3});
    const ValueId seen_by = others_ != kNoValue ? others_ : x;
    const ValueId k = heads(linear(seen_by, width_, width_), {0, 2, 3, 1});
    const ValueId v = heads(linear(seen_by, width_, width_), {0, 2, 1, 3});
    const ValueId scores = b_.node("Div", {b_.node("MatMul", {q, k}), number(4)});
    const ValueId shares = b_.node("Softmax", {b_.node("Add", {scores, shut_})});
    const ValueId mixed = b_.node("Transpose", {b_.node("MatMul", {shares, v})},
                                  {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
    const ValueId seen = b_.node("Reshape", {mixed, b_.integers({0, 0, width_})});
    const ValueId y = norm(b_.node("Add", {linear(seen, width_, width_), x}));
    const ValueId wide = b_.node("Relu", {linear(y, width_, 2 * width_)});
    return norm(b_.node("Add", {linear(wide, 2 * width_, width_), y}));
  }
  ValueId masked_mean(ValueId x, ValueId real) {
    const ValueId each = b_.node("Unsqueeze", {real, b_.integers({-1})});
    const ValueId sum = b_.node("ReduceSum", {b_.node("Mul", {x, each}), b_.integers({1})},
                                {{"keepdims", std::int64_t{0}}});
    const ValueId count =
        b_.node("ReduceSum", {each, b_.integers({1})}, {{"keepdims", std::int64_t{0}}});
    return b_.node("Div", {sum, b_.node("Max", {count, number(1e-9f)})});
  }
  void finish(ValueId x, ValueId real, EncoderOutput end) {
    const bool all = end == EncoderOutput::all;
    if (all || end == EncoderOutput::hidden) b_.output(b_.node("Identity", {x}));
    if (all || end == EncoderOutput::first) b_.output(b_.node("Tanh", {position(x, 0)}));
    if (end == EncoderOutput::last) b_.output(position(x, -1));
    if (all || end == EncoderOutput::masked_mean) b_.output(masked_mean(x, real));
    if (end == EncoderOutput::mean) b_.output(mean(x));
    if (end == EncoderOutput::mean_of_rest) b_.output(mean(slice(x, 1, 1 << 20, 1)));
    if (end == EncoderOutput::backwards) b_.output(slice(x, -1, -(1 << 20), -1));
  }
  ValueId mean(ValueId x) {
    return b_.node("ReduceMean", {x}, {{"axes", std::vector<std::int64_t>{1}}});
  }
  ValueId position(ValueId x, std::int64_t at) {
    return b_.node("Gather", {x, b_.constant(Tensor::of(at))}, {{"axis", std::int64_t{1}}});
  }
  ValueId slice(ValueId x, std::int64_t from, std::int64_t to, std::int64_t step) {
    return b_.node("Slice", {x, b_.integers({from}), b_.integers({to}), b_.integers({1}),
                             b_.integers({step})});
  }

  GraphBuilder b_;
  const bool as_rows_;
  const std::int64_t heads_, size_, width_;
  unsigned seed_ = 10;
  ValueId ids_ = kNoValue, mask_ = kNoValue, shut_ = kNoValue, others_ = kNoValue,
          added_ = kNoValue;
};

// Ids and mask of sequences with these lengths, starting at position `first`.
inline std::vector<Tensor> sequences(const std::vector<std::int64_t>& lengths, std::int64_t longest,
                                     std::int64_t first = 0) {
  const Shape shape{static_cast<std::int64_t>(lengths.size()), longest};
  const Tensor ids(DType::i64, shape), mask(DType::i64, shape);
  unsigned seed = 7;
  for (std::size_t i = 0; i < ids.values<std::int64_t>().size(); ++i) {
    const auto at = static_cast<std::int64_t>(i) % longest;
    const std::int64_t length = lengths[i / static_cast<std::size_t>(longest)];
    seed = seed * 1664525u + 1013904223u;
    mask.values<std::int64_t>()[i] = at >= first && at < first + length ? 1 : 0;
    ids.values<std::int64_t>()[i] = seed >> 8 & 31;
  }
  return {ids, mask};
}

// `want` with zeros at padding; unchanged if it has no token axis.
inline Tensor without_padding(const Tensor& want, const Tensor& mask) {
  if (want.rank() < 3) return want;
  const Tensor made(want.dtype(), want.shape());
  const auto row = static_cast<std::size_t>(want.size() / mask.size());
  for (std::size_t i = 0; i < made.values<float>().size(); ++i)
    made.values<float>()[i] =
        mask.values<std::int64_t>()[i / row] != 0 ? want.values<float>()[i] : 0;
  return made;
}

}  // namespace sluice::engine
