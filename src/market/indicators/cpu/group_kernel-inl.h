// Runs a rule over a group of segments, one in each SIMD lane, on several vectors at once to hide
// the latency of the rule's chain from bar to bar. A block of bars is loaded and transposed into
// tiles in the L1 cache, computed, transposed and stored. Included once per instruction set.
//
// When the arrays fit the caches, rules of one input use register tiles instead: kLanes bars of
// kLanes segments at a time, without tiles in memory. Loads, shuffles, chains and quotients of
// several tiles are then in flight together, so that the busiest unit is the limit and not the sum
// of all.
//
// Limit, in cycles a point with 8 lanes, two vector ports and one of them for shuffles, with
// aligned arrays in the L2 cache. The lines to and from that cache take 0.6 with one output, 1.5
// with three. Measured on Ice Lake, 2.8 GHz with these vectors, its cores shared with others, 32 x
// 1,000.
//   EMA     chain of 12 cycles for 16 segments: 0.75. Measured 0.8, 94 %.
//   SMA     80 operations for 64 points, 48 of them shuffles: 0.75. Measured 1.3, 58 %.
//   RSI     the quotient, 16 cycles a vector: 2.0. Measured 2.3, 87 %.
//   BBANDS  255 operations for 64 points: window 87, roots 80 (half of them, the others take
//           96 cycles of their own unit), shuffles 72, bands 16: 2.0. Measured 3.1 (8 more).
//           Without shuffles and roots it still takes 2.0: three outputs to the L2 cache.
//   MACD    three outputs: 1.5. Measured 2.6, 58 %.
// With 4 lanes: EMA 1.4, SMA 1.3, RSI 1.8; BBANDS on Zen 4, 3.5 GHz: 3.6 (2.9 without roots).
// In blocks, where times add up:
//   ATR     three inputs 0.9, one transpose 0.4, chain 0.3, out 0.4: 2.0. Measured 2.6, 77 %.
// Beyond the caches: 8 bytes for each input and output of a point.
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/cancellation.h"
#include "market/indicators/cpu/rule_traits-inl.h"
#include "market/indicators/cpu/segment_group-inl.h"
#include "market/indicators/cpu/transpose_tiles-inl.h"

#if defined(SLUICE_MARKET_GROUP_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MARKET_GROUP_KERNEL_INL_H_
#undef SLUICE_MARKET_GROUP_KERNEL_INL_H_
#else
#define SLUICE_MARKET_GROUP_KERNEL_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::market::HWY_NAMESPACE {

// Runs rule S with values V over the tiles of a group.
template <class S, class V>
class GroupKernel {
 public:
  GroupKernel(const SegmentGroupCall& call)
      : plan_(call.parameters.plan),
        floats_(call.parameters.floats != 0),
        ring_(reinterpret_cast<V*>(call.ring)),
        group_(call, floats_ ? sizeof(float) : sizeof(double)) {
    std::fill_n(ring_, plan_.ring, V(0));
  }

  void run() {
    for (std::int64_t t = 0, next; t < group_.longest; t = next) {
      throw_if_cancelled();
      if constexpr (kUsesRegisterTiles<S>) {
        if (!floats_ && !group_.bypasses_caches) t = run_register_tiles(t);
        if (t == group_.longest) break;
      }
      next = std::min(t + block_at(t), group_.longest);
      const int count = static_cast<int>(next - t);
      if (floats_)
        load_tiles<Loader, float>(group_, t, count, in_tiles_);
      else
        load_tiles<Loader, double>(group_, t, count, in_tiles_);
      if (kSettles && t > plan_.lookback)
        compute<kSettles>(t, count);
      else
        compute<false>(t, count);
      for (int k = 0; k < S::kOutputs; k += Storer::kOutputs) {
        if (floats_)
          store_tiles<Storer, float>(group_, k, t, count, out_tiles_ + k);
        else
          store_tiles<Storer, double>(group_, k, t, count, out_tiles_ + k);
      }
    }
    hwy::FlushStream();
    if (stores_lookback()) blank_lookback();
  }

