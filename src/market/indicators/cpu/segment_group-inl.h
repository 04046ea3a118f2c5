// The addresses of the segments that run in SIMD lanes, and the functions that load and store tiles
// of their bars. Series are contiguous in memory, so tiles are transposed in registers.
// Included once per instruction set.
#include <hwy/cache_control.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "market/indicators/cpu/simd_segments.h"
#include "market/indicators/cpu/simd_value-inl.h"

#if defined(SLUICE_MARKET_SEGMENT_GROUP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MARKET_SEGMENT_GROUP_INL_H_
#undef SLUICE_MARKET_SEGMENT_GROUP_INL_H_
#else
#define SLUICE_MARKET_SEGMENT_GROUP_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::market::HWY_NAMESPACE {

// A tile is [vector][bar][lane]. The tiles of a group stay in the L1 cache.
template <int kWidth>
constexpr int kBlock = std::max(512 / kWidth, 32);

template <int kWidth>
using Tile = double[kBlock<kWidth> * kWidth];

// The position of bar i of vector u.
template <int kWidth>
constexpr std::int64_t tile_offset(int u, std::int64_t i) {
  return (u * kBlock<kWidth> + i) * kLanes;
}

using RowValue = SimdValue<1>;  // consecutive bars of one segment

template <int kWidth>
struct SegmentGroup {
  const Plan& plan;
  std::byte* in[kMaxInputs][kWidth];
  std::byte* out[kMaxOutputs][kWidth];
  std::int64_t begin[kWidth], end[kWidth];  // bars to store, from the segment's first
  std::int64_t longest = 0;
  // All segments store the bars [all_from, all_to). Idle lanes may store them, too: they repeat the
  // last segment.
  std::int64_t all_from = 0, all_to = 0;
  std::int64_t lead = 0;        // bars before the rows of the first output are aligned together
  std::int64_t row_stride = 0;  // elements between each row and the next; 0: not always the same
  bool bypasses_caches;
  bool covers_lookback = false;  // no other segment stores the bars before the first bar to store
  // By vector: all of its lanes have the bars before `inside` and store those from `latest` on.
  std::int64_t inside[kWidth / kLanes], latest[kWidth / kLanes];

  SegmentGroup(const SegmentGroupCall& call, std::size_t element) : plan(call.parameters.plan) {
    for (int i = 0; i < kWidth; ++i) {
      const auto place = static_cast<std::size_t>(i);
      const Segment& segment = call.segments[std::min(place, call.count - 1)];
      const auto at =
          static_cast<std::size_t>(segment.series * call.parameters.bars + segment.from) * element;
      for (int k = 0; k < plan.inputs; ++k) in[k][i] = static_cast<std::byte*>(call.in[k]) + at;
      for (int k = 0; k < plan.outputs; ++k) out[k][i] = static_cast<std::byte*>(call.out[k]) + at;
      end[i] = segment.end - segment.from;
      begin[i] = place < call.count
                     ? std::max<std::int64_t>(segment.first - segment.from, plan.lookback)
                     : end[i];
      longest = std::max(longest, end[i]);
    }
    for (int u = 0; u < kWidth / kLanes; ++u) {
      inside[u] = *std::min_element(end + u * kLanes, end + (u + 1) * kLanes);
      latest[u] = *std::max_element(begin + u * kLanes, begin + (u + 1) * kLanes);
    }
    all_from = *std::max_element(begin, begin + call.count);
    covers_lookback = all_from == plan.lookback;
    all_to = *std::min_element(end, end + kWidth);
    const auto width = static_cast<std::int64_t>(element);
    row_stride = call.count == kWidth ? spacing(width) : 0;
    lead = aligned_after(out[0], width).value_or(0);
    bypasses_caches = call.large;
    for (int k = 0; k < plan.outputs; ++k)
      bypasses_caches = bypasses_caches && aligned_after(out[k], width) == lead;
  }

  std::int64_t spacing(std::int64_t element) const {
    constexpr int kNext = kWidth > 1;
    const std::int64_t step = in[0][kNext] - in[0][0];
    for (int i = 1; i < kWidth; ++i)
      if (in[0][i] - in[0][i - 1] != step) return 0;
    return step / element;
  }

  // Bars until all rows are aligned to a vector; none when they never are together. A store
  // across two cache lines costs two, so the first block is cut where that helps.
  static std::optional<std::int64_t> aligned_after(std::byte* const* rows, std::int64_t element) {
    const std::int64_t width = kLanes * element;
    const auto past = [&](int i) {
      return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(rows[i])) & (width - 1);
    };
    for (int i = 1; i < kWidth; ++i)
      if (past(i) != past(0)) return {};
    return (width - past(0)) % width / element;
  }
};

