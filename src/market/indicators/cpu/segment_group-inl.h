// Segments that run in SIMD lanes: the addresses of their bars, and the tiles of bars that are
// loaded and stored. Series are contiguous in memory, so tiles are transposed in registers.
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

// A tile is [vector][bar][lane]: those of a group stay in the L1 cache.
template <int kWidth>
constexpr int kBlock = std::max(512 / kWidth, 32);

template <int kWidth>
using Tile = double[kBlock<kWidth> * kWidth];

// The position of bar i of vector u.
template <int kWidth>
constexpr std::int64_t place(int u, std::int64_t i) {
  return (u * kBlock<kWidth> + i) * kLanes;
}

using Row = Pack<1>;  // of bars of one segment

template <int kWidth>
struct SegmentGroup {
  const Plan& plan;
  std::byte* in[kMaxInputs][kWidth];
  std::byte* out[kMaxOutputs][kWidth];
  std::int64_t begin[kWidth], end[kWidth];  // bars to store, from the segment's first
  std::int64_t longest = 0;
  std::int64_t all_from = 0, all_to = 0;  // bars that all segments store; idle lanes may, too:
                                          // they have the last segment's
  std::int64_t lead = 0;   // bars before the rows of the first output are aligned together
  std::int64_t apart = 0;  // elements between each row and the next; 0: not always the same
  bool past_caches;
  bool covers_lookback = false;  // no other segment stores the bars before the first bar to store
  std::int64_t inside[kWidth / kLanes], latest[kWidth / kLanes];  // all lanes have bars up to;
                                                                  // store from