 private:
  static constexpr int kWidth = V::kWidth, kVectors = kWidth / kLanes;
  using Loader = typename LoaderFor<S>::Type;
  using Storer = typename StorerFor<S>::Type;
  static constexpr int kLoaded = Loader::kLoaded, kStored = StorerFor<S>::kStored;
  static constexpr bool kEvenlySpaced = kRefines<S> && kVectors == 1;
  static constexpr bool kSettles = requires { std::declval<S&>().settle(); };

  // The length of the next block. A block ends where register tiles can begin.
  std::int64_t block_at(std::int64_t t) const {
    if (t == 0 && group_.lead > 0) return group_.lead;
    const std::int64_t before = first_register_tile() - t;
    if (!kUsesRegisterTiles<S> || before <= 0) return kBlock<kWidth>;
    return std::min<std::int64_t>((before + kLanes - 1) / kLanes * kLanes, kBlock<kWidth>);
  }
  std::int64_t first_register_tile() const {
    if (stores_lookback()) return group_.lead;
    return std::max<std::int64_t>(group_.all_from, plan_.lookback + 1);
  }

  // Whether the outputs of the look-back are stored, and made NaN by blank_lookback() afterwards: a
  // rule without settle() can then use register tiles from the first bar on.
  bool stores_lookback() const {
    return kUsesRegisterTiles<S> && !kSettles && group_.covers_lookback && !floats_ &&
           !group_.bypasses_caches;
  }
  void blank_lookback() {
    for (int k = 0; k < S::kOutputs; ++k)
      for (int l = 0; l < kWidth; ++l)
        std::fill_n(reinterpret_cast<double*>(group_.out[k][l]),
                    std::min<std::int64_t>(plan_.lookback, group_.end[l]),
                    std::numeric_limits<double>::quiet_NaN());
  }

  // The addresses of the rows of a register tile. Evenly spaced rows need no table.
  struct TileRows {
    const SegmentGroup<kWidth>& group;
    std::int64_t t, row_stride;
    const double* first;
    double* to[S::kOutputs];

    TileRows(const SegmentGroup<kWidth>& segments, std::int64_t from)
        : group(segments),
          t(from),
          row_stride(segments.row_stride),
          first(reinterpret_cast<const double*>(segments.in[0][0]) + from) {
      for (int k = 0; k < S::kOutputs; ++k)
        to[k] = reinterpret_cast<double*>(segments.out[k][0]) + from;
    }
    HWY_INLINE void next() {
      t += kLanes;
      first += kLanes;
      for (int k = 0; k < S::kOutputs; ++k) to[k] += kLanes;
    }
    HWY_INLINE const double* in(int l) const {
      if constexpr (kEvenlySpaced) return first + l * row_stride;
      return reinterpret_cast<const double*>(group.in[0][l]) + t;
    }
    HWY_INLINE double* out(int k, int l) const {
      if constexpr (kEvenlySpaced) return to[k] + l * row_stride;
      return reinterpret_cast<double*>(group.out[k][l]) + t;
    }
  };
  using RegisterTile = Vec[kVectors][kLanes];

  // Loads, computes and stores register tiles from bar t on, while all segments have and store
  // their bars. Returns the next bar. The processor works on several tiles at once.
  HWY_NOINLINE std::int64_t run_register_tiles(std::int64_t t) {
    if (t < first_register_tile() || (kEvenlySpaced && group_.row_stride == 0)) return t;
    const Plan plan = plan_;
    S state = state_;
    if constexpr (kSettles) state.settle();
    TileRows rows(group_, t);
    for (; rows.t + kLanes <= group_.all_to; rows.next()) {
      RegisterTile loaded, made[kStored];
      HWY_UNROLL(4)
      for (int u = 0; u < kVectors; ++u) load_register_tile(rows, u, loaded[u]);
      compute_register_tile(state, plan, loaded, made);
      HWY_UNROLL(4)
      for (int u = 0; u < kVectors; ++u) store_register_tile(plan, rows, u, made);
    }
    state_ = state;
    return rows.t;
  }

