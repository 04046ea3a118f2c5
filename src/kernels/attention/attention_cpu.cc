// The SIMD vectors run along the queries: scores are [keys][queries], outputs [head size][queries].
// So softmax needs no sums across lanes, keys and values are read without a transpose, and heads
// may have any size. Compiled for several instruction sets; dispatched at run time.
#include "kernels/attention/attention_cpu.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/common/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/common/math-inl.h"
#include "kernels/common/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::cpu::HWY_NAMESPACE {

// A register tile of six rows by four vectors: few loads for each FMA, in the 32 registers of
// AVX-512.
constexpr std::size_t kMaxVectors = kLanes == 16 ? 4 : 2;
constexpr std::size_t kRows = 6;
constexpr std::size_t kKeysAtOnce = 64;  // their scores stay in the L1 cache

constexpr std::size_t rounded(std::size_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// The scratch memory of a task: packed keys and values [keys][size], then the buffers of a block.
struct Packed {
  float *k, *v, *rest;

  explicit Packed(const AttentionTask& task)
      : k(task.scratch),
        v(k + rounded(task.keys * task.size)),
        rest(v + rounded(task.keys * task.size)) {}
};

std::size_t queries_of_a_block() { return kMaxVectors * kLanes; }

std::size_t scratch_floats(std::size_t keys, std::size_t size) {
  return (2 * size + keys) * kMaxVectors * kLanes + 2 * rounded(keys * size);
}

template <std::size_t N>
using Upto = std::make_index_sequence<N>;

// A scaled transpose: to[c][r] = from[r][c] * by[c * by_step].
struct Transpose {
  const float* from;
  std::size_t row;
  const float* by;  // at least four floats
  std::size_t by_step;
  float* to;
  std::size_t to_row;
};

#if HWY_TARGET != HWY_SCALAR
// Loads four elements of each of several rows, four rows apart, each to its own 128-bit block.
template <class Blocks>
HWY_INLINE hn::Vec<Blocks> load_blocks(Blocks d, const float* from, std::size_t row) {
  if constexpr (hn::MaxLanes(d) == 4) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<Blocks> half;
    return hn::Combine(d, load_blocks(half, from + hn::MaxLanes(half) * row, row),
                       load_blocks(half, from, row));
  }
}

// Transposes a vector of rows by four columns, as 4 x 4 blocks.
HWY_INLINE void transpose_block(const Transpose& t, std::size_t r, std::size_t c) {
  const hn::Repartition<double, D> pairs;
  const V by = hn::LoadDup128(kFloats, t.by + c * t.by_step);
  const float* const from = t.from + r * t.row + c;
  const V w = hn::Mul(by, load_blocks(kFloats, from, t.row));
  const V x = hn::Mul(by, load_blocks(kFloats, from + t.row, t.row));
  const V y = hn::Mul(by, load_blocks(kFloats, from + 2 * t.row, t.row));
  const V z = hn::Mul(by, load_blocks(kFloats, from + 3 * t.row, t.row));
  const auto low = hn::BitCast(pairs, hn::InterleaveLower(kFloats, w, x));
  const auto low2 = hn::BitCast(pairs, hn::InterleaveLower(kFloats, y, z));
  const auto high = hn::BitCast(pairs, hn::InterleaveUpper(kFloats, w, x));
  const auto high2 = hn::BitCast(pairs, hn::InterleaveUpper(kFloats, y, z));
  float* const to = t.to + c * t.to_row + r;
  const auto store = [&](std::size_t i, auto four) HWY_ATTR {
    hn::StoreU(hn::BitCast(kFloats, four), kFloats, to + i * t.to_row);
  };
  store(0, hn::InterleaveLower(pairs, low, low2));
  store(1, hn::InterleaveUpper(pairs, low, low2));
  store(2, hn::InterleaveLower(pairs, high, high2));
  store(3, hn::InterleaveUpper(pairs, high, high2));
}
#else
HWY_INLINE void transpose_block(const Transpose& t, std::size_t r, std::size_t c) {
  for (std::size_t i = c; i < c + 4; ++i)
    t.to[i * t.to_row + r] = t.from[r * t.row + i] * t.by[i * t.by_step];
}
#endif

