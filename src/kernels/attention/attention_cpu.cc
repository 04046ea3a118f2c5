// Queries lie side by side in vectors: scores as [keys][queries], results as [size][queries].
// So softmax needs no sums across lanes, keys and values are read as they lie, and heads may
// have any size. Compiled for each instruction set that Highway knows; picked at run time.
#include "kernels/attention/attention_cpu.h"

#include <algorithm>
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

// Four vectors by six rows: few loads for each multiply-add, in the 32 registers of AVX-512.
constexpr std::size_t kMostVectors = kLanes == 16 ? 4 : 2;
constexpr std::size_t kRows = 6;
constexpr std::size_t kKeysAtOnce = 64;  // so many rows of scores stay in the L1 cache

constexpr std::size_t rounded(std::size_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// The task's scratch memory: keys and values [keys][size], and what a block of queries needs.
struct Packed {
  float *k, *v, *rest;

  explicit Packed(const AttentionTask& task)
      : k(task.scratch),
        v(k + rounded(task.keys * task.size)),
        rest(v + rounded(task.keys * task.size)) {}
};

std::size_t queries_of_a_block() { return kMostVectors * kLanes; }

std::size_t scratch_floats(std::size_t keys, std::size_t size) {
  return (2 * size + keys) * kMostVectors * kLanes + 2 * rounded(keys * size);
}

template <std::size_t N>
using Upto = std::make_index_sequence<N>;

// A matrix as it is turned: to[c][r] = from[r][c] * by[c * by_step].
struct Turn {
  const float* from;
  std::size_t row;
  const float* by;  // four floats at least
  std::size_t by_step;
  float* to;
  std::size_t to_row;
};

#if HWY_TARGET != HWY_SCALAR
// Four elements each of rows four apart, every row in a block of its own.
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

// A vector of rows, four columns: blocks of four by four are turned, all at once.
HWY_INLINE void turn_block(const Turn& t, std::size_t r, std::size_t c) {
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
HWY_INLINE void turn_block(const Turn& t, std::size_t r, std::size_t c) {
  for (std::size_t i = c; i < c + 4; ++i)
    t.to[i * t.to_row + r] = t.from[r * t.row + i] * t.by[i * t.by_step];
}
#endif

// Rows [r, to_r), column by column where they are not a vector.
HWY_INLINE void turn_part(const Turn& t, std::size_t r, std::size_t to_r, std::size_t c,
                          std::size_t to_c) {
  if (r + kLanes == to_r && c + 4 == to_c) return turn_block(t, r, c);
  for (std::size_t i = r; i < to_r; ++i)
    for (std::size_t k = c; k < to_c; ++k)
      t.to[k * t.to_row + i] = t.from[i * t.row + k] * t.by[k * t.by_step];
}

// The matrix whose rows are far apart is gone through row by row.
HWY_INLINE void turn(const Turn& t, std::size_t rows, std::size_t columns) {
  if (t.row > t.to_row)
    for (std::size_t r = 0; r < rows; r += kLanes)
      for (std::size_t c = 0; c < columns; c += 4)
        turn_part(t, r, std::min(r + kLanes, rows), c, std::min(c + 4, columns));
  else
    for (std::size_t c = 0; c < columns; c += 4)
      for (std::size_t r = 0; r < rows; r += kLanes)
        turn_part(t, r, std::min(r + kLanes, rows), c, std::min(c + 4, columns));
}

// sums = begin + a * b
struct Product {
  const float* a;  // single numbers
  std::size_t a_row, a_step;
  const float* b;      // [count][kVectors]
  std::size_t count;   // of steps in a and rows of b
  const float* begin;  // null: with what `sums` holds; otherwise numbers for whole rows
  std::size_t begin_step;
  float* sums;  // [rows][kVectors]
};

// What is indexed by constants only stays in registers.
template <std::size_t kVectors, std::size_t... I>
HWY_INLINE void begin_sums(const Product& p, std::size_t row, V* HWY_RESTRICT sum,
                           std::index_sequence<I...>) {
  if (p.begin == nullptr)
    ((sum[I] = hn::Load(kFloats, p.sums + row * kVectors * kLanes + I * kLanes)), ...);
  else
    ((sum[I] = hn::Set(kFloats, p.begin[(row + I / kVectors) * p.begin_step])), ...);
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

// Limit: two multiply-adds a cycle; the sums stay in registers.
template <std::size_t kHigh, std::size_t kVectors>
HWY_INLINE void multiply_tile(const Product& p, std::size_t row) {
  constexpr std::size_t kWidth = kVectors * kLanes;
  V sum[kHigh * kVectors];
  begin_sums<kVectors>(p, row, sum, Upto<kHigh * kVectors>());
  const float* a = p.a + row * p.a_row;
  const float* b = p.b;
  for (std::size_t k = 0; k < p.count; ++k, a += p.a_step, b += kWidth)
    multiply_step<kVectors>(a, p.a_row, b, sum, Upto<kHigh>(), Upto<kVectors>());
  store_sums(sum, p.sums + row * kWidth, Upto<kHigh * kVectors>());
}

template <std::size_t kVectors>
HWY_INLINE void multiply(const Product& p, std::size_t rows) {
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

// Rows side by side: as they lie, far apart, they would push each other out of the cache.
HWY_INLINE void pack(const float* from, std::size_t row, std::size_t rows, std::size_t size,
                     float* to) {
  for (std::size_t i = 0; i < rows; ++i, from += row, to += size)
    for (std::size_t c = 0; c < size; c += kLanes) {
      const std::size_t some = std::min(kLanes, size - c);
      store(load(from + c, some), to + c, some);
    }
}

// One block of queries, from `first` on, in kVectors vectors.
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
    turn({t_.q + first_ * t_.q_row, t_.q_row, scale, 0, q_, kWidth}, queries_, t_.size);
    score();
    mix();
    turn({out_, kWidth, by_, 1, t_.out + first_ * t_.out_row, t_.out_row}, t_.size, queries_);
  }

 private:
  // Rows of scores begin with the mask, which is one number for each where all queries have
  // the same.
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
      return turn({mask, t_.mask_query, ones, 0, scores_, kWidth}, queries_, t_.keys);
    for (std::size_t k = 0; k < t_.keys; ++k)
      for (std::size_t q = 0; q < queries_; ++q)
        scores_[k * kWidth + q] = mask[q * t_.mask_query + k * t_.mask_key];
  }

  HWY_INLINE void find_most() {
    for (std::size_t c = 0; c < kWidth; c += kLanes) {
      V most = hn::Set(kFloats, -std::numeric_limits<float>::infinity()), most2 = most;
      const float *at = scores_ + c, *end = at + t_.keys / 2 * 2 * kWidth;
      for (; at != end; at += 2 * kWidth) {
        most = hn::Max(most, hn::Load(kFloats, at));
        most2 = hn::Max(most2, hn::Load(kFloats, at + kWidth));
      }
      if (t_.keys % 2 != 0) most = hn::Max(most, hn::Load(kFloats, at));
      hn::Store(hn::Max(most, most2), kFloats, most_ + c);
      hn::Store(hn::Zero(kFloats), kFloats, by_ + c);
    }
  }

  // Rows of scores become their powers, which are added to by_.
  HWY_INLINE void soften(float* scores, std::size_t keys) {
    for (std::size_t c = 0; c < kWidth; c += kLanes) {
      const V most = hn::Load(kFloats, most_ + c);
      V sum = hn::Load(kFloats, by_ + c);
      for (float *at = scores + c, *end = at + keys * kWidth; at != end; at += kWidth) {
        const V power = Exp(kFloats, hn::Sub(hn::Load(kFloats, at), most));
        hn::Store(power, kFloats, at);
        sum = hn::Add(sum, power);
      }
      hn::Store(sum, kFloats, by_ + c);
    }
  }

  // Softmax and the values' sums, a few keys after the other.
  HWY_INLINE void mix() {
    find_most();
    const float none = 0;
    for (std::size_t k = 0; k < t_.keys; k += kKeysAtOnce) {
      const std::size_t keys = std::min(kKeysAtOnce, t_.keys - k);
      soften(scores_ + k * kWidth, keys);
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
    for (float& sum : by_) sum = 1 / sum;
  }

  const AttentionTask& t_;
  const Packed& packed_;
  std::size_t first_, queries_;
  float *q_, *out_, *scores_;     // [size], [size] and [keys] rows of kWidth
  HWY_ALIGN float most_[kWidth];  // of a query's scores
  HWY_ALIGN float by_[std::max<std::size_t>(kWidth, 4)]{};  // 1 / the sum of their powers
};

void attend_task(const AttentionTask& task) {
  const Packed packed(task);
  pack(task.k, task.k_row, task.keys, task.size, packed.k);
  pack(task.v, task.v_row, task.keys, task.size, packed.v);
  for (std::size_t first = 0; first < task.queries; first += kMostVectors * kLanes) {
    const std::size_t left = task.queries - first;
    if (left <= kLanes)
      Block<1>(task, packed, first).run();
    else if (left <= 2 * kLanes)
      Block<2>(task, packed, first).run();
    else
      Block<kMostVectors>(task, packed, first).run();
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