  // A rule with a window is limited by operations and stores, so it loads and stores full rows and
  // does all shuffles (5 % on Zen 4). The others wait for a chain, quotient or root and for
  // shuffles, of which half rows save some.
  static constexpr bool kFullTranspose = S::kUsesRing;

  HWY_INLINE void load_register_tile(const TileRows& rows, int u, Vec* loaded) const {
    if constexpr (kFullTranspose && !kRefines<S>) {
      for (int l = 0; l < kLanes; ++l) loaded[l] = load_bars(rows.in(u * kLanes + l));
      transpose(loaded);
    } else {
      const double* at[kLanes];
      for (int l = 0; l < kLanes; ++l) at[l] = rows.in(u * kLanes + l);
      load_rows(at, loaded);
    }
  }

  HWY_INLINE void compute_register_tile(S& state, const Plan& plan, const RegisterTile& loaded,
                                        RegisterTile* made) {
    if constexpr (requires { state.block_remaining(plan); }) {
      if (state.block_remaining(plan) >= kLanes)
        return update_register_tile<false>(state, plan, loaded, made);
    }
    update_register_tile<true>(state, plan, loaded, made);
  }

  template <bool kBlockEnds>
  HWY_INLINE void update_register_tile(S& state, const Plan& plan, const RegisterTile& loaded,
                                       RegisterTile* made) {
    HWY_UNROLL(8)
    for (int i = 0; i < kLanes; ++i) {
      const V bar = vectors_at<kVectors>(loaded, i);
      V out[kStored];
      for (int k = 0; k < kStored; ++k) out[k] = V(0);
      update_rule<kBlockEnds>(state, plan, &bar, ring_, out);
      for (int k = 0; k < kStored; ++k) put_vectors(out[k].v, made[k], i);
      if constexpr (kRefines<S>) {
        if (i % 2 == 1) refine_pair(plan, i - 1, made[S::kRefined]);
      }
    }
  }

  // Refines two bars at a time: one root by each of two algorithms.
  HWY_INLINE void refine_pair(const Plan& plan, int i, RegisterTile& made) {
    HWY_UNROLL(4)
    for (int u = 0; u < kVectors; ++u) {
      const SimdValue<2> pair =
          S::refine(plan, SimdValue<2>(Vectors<2>{{made[u][i]}, {made[u][i + 1]}}));
      made[u][i] = pair.v.a.a;
      made[u][i + 1] = pair.v.b.a;
    }
  }

  HWY_INLINE void store_register_tile(const Plan& plan, const TileRows& rows, int u,
                                      RegisterTile* made) const {
    HWY_UNROLL(4)
    for (int k = 0; k < kStored; ++k) {
      if constexpr (kFullTranspose)
        transpose(made[k][u]);
      else
        split_register_tile(made[k][u]);
    }
    if constexpr (kFullTranspose)
      store_rows(plan, rows, u, made);
    else
      store_row_pairs(plan, rows, u, made);
  }

  HWY_INLINE void store_rows(const Plan& plan, const TileRows& rows, int u,
                             RegisterTile* made) const {
    HWY_UNROLL(8)
    for (int l = 0; l < kLanes; ++l) {
      RowValue in[kStored], out[S::kOutputs];
      for (int k = 0; k < kStored; ++k) in[k] = Vectors<1>{made[k][u][l]};
      Storer::expand(plan, in, out);
      for (int k = 0; k < S::kOutputs; ++k) store_bars(out[k].v.a, rows.out(k, u * kLanes + l));
    }
  }