// Rows [r, to_r) and columns [c, to_c); element by element at the edges.
HWY_INLINE void transpose_tile(const Transpose& t, std::size_t r, std::size_t to_r, std::size_t c,
                               std::size_t to_c) {
  if (r + kLanes == to_r && c + 4 == to_c) return transpose_block(t, r, c);
  for (std::size_t i = r; i < to_r; ++i)
    for (std::size_t k = c; k < to_c; ++k)
      t.to[k * t.to_row + i] = t.from[i * t.row + k] * t.by[k * t.by_step];
}

// The loops go row by row through the matrix whose rows are farther apart.
HWY_INLINE void transpose(const Transpose& t, std::size_t rows, std::size_t columns) {
  if (t.row > t.to_row)
    for (std::size_t r = 0; r < rows; r += kLanes)
      for (std::size_t c = 0; c < columns; c += 4)
        transpose_tile(t, r, std::min(r + kLanes, rows), c, std::min(c + 4, columns));
  else
    for (std::size_t c = 0; c < columns; c += 4)
      for (std::size_t r = 0; r < rows; r += kLanes)
        transpose_tile(t, r, std::min(r + kLanes, rows), c, std::min(c + 4, columns));
}

// sums = a * b + begin, in this order: where a mask is much larger than the scores, the sum must be
// that of the rounded score and the mask.
struct TileGemm {
  const float* a;  // broadcast to vectors
  std::size_t a_row, a_step;
  const float* b;      // [count][kVectors]
  std::size_t count;   // k: steps in a, rows of b
  const float* begin;  // added to each row; null: `sums` is accumulated to
  std::size_t begin_step;
  float* sums;  // [rows][kVectors]
};

// Constant indices keep the accumulators in registers.
template <std::size_t kVectors, std::size_t... I>
HWY_INLINE void add_begin(const TileGemm& p, std::size_t row, V* HWY_RESTRICT sum,
                          std::index_sequence<I...>) {
  if (p.begin == nullptr)
    ((sum[I] = hn::Add(sum[I], hn::Load(kFloats, p.sums + row * kVectors * kLanes + I * kLanes))),
     ...);
  else
    ((sum[I] = hn::Add(sum[I], hn::Set(kFloats, p.begin[(row + I / kVectors) * p.begin_step]))),
     ...);
}

template <std::size_t... I>
HWY_INLINE void clear_sums(V* HWY_RESTRICT sum, std::index_sequence<I...>) {
  ((sum[I] = hn::Zero(kFloats)), ...);
}

template <std::size_t... C>
HWY_INLINE void multiply_row(float a, const V* HWY_RESTRICT b, V* HWY_RESTRICT sum,
                             std::index_sequence<C...>) {
  const V one = hn::Set(kFloats, a);
  ((sum[C] = hn::MulAdd(one, b[C], sum[C])), ...);
}

template <std::size_t kVectors, std::size_t... R, std::size_t... C>
HWY_INLINE void multiply_step(const float* a, std::size_t a_row, const float* b,
                              V* HWY_RESTRICT sum, std::index_sequence<R...>,
                              std::index_sequence<C...> columns) {
  const V values[] = {hn::Load(kFloats, b + C * kLanes)...};
  (multiply_row(a[R * a_row], values, sum + R * kVectors, columns), ...);
}

template <std::size_t... I>
HWY_INLINE void store_sums(const V* HWY_RESTRICT sum, float* to, std::index_sequence<I...>) {
  (hn::Store(sum[I], kFloats, to + I * kLanes), ...);
}

