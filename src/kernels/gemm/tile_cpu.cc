// Compiled for several instruction sets; dispatched at run time.
#include "kernels/gemm/tile_cpu.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/common/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/tile_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/common/math-inl.h"
#include "kernels/gemm/panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::cpu::HWY_NAMESPACE {
namespace {

// On one core (Ice Lake, 2.8 GHz) the GEMMs of ResNet-50 reach 75 to 95 % of the FMA peak, which is
// 178 GFLOP/s with AVX-512 and 108 with AVX2; less where weights come from memory.
static_assert(kRows <= kMaxTileRows && kColumns <= kMaxTileColumns);

// The next panel is prefetched during this one, some cache lines every few steps: otherwise loading
// weights from memory would take as long as the GEMM of 50 rows.
constexpr int kLine = 64 / sizeof(float);
// Unrolled steps along k. With short vectors loop overhead would otherwise take a twelfth of the
// time.
constexpr int kSteps = kLanes == 16 ? 4 : 8;
constexpr std::int64_t kMaxLines = kSteps;

// The accumulators of a tile. Constant indices keep them in registers.
template <int kHigh, int kWide>
struct Accumulators {
  V at[kHigh * kWide];
};

// The operands of a tile.
struct TileOperands {
  const float* const* rows;
  const float* const* next_rows;  // rows to prefetch: of the next tile, or the same
  const float* b;
  const float* ahead;  // the part of the next panel that this tile prefetches
  int lines;           // cache lines of it every kSteps
  float* c;
  const float *bias, *residual, *last;

  // The residual is added last if possible, so that its loads have the longest time.
  bool adds_residual_first(const TileBlock& block) const {
    return residual != nullptr && !block.ends;
  }
  bool adds_residual_last(const TileBlock& block) const {
    return residual != nullptr && block.begins && block.ends;
  }
};

template <int kHigh, int kWide, int... I>
HWY_INLINE void add_rows(Accumulators<kHigh, kWide>& sums, const float* from, std::int64_t from_row,
                         std::integer_sequence<int, I...>) {
  ((sums.at[I] =
        hn::Add(sums.at[I], hn::LoadU(D(), from + I / kWide * from_row + I % kWide * kLanes))),
   ...);
}

template <int kHigh, int kWide, int... I>
HWY_INLINE void begin(Accumulators<kHigh, kWide>& sums, const TileBlock& block,
                      const TileOperands& at, std::integer_sequence<int, I...> all) {
  const D d;
  if (!block.begins) {
    ((sums.at[I] = hn::LoadU(d, at.c + I / kWide * block.c_row + I % kWide * kLanes)), ...);
    return;
  }
  ((sums.at[I] = hn::LoadU(d, at.bias + I % kWide * kLanes)), ...);
  if (at.adds_residual_first(block)) add_rows(sums, at.residual, block.c_row, all);
}

template <int kWide, int... W>
HWY_INLINE void multiply_row(V* HWY_RESTRICT sums, const V* HWY_RESTRICT b, float value,
                             std::integer_sequence<int, W...>) {
  const V a = hn::Set(D(), value);
  ((sums[W] = hn::MulAdd(a, b[W], sums[W])), ...);
}

// One value of each row times one row of the panel.
template <int kWide, int... R, int... W>
HWY_INLINE void step(Accumulators<sizeof...(R), kWide>& sums, const float* const (&a)[sizeof...(R)],
                     std::int64_t k, const float* HWY_RESTRICT b, std::integer_sequence<int, R...>,
                     std::integer_sequence<int, W...> wide) {
  const V columns[] = {hn::LoadU(D(), b + W * kLanes)...};
  (multiply_row<kWide>(sums.at + R * kWide, columns, a[R][k], wide), ...);
}

template <int kWide, int... R, int... S>
HWY_INLINE void steps(Accumulators<sizeof...(R), kWide>& sums,
                      const float* const (&a)[sizeof...(R)], std::int64_t k,
                      const float* HWY_RESTRICT b, std::integer_sequence<int, R...> high,
                      std::integer_sequence<int, S...>) {
  (step(sums, a, k + S, b + S * kColumns, high, Upto<kWide>()), ...);
}

template <int kWide, int... R>
HWY_INLINE void prefetch_residual(const float* from, std::int64_t row,
                                  std::integer_sequence<int, R...>) {
  (__builtin_prefetch(from + R * row), ...);
  if constexpr (kWide * kLanes > kLine) (__builtin_prefetch(from + R * row + kLine), ...);
}

// Prefetches the next rows of a, which pays with AVX-512. Four calls, four values apart, cover all
// rows: as often as a new cache line of them begins.
template <int kHigh>
HWY_INLINE void prefetch_rows(const float* const* rows, std::int64_t k) {
  const std::int64_t time = k / 4 % 4;
  __builtin_prefetch(rows[kHigh >= 4 ? time : std::min<std::int64_t>(time, kHigh - 1)] + k);
  if constexpr (kHigh > 4) __builtin_prefetch(rows[4 + (kHigh > 5 ? time % 2 : 0)] + k);
}

// Limit: two FMAs a cycle.
template <int kWide, int... R>
HWY_INLINE void multiply_accumulate(Accumulators<sizeof...(R), kWide>& sums, const TileBlock& block,
                                    const TileOperands& at, std::integer_sequence<int, R...> high) {
  const float *const *rows = at.rows, *const *next = at.next_rows;
  const float* HWY_RESTRICT b = at.b;
  const float* ahead = at.ahead;
  for (std::int64_t s = 0; s < block.segments; ++s, rows += block.count, next += block.count) {
    const float* const a[] = {rows[R] + block.offset...};
    std::int64_t k = 0;
    for (; k + kSteps <= block.depth; k += kSteps, b += kSteps * kColumns) {
      for (int line = 0; line < at.lines; ++line, ahead += kLine) __builtin_prefetch(ahead, 0, 2);
      if constexpr (kLanes == 16) prefetch_rows<sizeof...(R)>(next, block.offset + k);
      steps(sums, a, k, b, high, Upto<kSteps>());
    }
    if constexpr (kSteps > 4) {
      if (k + 4 <= block.depth) {
        steps(sums, a, k, b, high, Upto<4>());
        k += 4, b += 4 * kColumns;
      }
    }
    for (; k < block.depth; ++k, b += kColumns) steps(sums, a, k, b, high, Upto<1>());
  }
}

// The part of the epilogue that is applied in registers; bounds are infinite where there are none.
struct Clamp {
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
  bool has_epilogue = false;  // the rest is applied after the store