  SegmentGroup(const GroupCall& call, std::size_t element) : plan(call.batch.plan) {
    for (int i = 0; i < kWidth; ++i) {
      const auto place = static_cast<std::size_t>(i);
      const Segment& segment = call.segments[std::min(place, call.count - 1)];
      const auto at =
          static_cast<std::size_t>(segment.series * call.batch.bars + segment.from) * element;
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
    apart = call.count == kWidth ? spacing(width) : 0;
    lead = aligned_after(out[0], width).value_or(0);
    past_caches = call.large;
    for (int k = 0; k < plan.outputs; ++k)
      past_caches = past_caches && aligned_after(out[k], width) == lead;
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
struct AsTheyAre {
  static constexpr int kInputs = n, kTaken = n;

  template <class T>
  static HWY_INLINE void row(const T* const* in, std::int64_t t, Row* taken) {
    for (int k = 0; k < n; ++k) taken[k] = Row(Bundle<1>{load_bars(in[k] + t)});
  }
  template <class T>
  static HWY_INLINE void bar(const T* const* in, std::int64_t t, double* taken) {
    for (int k = 0; k < n; ++k) taken[k] = static_cast<double>(in[k][t]);
  }
};

// Loads the outputs of S::gather(): fewer tiles to transpose.
template <class S>
struct Gathered {
  static constexpr int kInputs = S::kInputs, kTaken = S::kTaken;

  // Not of the first bar of a segment.
  template <class T>
  static HWY_INLINE void row(const T* const* in, std::int64_t t, Row* taken) {
    Row bars[kInputs];
    AsTheyAre<kInputs>::row(in, t, bars);
    S::gather(bars, Row(Bundle<1>{load_bars(in[S::kBefore] + t - 1)}), taken);
  }
  template <class T>
  static HWY_INLINE void bar(const T* const* in, std::int64_t t, double* taken) {
    double bars[kInputs];
    AsTheyAre<kInputs>::bar(in, t, bars);
    S::gather(bars, t > 0 ? static_cast<double>(in[S::kBefore][t - 1]) : 0.0, taken);
  }
};

template <class From, class T, int kWidth>
HWY_NOINLINE void take_ends(const SegmentGroup<kWidth>& group, int u, std::int64_t t, int i,
                            Tile<kWidth>* tiles) {
  for (int l = 0; l < kLanes; ++l) {
    const T* rows[From::kInputs];
    for (int k = 0; k < From::kInputs; ++k)
      rows[k] = reinterpret_cast<const T*>(group.in[k][u * kLanes + l]);
    for (int bar = i; bar < i + kLanes; ++bar) {
      double taken[From::kTaken] = {};
      if (t + bar < group.end[u * kLanes + l]) From::bar(rows, t + bar, taken);
      for (int k = 0; k < From::kTaken; ++k) tiles[k][place<kWidth>(u, bar) + l] = taken[k];
    }
  }
}

template <class From, class T, int kWidth>
HWY_INLINE void take_bars(const T* const (*rows)[From::kInputs], std::int64_t t, std::int64_t at,
                          Tile<kWidth>* tiles) {
  constexpr int kAhead = std::min(512, 16384 / (kWidth * From::kInputs)) / sizeof(T);
  Vec v[From::kTaken][kLanes];
  for (int l = 0; l < kLanes; ++l) {
    Row taken[From::kTaken];
    for (int k = 0; k < From::kInputs; ++k) hwy::Prefetch(rows[l][k] + t + kAhead);
    From::row(rows[l], t, taken);
    for (int k = 0; k < From::kTaken; ++k) v[k][l] = taken[k].v.a;
  }
  for (int k = 0; k < From::kTaken; ++k) {
    transpose(v[k]);
    for (int i = 0; i < kLanes; ++i) hn::Store(v[k][i], D(), tiles[k] + at + i * kLanes);
  }
}

// `count` bars from t on, into tiles.
template <class From, class T, int kWidth>
void take_tiles(const SegmentGroup<kWidth>& group, std::int64_t t, int count, Tile<kWidth>* tiles) {
  constexpr bool kFirst = From::kTaken < From::kInputs;  // is another matter
  for (int u = 0; u < kWidth / kLanes; ++u) {
    const T* rows[kLanes][From::kInputs];
    for (int l = 0; l < kLanes; ++l)
      for (int k = 0; k < From::kInputs; ++k)
        rows[l][k] = reinterpret_cast<const T*>(group.in[k][u * kLanes + l]);
    for (int i = 0; i < count; i += kLanes)
      if (t + i + kLanes <= group.inside[u] && !(kFirst && t + i == 0))
        take_bars<From, T, kWidth>(rows, t + i, place<kWidth>(u, i), tiles);
      else
        take_ends<From, T>(group, u, t, i, tiles);
  }
}

// ---- bars out ----------------------------------------------------------------------------

// Stores the outputs of a rule unchanged.
struct AsItIs {
  static constexpr int kMade = 1, kOutputs = 1;

  template <class W>
  static HWY_INLINE void widen(const Plan&, const W* made, W* out) {
    out[0] = made[0];
  }
};

template <class To, class T, int kWidth>
HWY_NOINLINE void give_ends(const SegmentGroup<kWidth>& group, int first, int u, std::int64_t t,
                            int i, const Tile<kWidth>* tiles) {
  for (int l = 0; l < kLanes; ++l) {
    const std::int64_t from = std::max<std::int64_t>(group.begin[u * kLanes + l] - t, i);
    const std::int64_t last = std::min<std::int64_t>(group.end[u * kLanes + l] - t, i + kLanes);
    for (std::int64_t bar = from; bar < last; ++bar) {
      double made[To::kMade], out[To::kOutputs];
      for (int k = 0; k < To::kMade; ++k) made[k] = tiles[k][place<kWidth>(u, bar) + l];
      To::widen(group.plan, made, out);
      for (int k = 0; k < To::kOutputs; ++k)
        reinterpret_cast<T*>(group.out[first + k][u * kLanes + l])[t + bar] =
            static_cast<T>(out[k]);
    }
  }
}

template <bool kPastCaches, class T>
HWY_INLINE void put(Vec v, T* to) {
  if constexpr (kPastCaches)
    stream_bars(v, to);
  else
    store_bars(v, to);
}

HWY_INLINE void load_square(const double* from, Vec* v) {
  for (int i = 0; i < kLanes; ++i) v[i] = hn::Load(D(), from + i * kLanes);
  transpose(v);
}

// Bars [from, to) of vector u.
template <class To, class T, int kWidth, bool kPastCaches>
void give_rows(const SegmentGroup<kWidth>& group, int first, int u, std::int64_t t, int from,
               int to, const Tile<kWidth>* tiles) {
  const Plan plan = group.plan;
  T* rows[To::kOutputs][kLanes];
  for (int k = 0; k < To::kOutputs; ++k)
    for (int l = 0; l < kLanes; ++l)
      rows[k][l] = reinterpret_cast<T*>(group.out[first + k][u * kLanes + l]) + t;
  for (int i = from; i < to; i += kLanes) {
    Vec segments[To::kMade][kLanes];
    for (int k = 0; k < To::kMade; ++k) load_square(tiles[k] + place<kWidth>(u, i), segments[k]);
    HWY_UNROLL(8)
    for (int l = 0; l < kLanes; ++l) {
      Row made[To::kMade], out[To::kOutputs];
      for (int k = 0; k < To::kMade; ++k) made[k] = Row(Bundle<1>{segments[k][l]});
      To::widen(plan, made, out);
      for (int k = 0; k < To::kOutputs; ++k) put<kPastCaches>(out[k].v.a, rows[k][l] + i);
    }
  }
}

// `count` bars from t on, out of tiles, to the outputs from `first` on.
template <class To, class T, int kWidth>
void give_tiles(const SegmentGroup<kWidth>& group, int first, std::int64_t t, int count,
                const Tile<kWidth>* tiles) {
  for (int u = 0; u < kWidth / kLanes; ++u) {
    const auto full = [&](int i) {
      return t + i >= group.latest[u] && t + i + kLanes <= group.inside[u];
    };
    int from = 0, to = 0;
    for (; from < count && !full(from); from += kLanes)
      give_ends<To, T>(group, first, u, t, from, tiles);
    for (to = from; to < count && full(to);) to += kLanes;
    for (int i = to; i < count; i += kLanes) give_ends<To, T>(group, first, u, t, i, tiles);
    if (group.past_caches)
      give_rows<To, T, kWidth, true>(group, first, u, t, from, to, tiles);
    else
      give_rows<To, T, kWidth, false>(group, first, u, t, from, to, tiles);
  }
}

}  // namespace sluice::market::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