// ---- bars in -----------------------------------------------------------------------------

// Loads the inputs of a rule unchanged.
template <int n>
struct LoadUnchanged {
  static constexpr int kInputs = n, kLoaded = n;

  template <class T>
  static HWY_INLINE void row(const T* const* in, std::int64_t t, RowValue* loaded) {
    for (int k = 0; k < n; ++k) loaded[k] = RowValue(Vectors<1>{load_bars(in[k] + t)});
  }
  template <class T>
  static HWY_INLINE void bar(const T* const* in, std::int64_t t, double* loaded) {
    for (int k = 0; k < n; ++k) loaded[k] = static_cast<double>(in[k][t]);
  }
};

// Loads the results of S::gather(): there are fewer of them to transpose.
template <class S>
struct LoadGathered {
  static constexpr int kInputs = S::kInputs, kLoaded = S::kGathered;

  // Not for the first bar of a segment: it needs the bar before.
  template <class T>
  static HWY_INLINE void row(const T* const* in, std::int64_t t, RowValue* loaded) {
    RowValue bars[kInputs];
    LoadUnchanged<kInputs>::row(in, t, bars);
    S::gather(bars, RowValue(Vectors<1>{load_bars(in[S::kBefore] + t - 1)}), loaded);
  }
  template <class T>
  static HWY_INLINE void bar(const T* const* in, std::int64_t t, double* loaded) {
    double bars[kInputs];
    LoadUnchanged<kInputs>::bar(in, t, bars);
    S::gather(bars, t > 0 ? static_cast<double>(in[S::kBefore][t - 1]) : 0.0, loaded);
  }
};

template <class Loader, class T, int kWidth>
HWY_NOINLINE void load_partial_tile(const SegmentGroup<kWidth>& group, int u, std::int64_t t, int i,
                                    Tile<kWidth>* tiles) {
  for (int l = 0; l < kLanes; ++l) {
    const T* rows[Loader::kInputs];
    for (int k = 0; k < Loader::kInputs; ++k)
      rows[k] = reinterpret_cast<const T*>(group.in[k][u * kLanes + l]);
    for (int bar = i; bar < i + kLanes; ++bar) {
      double loaded[Loader::kLoaded] = {};
      if (t + bar < group.end[u * kLanes + l]) Loader::bar(rows, t + bar, loaded);
      for (int k = 0; k < Loader::kLoaded; ++k)
        tiles[k][tile_offset<kWidth>(u, bar) + l] = loaded[k];
    }
  }
}

template <class Loader, class T, int kWidth>
HWY_INLINE void load_full_tile(const T* const (*rows)[Loader::kInputs], std::int64_t t,
                               std::int64_t at, Tile<kWidth>* tiles) {
  constexpr int kAhead = std::min(512, 16384 / (kWidth * Loader::kInputs)) / sizeof(T);
  Vec v[Loader::kLoaded][kLanes];
  for (int l = 0; l < kLanes; ++l) {
    RowValue loaded[Loader::kLoaded];
    for (int k = 0; k < Loader::kInputs; ++k) hwy::Prefetch(rows[l][k] + t + kAhead);
    Loader::row(rows[l], t, loaded);
    for (int k = 0; k < Loader::kLoaded; ++k) v[k][l] = loaded[k].v.a;
  }
  for (int k = 0; k < Loader::kLoaded; ++k) {
    transpose(v[k]);
    for (int i = 0; i < kLanes; ++i) hn::Store(v[k][i], D(), tiles[k] + at + i * kLanes);
  }
}

// Loads `count` bars from t on into tiles.
template <class Loader, class T, int kWidth>
void load_tiles(const SegmentGroup<kWidth>& group, std::int64_t t, int count, Tile<kWidth>* tiles) {
  constexpr bool kNeedsBarBefore = Loader::kLoaded < Loader::kInputs;
  for (int u = 0; u < kWidth / kLanes; ++u) {
    const T* rows[kLanes][Loader::kInputs];
    for (int l = 0; l < kLanes; ++l)
      for (int k = 0; k < Loader::kInputs; ++k)
        rows[l][k] = reinterpret_cast<const T*>(group.in[k][u * kLanes + l]);
    for (int i = 0; i < count; i += kLanes)
      if (t + i + kLanes <= group.inside[u] && !(kNeedsBarBefore && t + i == 0))
        load_full_tile<Loader, T, kWidth>(rows, t + i, tile_offset<kWidth>(u, i), tiles);
      else
        load_partial_tile<Loader, T>(group, u, t, i, tiles);
  }
}

