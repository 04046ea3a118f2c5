// Compiled for each instruction set that makes a difference; picked at run time.
#include "kernels/gemm/gemm_tile.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/common/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/gemm_tile.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/common/math-inl.h"
#include "kernels/gemm/panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::cpu::HWY_NAMESPACE {
namespace {

// Of what one core (Ice Lake, 2.8 GHz) does out of registers alone, 178 GFLOP/s with AVX-512 and
// 108 with AVX2, ResNet-50's products reach 75 to 95 %: less where weights come from memory.
static_assert(kRows <= kMostTileRows && kColumns <= kMostTileColumns);

// The next panel is asked for while this one is at work, some lines of memory every few steps:
// weights that come from memory would else cost as much time as the products of 50 rows.
constexpr int kLine = 64 / sizeof(float);
// At a time, so that what counts them is cheap: with short vectors, a twelfth of the time else.
constexpr int kSteps = kLanes == 16 ? 4 : 8;
constexpr std::int64_t kMostLines = kSteps;

// The sums of a tile; indexed by constants only, so that they stay in registers.
template <int kHigh, int kWide>
struct Sums {
  V at[kHigh * kWide];
};

// Where a tile lies in its block.
struct Place {
  const float* const* rows;
  const float* const* next_rows;  // that are asked for: of the next tile, or the same
  const float* b;
  const float* ahead;  // this tile's part of what is asked for
  int lines;           // of it, each kSteps
  float* c;
  const float *bias, *residual, *last;