  explicit Clamp(const TileBlock& block) {
    if (!block.ends) return;
    has_epilogue = block.last != nullptr;
    switch (block.activation.activation) {
      case Activation::none: break;
      case Activation::relu: low = 0; break;
      case Activation::clip: low = block.activation.low, high = block.activation.high; break;
      default: has_epilogue = true;
    }
  }
};

template <int kHigh, int kWide, int... I>
HWY_INLINE void store(const Accumulators<kHigh, kWide>& sums, const TileBlock& block,
                      const Clamp& clamp, float* c, std::integer_sequence<int, I...>) {
  const D d;
  const V low = hn::Set(d, clamp.low), high = hn::Set(d, clamp.high);
  (hn::StoreU(hn::Min(high, hn::Max(low, sums.at[I])), d,
              c + I / kWide * block.c_row + I % kWide * kLanes),
   ...);
}

// Applies the rest of the epilogue while the tile is in the L1 cache.
template <int kWide>
HWY_NOINLINE void epilogue_rows(const TileBlock& block, int rows, float* c, const float* last) {
  const D d;
  for (int r = 0; r < rows; ++r, c += block.c_row) {
    for (int i = 0; i < kWide * kLanes; i += kLanes) {
      V x = Activate(d, block.activation, hn::LoadU(d, c + i));
      if (last != nullptr) x = hn::Add(x, hn::LoadU(d, last + i));
      hn::StoreU(x, d, c + i);
    }
    if (last != nullptr) last += block.c_row;
  }
}

template <int kHigh, int kWide>
HWY_NOINLINE void tile(const TileBlock& block, const Clamp& clamp, const TileOperands& at) {
  const Upto<kHigh * kWide> all;
  Accumulators<kHigh, kWide> sums;
  begin(sums, block, at, all);
  if (at.adds_residual_last(block))
    prefetch_residual<kWide>(at.residual, block.c_row, Upto<kHigh>());
  multiply_accumulate<kWide>(sums, block, at, Upto<kHigh>());
  if (at.adds_residual_last(block)) add_rows(sums, at.residual, block.c_row, all);
  store(sums, block, clamp, at.c, all);
  if (clamp.has_epilogue) epilogue_rows<kWide>(block, kHigh, at.c, at.last);
}

struct Tiles {
  using Tile = void (*)(const TileBlock&, const Clamp&, const TileOperands&);
  template <int kHigh, int kWide>
  static constexpr Tile kTile = tile<kHigh, kWide>;
};

// A copy of a tile at the right edge of c, where the last vector of columns is partial.
struct Edge {
  alignas(64) float at[kMaxTileRows * kMaxTileColumns];

  // Copies values, padded with zeros to whole vectors, and returns the copy; null for null.
  float* load(const float* from, std::int64_t from_row, int rows, int columns) {
    if (from == nullptr) return nullptr;
    const int end = (columns + kLanes - 1) / kLanes * kLanes;
    for (int r = 0; r < rows; ++r) {
      std::copy_n(from + r * from_row, columns, at + r * kColumns);
      std::fill(at + r * kColumns + columns, at + r * kColumns + end, 0.0f);
    }
    return at;
  }
};

HWY_NOINLINE void edge_tile(const TileBlock& block, const Clamp& clamp, TileOperands at, int rows,
                            int columns) {
  Edge c, residual, last;
  TileBlock own = block;
  own.c_row = kColumns;
  float* const to = at.c;
  if (!block.begins) c.load(to, block.c_row, rows, columns);
  at.c = c.at;
  at.residual = residual.load(at.residual, block.c_row, rows, columns);
  at.last = last.load(at.last, block.c_row, rows, columns);
  const Tiles::Tile run = tile_of<Tiles>(rows, (columns + kLanes - 1) / kLanes, Upto<kVectors>());
  run(own, clamp, at);
  for (int r = 0; r < rows; ++r) std::copy_n(c.at + r * kColumns, columns, to + r * block.c_row);
}

// Spreads the prefetch of a panel over some tiles, each of which has `times` opportunities.
class PanelPrefetch {
 public:
  PanelPrefetch(const float* from, std::int64_t values, std::int64_t tiles, std::int64_t times)
      : from_(from), values_(values), times_(times) {
    if (from == nullptr || times == 0) return;
    const std::int64_t turns = tiles * times * kLine;
    lines_ = std::min(kMaxLines, (values + turns - 1) / turns);
  }

