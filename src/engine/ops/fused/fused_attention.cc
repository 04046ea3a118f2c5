// Reference implementations of Attention, also varlen, PadTokens and PoolTokens. fused_ops.h
// documents each operator.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/graph/fused_ops.h"
#include "engine/ops/families.h"
#include "engine/ops/fused/fused.h"
#include "kernels/gemm/gemm.h"
#include "tensor/byte_size.h"

namespace sluice::engine {
namespace {

// The layout of q, k and v, [batch, length, heads * size] each, with row stride `step`.
struct Heads {
  std::int64_t batch, queries, keys, heads, size, step_q, step_k, step_v;
  Tensor q, k, v;
  std::int64_t at_k = 0, at_v = 0;  // offsets in q if packed

  explicit Heads(OpCall& call) : q(fused_input(call, 0)), k(q), v(q) {
    const bool packed = call.attributes().flag("packed");
    require(q.rank() == 3, "queries of shape " + to_string(q.shape()));
    heads = call.attributes().integer("heads");
    const std::int64_t width = q.shape()[2] / (packed ? 3 : 1);
    require(heads > 0 && heads <= std::max<std::int64_t>(width, 1) && width % heads == 0 &&
                (!packed || q.shape()[2] % 3 == 0),
            std::to_string(heads) + " heads do not fit a shape of " + to_string(q.shape()));
    size = width / heads;
    step_q = step_k = step_v = q.shape()[2];
    if (packed) {
      at_k = width;
      at_v = 2 * width;
    } else {
      read_inputs(call, width);
    }
    batch = q.shape()[0];
    queries = q.shape()[1];
    keys = k.shape()[1];
  }

  void widen_all() {
    const bool same = k.data() == q.data() && v.data() == q.data();
    widen(q);
    if (same)
      k = v = q;
    else
      widen(k, v);
  }

 private:
  void read_inputs(OpCall& call, std::int64_t width) {
    require(call.has(1) && call.has(2), "keys or values are missing");
    k = fused_input(call, 1);
    v = fused_input(call, 2);
    require(k.rank() == 3, "keys of shape " + to_string(k.shape()));
    require_shape(k, "keys", {q.shape()[0], k.shape()[1], width});
    require_shape(v, "values", k.shape());
  }
};

// A group of queries and keys that attend to each other, by row ranges.
struct Group {
  std::int64_t entry, query, queries, key, keys;
};

std::vector<Group> varlen_groups(OpCall& call, const Heads& h) {
  const std::vector<std::int64_t> cu_seqlens = call.integers(4);
  const std::int64_t max_seqlen = call.attributes().integer("max_seqlen");
  require(!call.has(3) && h.batch == 1 && h.queries == h.keys && !cu_seqlens.empty(),
          "packed sequences need one batch entry and no mask");
  std::vector<Group> groups;
  for (std::size_t i = 0; i + 1 < cu_seqlens.size(); ++i) {
    const std::int64_t first = cu_seqlens[i], end = cu_seqlens[i + 1];
    require(0 <= first && first <= end && end <= h.queries && end - first <= max_seqlen,
            "a sequence from " + std::to_string(first) + " to " + std::to_string(end));
    groups.push_back({0, first, end - first, first, end - first});
  }
  return groups;
}

std::vector<Group> groups_of(OpCall& call, const Heads& h) {
  if (call.has(4)) return varlen_groups(call, h);
  std::vector<Group> groups;
  for (std::int64_t b = 0; b < h.batch; ++b)
    groups.push_back({b, b * h.queries, h.queries, b * h.keys, h.keys});
  return groups;
}

void softmax_row(double* row, std::int64_t n) {
  double max = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::int64_t i = 0; i < n; ++i) max = std::max(max, row[i]);
  for (std::int64_t i = 0; i < n; ++i) sum += row[i] = std::exp(row[i] - max);
  for (std::int64_t i = 0; i < n; ++i) row[i] /= sum;
}

// The offset of the element at `index` in a tensor that is broadcast to four axes.
std::int64_t broadcast_offset(const Shape& shape, const std::array<std::int64_t, 4>& index) {
  std::int64_t offset = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto i = static_cast<std::size_t>(4 - shape.rank() + axis);
    offset = offset * shape[axis] + (shape[axis] == 1 ? 0 : index[i]);
  }
  return offset;
}

// The attention weights of one head: scaled QK^T, mask, softmax.
void score(OpCall& call, const Heads& h, const Group& g, std::int64_t head, const Tensor& mask,
           const Tensor& scores) {
  double* const s = doubles(scores);
  const double* const q = doubles(h.q) + g.query * h.step_q + head * h.size;
  const double* const k = doubles(h.k) + g.key * h.step_k + h.at_k + head * h.size;
  kernels::matmul<double>(call.workers, g.queries, g.keys, h.size, {q, h.step_q, 1},
                          {k, 1, h.step_k}, s, g.keys);
  const double scale = static_cast<double>(call.attributes().real("scale", 1));
  for (std::int64_t i = 0; i < g.queries * g.keys; ++i) s[i] *= scale;
  if (mask)
    for (std::int64_t i = 0; i < g.queries * g.keys; ++i) {
      const double bias =
          doubles(mask)[broadcast_offset(mask.shape(), {g.entry, head, i / g.keys, i % g.keys})];
      // Rounded as the Add of the model: a mask of -1e9 in f32 absorbs small scores.
      s[i] = static_cast<double>(static_cast<float>(s[i] + bias));
    }
  for (std::int64_t i = 0; i < g.queries; ++i) softmax_row(s + i * g.keys, g.keys);
}