  // A residual is waited for where all products are added already, if there is a choice.
  bool adds_residual_first(const TileBlock& block) const {
    return residual != nullptr && !block.ends;
  }
  bool adds_residual_last(const TileBlock& block) const {
    return residual != nullptr && block.begins && block.ends;
  }
};

template <int kHigh, int kWide, int... I>
HWY_INLINE void add_rows(Sums<kHigh, kWide>& sums, const float* from, std::int64_t from_row,
                         std::integer_sequence<int, I...>) {
  ((sums.at[I] =
        hn::Add(sums.at[I], hn::LoadU(D(), from + I / kWide * from_row + I % kWide * kLanes))),
   ...);
}

template <int kHigh, int kWide, int... I>
HWY_INLINE void begin(Sums<kHigh, kWide>& sums, const TileBlock& block, const Place& at,
                      std::integer_sequence<int, I...> all) {
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

// One value of each row, times one row of the panel.
template <int kWide, int... R, int... W>
HWY_INLINE void step(Sums<sizeof...(R), kWide>& sums, const float* const (&a)[sizeof...(R)],
                     std::int64_t k, const float* HWY_RESTRICT b, std::integer_sequence<int, R...>,
                     std::integer_sequence<int, W...> wide) {
  const V columns[] = {hn::LoadU(D(), b + W * kLanes)...};
  (multiply_row<kWide>(sums.at + R * kWide, columns, a[R][k], wide), ...);
}

template <int kWide, int... R, int... S>
HWY_INLINE void steps(Sums<sizeof...(R), kWide>& sums, const float* const (&a)[sizeof...(R)],
                      std::int64_t k, const float* HWY_RESTRICT b,
                      std::integer_sequence<int, R...> high, std::integer_sequence<int, S...>) {
  (step(sums, a, k + S, b + S * kColumns, high, Upto<kWide>()), ...);
}

template <int kWide, int... R>
HWY_INLINE void ask_for_rows(const float* from, std::int64_t row,
                             std::integer_sequence<int, R...>) {
  (__builtin_prefetch(from + R * row), ...);
  if constexpr (kWide * kLanes > kLine) (__builtin_prefetch(from + R * row + kLine), ...);
}

// Pays where the sums come fast. In four times, each four values further, all rows have been asked
// for: just as often as a new line of them begins.
template <int kHigh>
HWY_INLINE void ask_for_some(const float* const* rows, std::int64_t k) {
  const std::int64_t time = k / 4 % 4;
  __builtin_prefetch(rows[kHigh >= 4 ? time : std::min<std::int64_t>(time, kHigh - 1)] + k);
  if constexpr (kHigh > 4) __builtin_prefetch(rows[4 + (kHigh > 5 ? time % 2 : 0)] + k);
}

// Limit: two multiply-adds a cycle.
template <int kWide, int... R>
HWY_INLINE void add_products(Sums<sizeof...(R), kWide>& sums, const TileBlock& block,
                             const Place& at, std::integer_sequence<int, R...> high) {
  const float *const *rows = at.rows, *const *next = at.next_rows;
  const float* HWY_RESTRICT b = at.b;
  const float* ahead = at.ahead;
  for (std::int64_t s = 0; s < block.segments; ++s, rows += block.count, next += block.count) {
    const float* const a[] = {rows[R] + block.offset...};
    std::int64_t k = 0;
    for (; k + kSteps <= block.depth; k += kSteps, b += kSteps * kColumns) {
      for (int line = 0; line < at.lines; ++line, ahead += kLine) __builtin_prefetch(ahead, 0, 2);
      if constexpr (kLanes == 16) ask_for_some<sizeof...(R)>(next, block.offset + k);
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

// What is cheap enough to be done in registers: limits, infinite where there are none.
struct Limits {
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
  bool more = false;  // is to be done to what is stored

  explicit Limits(const TileBlock& block) {
    if (!block.ends) return;
    more = block.last != nullptr;
    switch (block.epilogue.activation) {
      case Activation::none: break;
      case Activation::relu: low = 0; break;
      case Activation::clip: low = block.epilogue.low, high = block.epilogue.high; break;
      default: more = true;
    }
  }
};

template <int kHigh, int kWide, int... I>
HWY_INLINE void store(const Sums<kHigh, kWide>& sums, const TileBlock& block, const Limits& limits,
                      float* c, std::integer_sequence<int, I...>) {
  const D d;
  const V low = hn::Set(d, limits.low), high = hn::Set(d, limits.high);
  (hn::StoreU(hn::Min(high, hn::Max(low, sums.at[I])), d,
              c + I / kWide * block.c_row + I % kWide * kLanes),
   ...);
}

// What the epilogue does besides limits, while the tile is in the first cache.
template <int kWide>
HWY_NOINLINE void finish_rows(const TileBlock& block, int rows, float* c, const float* last) {
  const D d;
  for (int r = 0; r < rows; ++r, c += block.c_row) {
    for (int i = 0; i < kWide * kLanes; i += kLanes) {
      V x = Activate(d, block.epilogue, hn::LoadU(d, c + i));
      if (last != nullptr) x = hn::Add(x, hn::LoadU(d, last + i));
      hn::StoreU(x, d, c + i);
    }
    if (last != nullptr) last += block.c_row;
  }
}

template <int kHigh, int kWide>
HWY_NOINLINE void tile(const TileBlock& block, const Limits& limits, const Place& at) {
  const Upto<kHigh * kWide> all;
  Sums<kHigh, kWide> sums;
  begin(sums, block, at, all);
  if (at.adds_residual_last(block)) ask_for_rows<kWide>(at.residual, block.c_row, Upto<kHigh>());
  add_products<kWide>(sums, block, at, Upto<kHigh>());
  if (at.adds_residual_last(block)) add_rows(sums, at.residual, block.c_row, all);
  store(sums, block, limits, at.c, all);
  if (limits.more) finish_rows<kWide>(block, kHigh, at.c, at.last);
}

using Tile = void (*)(const TileBlock&, const Limits&, const Place&);

template <int kWide, int... R>
Tile tile_among(int rows, std::integer_sequence<int, R...>) {
  static constexpr Tile kTiles[] = {tile<R + 1, kWide>...};
  return kTiles[rows - 1];
}
template <int... W>
Tile tile_of(int rows, int vectors, std::integer_sequence<int, W...>) {
  Tile found = nullptr;
  ((vectors == W + 1 ? void(found = tile_among<W + 1>(rows, Upto<kRows>())) : void()), ...);
  return found;
}

// A tile of memory, where the last vector of columns is not all in c.
struct Edge {
  alignas(64) float at[kMostTileRows * kMostTileColumns];

  // Where they are then, with zeros up to the end of the last vector; null for null.
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

HWY_NOINLINE void edge_tile(const TileBlock& block, const Limits& limits, Place at, int rows,
                            int columns) {
  Edge c, residual, last;
  TileBlock own = block;
  own.c_row = kColumns;
  float* const to = at.c;
  if (!block.begins) c.load(to, block.c_row, rows, columns);
  at.c = c.at;
  at.residual = residual.load(at.residual, block.c_row, rows, columns);
  at.last = last.load(at.last, block.c_row, rows, columns);
  const Tile run = tile_of(rows, (columns + kLanes - 1) / kLanes, Upto<kVectors>());
  run(own, limits, at);
  for (int r = 0; r < rows; ++r) std::copy_n(c.at + r * kColumns, columns, to + r * block.c_row);
}

// What is asked for in the course of some tiles, each of which has `times` turns.
class Ahead {
 public:
  Ahead(const float* from, std::int64_t values, std::int64_t tiles, std::int64_t times)
      : from_(from), values_(values), times_(times) {
    if (from == nullptr || times == 0) return;
    const std::int64_t turns = tiles * times * kLine;
    lines_ = std::min(kMostLines, (values + turns - 1) / turns);
  }

  // The part of tile `index`.
  void ask(Place& at, std::int64_t index) const {
    const std::int64_t begin = index * times_ * lines_ * kLine;
    if (lines_ == 0 || begin >= values_) return;
    at.ahead = from_ + begin;
    at.lines = static_cast<int>(lines_);
  }

 private:
  const float* from_;
  std::int64_t values_, times_, lines_ = 0;
};

// How a block is gone through.
class Walk {
 public:
  explicit Walk(const TileBlock& block)
      : block_(block),
        limits_(block),
        tiles_((block.count + kRows - 1) / kRows),
        rows_(block.count / tiles_),
        more_(block.count % tiles_),
        panels_((block.columns + kColumns - 1) / kColumns) {}

  // Panels that fit the second cache are read again for each tile, so that a and c are gone
  // through row by row; of others each is read once.
  void run() const {
    constexpr std::int64_t kFit = 64 << 10;  // values
    const std::int64_t deep = block_.segments * block_.depth;
    const std::int64_t times = block_.segments * (block_.depth / kSteps);
    if (deep * block_.columns <= kFit) {
      const Ahead next(block_.ahead, block_.ahead_values, tiles_ * panels_, times);
      for (std::int64_t i = 0; i < tiles_; ++i)
        for (std::int64_t panel = 0; panel < panels_; ++panel)
          run_tile(i, panel, panel == 0 ? std::min(i + 1, tiles_ - 1) : i, next,
                   i * panels_ + panel);
      return;
    }
    for (std::int64_t panel = 0; panel < panels_; ++panel) {
      const bool last = panel + 1 == panels_;
      const Ahead next(last ? block_.ahead : block_.panels + (panel + 1) * block_.panel_step,
                       last ? block_.ahead_values : deep * kColumns, tiles_, times);
      for (std::int64_t i = 0; i < tiles_; ++i) run_tile(i, panel, i, next, i);
    }
  }

 private:
  // Tiles are as even as they can be.
  std::int64_t row_of(std::int64_t tile) const { return rows_ * tile + std::min(tile, more_); }

  template <class T>
  T* moved(T* from, std::int64_t row, std::int64_t first) const {
    return from == nullptr ? nullptr : from + row * block_.c_row + first;
  }

  // `next` is the tile whose rows are asked for.
  void run_tile(std::int64_t i, std::int64_t panel, std::int64_t next, const Ahead& ahead,
                std::int64_t index) const {
    const std::int64_t first = panel * kColumns, row = row_of(i);
    const auto columns = static_cast<int>(std::min<std::int64_t>(kColumns, block_.columns - first));
    const auto rows = static_cast<int>(row_of(i + 1) - row);
    Place at{.rows = block_.rows + row,
             .next_rows = block_.rows + std::min(row_of(next), block_.count - rows),
             .b = block_.panels + panel * block_.panel_step,
             .ahead = nullptr,
             .lines = 0,
             .c = moved(block_.c, row, first),
             .bias = block_.bias + first,
             .residual = moved(block_.residual, row, first),
             .last = moved(block_.last, row, first)};
    ahead.ask(at, index);
    if (columns == kColumns)
      tile_among<kVectors>(rows, Upto<kRows>())(block_, limits_, at);
    else if (columns % kLanes == 0)
      tile_of(rows, columns / kLanes, Upto<kVectors>())(block_, limits_, at);
    else
      edge_tile(block_, limits_, at, rows, columns);
  }

  const TileBlock& block_;
  Limits limits_;
  std::int64_t tiles_, rows_, more_;  // the first `more_` tiles have a row more than `rows_`
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