  // Sets the part that tile `index` prefetches.
  void set_prefetch(TileOperands& at, std::int64_t index) const {
    const std::int64_t begin = index * times_ * lines_ * kLine;
    if (lines_ == 0 || begin >= values_) return;
    at.ahead = from_ + begin;
    at.lines = static_cast<int>(lines_);
  }

 private:
  const float* from_;
  std::int64_t values_, times_, lines_ = 0;
};

// The loop over the tiles of a block.
class Walk {
 public:
  explicit Walk(const TileBlock& block)
      : block_(block),
        clamp_(block),
        tiles_((block.count + kRows - 1) / kRows),
        rows_(block.count / tiles_),
        more_(block.count % tiles_),
        panels_((block.columns + kColumns - 1) / kColumns) {}

  // Panels that fit in the L2 cache are read again for each row of tiles, so that a and c are
  // traversed row by row; otherwise each panel is read once.
  void run() const {
    constexpr std::int64_t kFit = 64 << 10;  // values
    const std::int64_t deep = block_.segments * block_.depth;
    const std::int64_t times = block_.segments * (block_.depth / kSteps);
    if (deep * block_.columns <= kFit) {
      const PanelPrefetch next(block_.ahead, block_.ahead_values, tiles_ * panels_, times);
      for (std::int64_t i = 0; i < tiles_; ++i)
        for (std::int64_t panel = 0; panel < panels_; ++panel)
          run_tile(i, panel, panel == 0 ? std::min(i + 1, tiles_ - 1) : i, next,
                   i * panels_ + panel);
      return;
    }
    for (std::int64_t panel = 0; panel < panels_; ++panel) {
      const bool last = panel + 1 == panels_;
      const PanelPrefetch next(
          last ? block_.ahead : block_.panels + (panel + 1) * block_.panel_step,
          last ? block_.ahead_values : deep * kColumns, tiles_, times);
      for (std::int64_t i = 0; i < tiles_; ++i) run_tile(i, panel, i, next, i);
    }
  }

 private:
  // The first row of a tile; tiles differ by at most one row.
  std::int64_t row_of(std::int64_t tile) const { return rows_ * tile + std::min(tile, more_); }

  template <class T>
  T* moved(T* from, std::int64_t row, std::int64_t first) const {
    return from == nullptr ? nullptr : from + row * block_.c_row + first;
  }

  // `next` is the tile whose rows are prefetched.
  void run_tile(std::int64_t i, std::int64_t panel, std::int64_t next, const PanelPrefetch& ahead,
                std::int64_t index) const {
    const std::int64_t first = panel * kColumns, row = row_of(i);
    const auto columns = static_cast<int>(std::min<std::int64_t>(kColumns, block_.columns - first));
    const auto rows = static_cast<int>(row_of(i + 1) - row);
    TileOperands at{.rows = block_.rows + row,
                    .next_rows = block_.rows + std::min(row_of(next), block_.count - rows),
                    .b = block_.panels + panel * block_.panel_step,
                    .ahead = nullptr,
                    .lines = 0,
                    .c = moved(block_.c, row, first),
                    .bias = block_.bias + first,
                    .residual = moved(block_.residual, row, first),
                    .last = moved(block_.last, row, first)};
    ahead.set_prefetch(at, index);
    if (columns == kColumns)
      tile_among<Tiles, kVectors>(rows, Upto<kRows>())(block_, clamp_, at);
    else if (columns % kLanes == 0)
      tile_of<Tiles>(rows, columns / kLanes, Upto<kVectors>())(block_, clamp_, at);
    else
      edge_tile(block_, clamp_, at, rows, columns);
  }

  const TileBlock& block_;
  Clamp clamp_;
  std::int64_t tiles_, rows_, more_;  // the first `more_` tiles have one row more than `rows_`
  std::int64_t panels_;
};

void run_block(const TileBlock& block) { Walk(block).run(); }

TileShape shape() { return {kRows, kColumns}; }

}  // namespace
}  // namespace sluice::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::kernels::cpu {

HWY_EXPORT(run_block);
HWY_EXPORT(shape);

TileShape tile_shape() { return HWY_DYNAMIC_DISPATCH(shape)(); }
void run(const TileBlock& block) { HWY_DYNAMIC_DISPATCH(run_block)(block); }

}  // namespace sluice::kernels::cpu
#endif