// ---- bars out ----------------------------------------------------------------------------

// Stores the outputs of a rule unchanged.
struct StoreUnchanged {
  static constexpr int kCompact = 1, kOutputs = 1;

  template <class W>
  static HWY_INLINE void expand(const Plan&, const W* made, W* out) {
    out[0] = made[0];
  }
};

template <class Storer, class T, int kWidth>
HWY_NOINLINE void store_partial_tile(const SegmentGroup<kWidth>& group, int first, int u,
                                     std::int64_t t, int i, const Tile<kWidth>* tiles) {
  for (int l = 0; l < kLanes; ++l) {
    const std::int64_t from = std::max<std::int64_t>(group.begin[u * kLanes + l] - t, i);
    const std::int64_t last = std::min<std::int64_t>(group.end[u * kLanes + l] - t, i + kLanes);
    for (std::int64_t bar = from; bar < last; ++bar) {
      double made[Storer::kCompact], out[Storer::kOutputs];
      for (int k = 0; k < Storer::kCompact; ++k)
        made[k] = tiles[k][tile_offset<kWidth>(u, bar) + l];
      Storer::expand(group.plan, made, out);
      for (int k = 0; k < Storer::kOutputs; ++k)
        reinterpret_cast<T*>(group.out[first + k][u * kLanes + l])[t + bar] =
            static_cast<T>(out[k]);
    }
  }
}

template <bool kBypassesCaches, class T>
HWY_INLINE void put(Vec v, T* to) {
  if constexpr (kBypassesCaches)
    stream_bars(v, to);
  else
    store_bars(v, to);
}

HWY_INLINE void load_transposed(const double* from, Vec* v) {
  for (int i = 0; i < kLanes; ++i) v[i] = hn::Load(D(), from + i * kLanes);
  transpose(v);
}

// Stores the bars [from, to) of vector u.
template <class Storer, class T, int kWidth, bool kBypassesCaches>
void store_full_tiles(const SegmentGroup<kWidth>& group, int first, int u, std::int64_t t, int from,
                      int to, const Tile<kWidth>* tiles) {
  const Plan plan = group.plan;
  T* rows[Storer::kOutputs][kLanes];
  for (int k = 0; k < Storer::kOutputs; ++k)
    for (int l = 0; l < kLanes; ++l)
      rows[k][l] = reinterpret_cast<T*>(group.out[first + k][u * kLanes + l]) + t;
  for (int i = from; i < to; i += kLanes) {
    Vec segments[Storer::kCompact][kLanes];
    for (int k = 0; k < Storer::kCompact; ++k)
      load_transposed(tiles[k] + tile_offset<kWidth>(u, i), segments[k]);
    HWY_UNROLL(8)
    for (int l = 0; l < kLanes; ++l) {
      RowValue made[Storer::kCompact], out[Storer::kOutputs];
      for (int k = 0; k < Storer::kCompact; ++k) made[k] = RowValue(Vectors<1>{segments[k][l]});
      Storer::expand(plan, made, out);
      for (int k = 0; k < Storer::kOutputs; ++k) put<kBypassesCaches>(out[k].v.a, rows[k][l] + i);
    }
  }
}

// Stores `count` bars from t on, out of tiles, to the outputs from `first` on.
template <class Storer, class T, int kWidth>
void store_tiles(const SegmentGroup<kWidth>& group, int first, std::int64_t t, int count,
                 const Tile<kWidth>* tiles) {
  for (int u = 0; u < kWidth / kLanes; ++u) {
    const auto full = [&](int i) {
      return t + i >= group.latest[u] && t + i + kLanes <= group.inside[u];
    };
    int from = 0, to = 0;
    for (; from < count && !full(from); from += kLanes)
      store_partial_tile<Storer, T>(group, first, u, t, from, tiles);
    for (to = from; to < count && full(to);) to += kLanes;
    for (int i = to; i < count; i += kLanes)
      store_partial_tile<Storer, T>(group, first, u, t, i, tiles);
    if (group.bypasses_caches)
      store_full_tiles<Storer, T, kWidth, true>(group, first, u, t, from, to, tiles);
    else
      store_full_tiles<Storer, T, kWidth, false>(group, first, u, t, from, to, tiles);
  }
}

}  // namespace sluice::market::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