// Limit: two FMAs a cycle; the accumulators stay in registers.
template <std::size_t kTileRows, std::size_t kVectors>
HWY_INLINE void multiply_tile(const TileGemm& p, std::size_t row) {
  constexpr std::size_t kWidth = kVectors * kLanes;
  V sum[kTileRows * kVectors];
  clear_sums(sum, Upto<kTileRows * kVectors>());
  const float* a = p.a + row * p.a_row;
  const float* b = p.b;
  for (std::size_t k = 0; k < p.count; ++k, a += p.a_step, b += kWidth)
    multiply_step<kVectors>(a, p.a_row, b, sum, Upto<kTileRows>(), Upto<kVectors>());
  add_begin<kVectors>(p, row, sum, Upto<kTileRows * kVectors>());
  store_sums(sum, p.sums + row * kWidth, Upto<kTileRows * kVectors>());
}

template <std::size_t kVectors>
HWY_INLINE void multiply(const TileGemm& p, std::size_t rows) {
  std::size_t row = 0;
  for (; row + kRows <= rows; row += kRows) multiply_tile<kRows, kVectors>(p, row);
  if (row + 4 <= rows) {
    multiply_tile<4, kVectors>(p, row);
    row += 4;
  }
  if (row + 2 <= rows) {
    multiply_tile<2, kVectors>(p, row);
    row += 2;
  }
  if (row < rows) multiply_tile<1, kVectors>(p, row);
}

// Packs rows next to each other: with their large stride they would evict each other from the
// cache.
HWY_INLINE void pack(const float* from, std::size_t row, std::size_t rows, std::size_t size,
                     float* to) {
  for (std::size_t i = 0; i < rows; ++i, from += row, to += size)
    for (std::size_t c = 0; c < size; c += kLanes) {
      const std::size_t count = std::min<std::size_t>(kLanes, size - c);
      store(load(from + c, count), to + c, count);
    }
}

// A block of queries from `first` on, kVectors vectors of them.
template <std::size_t kVectors>
class Block {
 public:
  static constexpr std::size_t kWidth = kVectors * kLanes;

  Block(const AttentionTask& task, const Packed& packed, std::size_t first)
      : t_(task),
        packed_(packed),
        first_(first),
        queries_(std::min(kWidth, task.queries - first)),
        q_(packed.rest),
        out_(q_ + task.size * kWidth),
        scores_(out_ + task.size * kWidth) {}

  HWY_INLINE void run() {
    const float scale[] = {t_.scale, t_.scale, t_.scale, t_.scale};
    if (queries_ < kWidth) std::fill(q_, q_ + t_.size * kWidth, 0.0f);
    transpose({t_.q + first_ * t_.q_row, t_.q_row, scale, 0, q_, kWidth}, queries_, t_.size);
    score();
    accumulate_values();
    transpose({out_, kWidth, by_, 1, t_.out + first_ * t_.out_row, t_.out_row}, t_.size, queries_);
  }

 private:
  // The mask is added to the scores: one value for each row where all queries share it.
  HWY_INLINE void score() {
    const float none = 0;
    const bool same = t_.mask == nullptr || t_.mask_query == 0;
    if (!same) write_mask(t_.mask + first_ * t_.mask_query);
    multiply<kVectors>({.a = packed_.k,
                        .a_row = t_.size,
                        .a_step = 1,
                        .b = q_,
                        .count = t_.size,
                        .begin = !same                ? nullptr
                                 : t_.mask != nullptr ? t_.mask
                                                      : &none,
                        .begin_step = t_.mask != nullptr ? t_.mask_key : 0,
                        .sums = scores_},
                       t_.keys);
  }

  HWY_INLINE void write_mask(const float* mask) {
    if (queries_ < kWidth) std::fill(scores_, scores_ + t_.keys * kWidth, 0.0f);
    const float ones[] = {1, 1, 1, 1};
    if (t_.mask_key == 1)
      return transpose({mask, t_.mask_query, ones, 0, scores_, kWidth}, queries_, t_.keys);
    for (std::size_t k = 0; k < t_.keys; ++k)
      for (std::size_t q = 0; q < queries_; ++q)
        scores_[k * kWidth + q] = mask[q * t_.mask_query + k * t_.mask_key];
  }