  HWY_INLINE void store_row_pairs(const Plan& plan, const TileRows& rows, int u,
                                  RegisterTile* made) const {
    HWY_UNROLL(4)
    for (int j = 0; j < kLanes / 2; ++j) {
      SimdValue<2> in[kStored], out[S::kOutputs];
      HWY_UNROLL(4)
      for (int k = 0; k < kStored; ++k) {
        in[k].v.a.a = made[k][u][j];
        in[k].v.b.a = made[k][u][j + kLanes / 2];
      }
      Storer::expand(plan, in, out);
      const int row = u * kLanes + row_of_pair(j);
      HWY_UNROLL(3)
      for (int k = 0; k < S::kOutputs; ++k)
        store_pair(out[k].v.a.a, out[k].v.b.a, rows.out(k, row), rows.out(k, row + 2));
    }
  }

  // Works on copies of the state and the plan, so that they stay in registers.
  template <bool kSteady>
  HWY_NOINLINE void compute(std::int64_t t, int count) {
    const Plan plan = plan_;
    S state = state_;
    V* const ring = ring_;
    const std::int64_t element = group_.bypasses_caches ? 0
                                 : floats_              ? sizeof(float)
                                                        : sizeof(double);
    if constexpr (kSteady) state.settle();
    int i = 0;
    if constexpr (requires { state.block_remaining(plan); }) {
      while (i < count) {
        const int stop = std::min(count, i + state.block_remaining(plan));
        for (; i < stop; ++i) {
          bar<false>(state, plan, ring, i);
          prefetch_outputs(t, i, element);
        }
        if (i < count) bar<true>(state, plan, ring, i++);
      }
    } else {
      for (; i < count; ++i) {
        bar<true>(state, plan, ring, i);
        prefetch_outputs(t, i, element);
      }
    }
    state_ = state;
  }

  // Prefetches cache lines that this block will be written to: with each bar those of an eighth of
  // the segments.
  HWY_INLINE void prefetch_outputs(std::int64_t t, int i, std::int64_t element) {
    if (element == 0) return;
    constexpr int kEighth = std::max(kWidth / 8, 1);
    const std::int64_t at = (t + (i & ~7)) * element;
    const int first = (i & 7) * kEighth % kWidth;
    for (int k = 0; k < S::kOutputs; ++k)
      for (int l = first; l < first + kEighth; ++l) hwy::Prefetch(group_.out[k][l] + at);
  }

  template <bool kBlockEnds>
  HWY_INLINE void bar(S& state, const Plan& plan, V* ring, int i) {
    V loaded[kLoaded], made[kStored];
    for (int k = 0; k < kLoaded; ++k)
      loaded[k] = load_value<V>(in_tiles_[k] + i * kLanes, kBlock<kWidth> * kLanes);
    for (int k = 0; k < kStored; ++k) made[k] = V(0);
    update_rule<kBlockEnds>(state, plan, loaded, ring, made);
    if constexpr (kRefines<S>) made[S::kRefined] = S::refine(plan, made[S::kRefined]);
    for (int k = 0; k < kStored; ++k)
      store_value(made[k], out_tiles_[k] + i * kLanes, kBlock<kWidth> * kLanes);
  }

  const Plan& plan_;
  const bool floats_;
  V* const ring_;
  const SegmentGroup<kWidth> group_;
  S state_{};
  HWY_ALIGN Tile<kWidth> in_tiles_[kLoaded];
  HWY_ALIGN Tile<kWidth> out_tiles_[kStored];
};

// Runs the call, unless it is null, by the visited rule. `segments` becomes the size of a full
// group.
struct RunGroup {
  const SegmentGroupCall* call;
  std::size_t segments = 0;

  template <class S>
  void run() {
    using V = SimdValueFor<S>;
    if (call != nullptr) GroupKernel<typename RebindValue<S, V>::Type, V>(*call).run();
    segments = V::kWidth;
  }
};

}  // namespace sluice::market::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