void attention(OpCall& call) {
  Heads h(call);
  Tensor mask = fused_input(call, 3);
  const Shape all{h.batch, h.heads, h.queries, h.keys};
  require(!mask || broadcast(mask.shape(), all) == all,
          "mask of shape " + to_string(mask.shape()) + " for scores of " + to_string(all));
  const std::int64_t width = h.heads * h.size;
  checked_size(Shape{h.queries, h.keys}.dims());
  const DoubleResult result(call, {h.batch, h.queries, width});
  const std::vector<Group> groups = groups_of(call, h);
  std::int64_t largest = 0;
  for (const Group& g : groups) largest = std::max(largest, g.queries * g.keys);
  const Tensor &y = result.y, scores(DType::f64, {largest});
  std::fill_n(doubles(y), y.size(), 0.0);
  h.widen_all();
  widen(mask);
  for (const Group& g : groups)
    for (std::int64_t head = 0; head < h.heads; ++head) {
      score(call, h, g, head, mask, scores);
      const double* const v = doubles(h.v) + g.key * h.step_v + h.at_v + head * h.size;
      kernels::matmul<double>(call.workers, g.queries, h.size, g.keys, {doubles(scores), g.keys, 1},
                              {v, h.step_v, 1}, doubles(y) + g.query * width + head * h.size,
                              width);
    }
  result.store();
}

void pad_tokens(OpCall& call) {
  const Tensor &x = call.input(0), &token_index = call.input(1);
  require(x.rank() >= 2 && x.shape()[0] == 1 && token_index.rank() == 2,
          "tokens of shape " + to_string(x.shape()) + " for token indices of shape " +
              to_string(token_index.shape()));
  Shape shape = x.shape();
  shape[0] = token_index.shape()[0];
  shape[1] = token_index.shape()[1];
  checked_size(shape.dims());
  const Tensor out = call.output(0, x.dtype(), shape);
  const std::int64_t tokens = x.shape()[1];
  const std::size_t row = byte_size(x.shape().dims().subspan(2), x.dtype());
  const std::vector<std::int64_t> from = call.integers(1);
  call.workers.each(from.size(), 64, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      std::byte* const to = static_cast<std::byte*>(out.data()) + i * row;
      const bool is = from[i] >= 0 && from[i] < tokens;
      const auto token = static_cast<std::size_t>(is ? from[i] : 0);
      if (is)
        std::memcpy(to, static_cast<const std::byte*>(x.data()) + token * row, row);
      else
        std::memset(to, 0, row);
    }
  });
}

// One vector of n elements from `tokens` rows at `x`, in double.
void pool_row(kernels::TokenPooling pooling, const double* x, std::int64_t tokens, std::int64_t n,
              double* out) {
  using kernels::TokenPooling;
  const bool one = pooling == TokenPooling::first || pooling == TokenPooling::last;
  const std::int64_t begin = pooling == TokenPooling::last ? tokens - 1 : 0;
  const std::int64_t end = one ? begin + 1 : tokens;
  for (std::int64_t token = begin; token < end; ++token)
    for (std::int64_t i = 0; i < n; ++i) out[i] += x[token * n + i];
  if (pooling != TokenPooling::mean) return;
  for (std::int64_t i = 0; i < n; ++i) out[i] /= static_cast<double>(tokens);
}

void pool_tokens(OpCall& call) {
  Tensor x = fused_input(call, 0);
  const Tensor& cu_seqlens = call.input(1);
  require(x.rank() == 3 && x.shape()[0] == 1 && cu_seqlens.rank() == 1 && cu_seqlens.size() > 0,
          "tokens of shape " + to_string(x.shape()) + " for sequences of shape " +
              to_string(cu_seqlens.shape()));
  const kernels::TokenPooling pooling = token_pooling_of(call.attributes());
  const std::int64_t sequences = cu_seqlens.size() - 1, tokens = x.shape()[1], n = x.shape()[2];
  const DoubleResult result(call, {sequences, n});
  const std::vector<std::int64_t> bounds = call.integers(1);
  double* const y = doubles(result.y);
  std::fill_n(y, result.y.size(), 0.0);
  widen(x);
  for (std::int64_t s = 0; s < sequences; ++s) {
    const auto at = static_cast<std::size_t>(s);
    const std::int64_t begin = bounds[at], end = bounds[at + 1];
    require(begin >= 0 && begin <= end && end <= tokens, "sequence bounds that do not increase");
    if (begin == end) continue;
    double* const row = y + s * n;
    pool_row(pooling, doubles(x) + begin * n, end - begin, n, row);
    if (!call.attributes().flag("normalize")) continue;
    const double norm = std::sqrt(std::inner_product(row, row + n, row, 0.0));
    for (std::int64_t i = 0; i < n; ++i) row[i] /= std::max(norm, 1e-12);
  }
  result.store();
}

constexpr Op kFusedAttentionOps[] = {
    {"Attention", 1, kReals, attention, "sluice"},
    {"PadTokens", 1, kNumbers | Types{DType::boolean}, pad_tokens, "sluice"},
    {"PoolTokens", 1, kReals, pool_tokens, "sluice"},
};

}  // namespace

std::span<const Op> fused_attention_ops() { return kFusedAttentionOps; }

}  // namespace sluice::engine