  HWY_INLINE void find_max() {
    for (std::size_t c = 0; c < kWidth; c += kLanes) {
      V max = hn::Set(kFloats, -std::numeric_limits<float>::infinity()), max2 = max;
      const float *at = scores_ + c, *end = at + t_.keys / 2 * 2 * kWidth;
      for (; at != end; at += 2 * kWidth) {
        max = hn::Max(max, hn::Load(kFloats, at));
        max2 = hn::Max(max2, hn::Load(kFloats, at + kWidth));
      }
      if (t_.keys % 2 != 0) max = hn::Max(max, hn::Load(kFloats, at));
      hn::Store(hn::Max(max, max2), kFloats, max_ + c);
      hn::Store(hn::Zero(kFloats), kFloats, by_ + c);
    }
  }

  // Replaces scores by exp(score - max) and adds them to by_.
  HWY_INLINE void exponentiate(float* scores, std::size_t keys) {
    for (std::size_t c = 0; c < kWidth; c += kLanes) {
      const V max = hn::Load(kFloats, max_ + c);
      V sum = hn::Load(kFloats, by_ + c);
      for (float *at = scores + c, *end = at + keys * kWidth; at != end; at += kWidth) {
        const V power = Exp(kFloats, hn::Sub(hn::Load(kFloats, at), max));
        hn::Store(power, kFloats, at);
        sum = hn::Add(sum, power);
      }
      hn::Store(sum, kFloats, by_ + c);
    }
  }

  // Softmax and the weighted sum of the values, kKeysAtOnce keys at a time.
  HWY_INLINE void accumulate_values() {
    find_max();
    const float none = 0;
    for (std::size_t k = 0; k < t_.keys; k += kKeysAtOnce) {
      const std::size_t keys = std::min(kKeysAtOnce, t_.keys - k);
      exponentiate(scores_ + k * kWidth, keys);
      multiply<kVectors>({.a = packed_.v + k * t_.size,
                          .a_row = 1,
                          .a_step = t_.size,
                          .b = scores_ + k * kWidth,
                          .count = keys,
                          .begin = k == 0 ? &none : nullptr,
                          .begin_step = 0,
                          .sums = out_},
                         t_.size);
    }
    if (t_.lse != nullptr)
      for (std::size_t q = 0; q < queries_; ++q)
        t_.lse[(first_ + q) * t_.lse_row] = max_[q] + std::log(by_[q]);
    for (float& sum : by_) sum = 1 / sum;
  }

  const AttentionTask& t_;
  const Packed& packed_;
  std::size_t first_, queries_;
  float *q_, *out_, *scores_;    // [size], [size] and [keys] rows of kWidth
  HWY_ALIGN float max_[kWidth];  // the maximum score of each query
  HWY_ALIGN float by_[std::max<std::size_t>(kWidth, 4)]{};  // 1 / the softmax denominator
};

void attend_task(const AttentionTask& task) {
  const Packed packed(task);
  pack(task.k, task.k_row, task.keys, task.size, packed.k);
  pack(task.v, task.v_row, task.keys, task.size, packed.v);
  for (std::size_t first = 0; first < task.queries; first += kMaxVectors * kLanes) {
    const std::size_t left = task.queries - first;
    if (left <= kLanes)
      Block<1>(task, packed, first).run();
    else if (left <= 2 * kLanes)
      Block<2>(task, packed, first).run();
    else
      Block<kMaxVectors>(task, packed, first).run();
  }
}

}  // namespace sluice::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::kernels::cpu {

HWY_EXPORT(queries_of_a_block);
HWY_EXPORT(scratch_floats);
HWY_EXPORT(attend_task);

std::size_t attention_queries() { return HWY_DYNAMIC_DISPATCH(queries_of_a_block)(); }
std::size_t attention_scratch(std::size_t keys, std::size_t size) {
  return HWY_DYNAMIC_DISPATCH(scratch_floats)(keys, size);
}
void attend(const AttentionTask& task) { HWY_DYNAMIC_DISPATCH(attend_task)(task); }

}  // namespace sluice::kernels::cpu
#endif
