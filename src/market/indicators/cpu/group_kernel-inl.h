// Segments run in SIMD lanes, several vectors at once to hide the
// latency of each rule's chain. A block of bars is transposed in, computed, transposed out.
//
// In caches, rules of one input go square by square instead, kLanes bars at a time through
// registers: loads, shuffles, chains and quotients of several squares are then under way
// together, so that the busiest of them is the limit and not their sum. Included once per
// instruction set.
//
// Limit, in cycles a point with 8 lanes, two vector ports and one of them for shuffles, arrays
// in the L2 cache and aligned; lines to and from that cache 0.6 with one output, 1.5 with three.
// Seen on Ice Lake, 2.8 GHz with these vectors, its cores shared with others, 32 x 1,000.
//   EMA     chain of 12 cycles for 16 segments: 0.75. Seen 0.8, 94 %.
//   SMA     80 operations for 64 points, 48 of them shuffles: 0.75. Seen 1.3, 58 %.
//   RSI     the quotient, 16 cycles a vector: 2.0. Seen 2.3, 87 %.
//   BBANDS  255 operations for 64 points: window 87, roots 80 (half of them, the others take
//           96 cycles of their own unit), shuffles 72, bands 16: 2.0. Seen 3.1 (8 more). With the
//           shuffles and roots taken out it still takes 2.0: three outputs to the L2 cache.
//   MACD    three outputs: 1.5. Seen 2.6, 58 %.
// With 4 lanes: EMA 1.4, SMA 1.3, RSI 1.8; BBANDS on Zen 4, 3.5 GHz: 3.6 (2.9 without roots).
// In blocks, where times add up:
//   ATR     three inputs 0.9, one transpose 0.4, chain 0.3, out 0.4: 2.0. Seen 2.6, 77 %.
// Beyond the caches: 8 bytes for each input and output of a point.
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/cancellation.h"
#include "market/indicators/cpu/segment_group-inl.h"
#include "market/indicators/cpu/transpose_tiles-inl.h"
#include "market/indicators/rules/dispatch_rules-inl.h"

#if defined(SLUICE_MARKET_GROUP_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MARKET_GROUP_KERNEL_INL_H_
#undef SLUICE_MARKET_GROUP_KERNEL_INL_H_
#else
#define SLUICE_MARKET_GROUP_KERNEL_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::market::HWY_NAMESPACE {

// A rule with another kind of value.
template <class S, class V>
struct With;
template <template <class> class R, class W, class V>
struct With<R<W>, V> {
  using Type = R<V>;
};
template <class Form, template <class, Form> class R, class W, Form form, class V>
struct With<R<W, form>, V> {
  using Type = R<V, form>;
};

// Rules whose bars go through registers in squares.
template <class S>
constexpr bool kInSquares = S::kInputs == 1 && S::kStateValues <= 3 && kLanes >= 4;

// Rules with one more thing to do about the bars of a square: a root.
template <class S>
constexpr bool kRefines = requires {
  S::kRefined;
};

// Vectors that run together: 16 segments (more are more streams than caches and memory follow),
// and no more than what the rule carries from bar to bar leaves half of the registers for.
// In squares a rule with a root, or with chains and quotients of long vectors, has enough to do
// with one.
template <class S>
constexpr int together() {
  constexpr bool kQuotients = !S::kUsesRing && requires { S::kRaw; };
  if (kInSquares<S> && (kRefines<S> || (kLanes == 8 && kQuotients))) return 1;
  if (kInSquares<S> && kLanes == 4) return 2;  // of 16 registers
  constexpr int kHalf = kLanes >= 8 || !HWY_ARCH_X86 ? 16 : 8;
  int n = std::clamp(16 / kLanes, 1, kLanes);
  while (n > 1 && n * S::kStateValues > kHalf) n /= 2;
  return n;
}

// How the bars of rule S are loaded and stored.
template <class S>
struct Taking {
  using From = AsTheyAre<S::kInputs>;
};
template <class S>
requires(S::kTaken > 0) struct Taking<S> {
  using From = Gathered<S>;
};
template <class S>
struct Giving {
  using To = AsItIs;
  static constexpr int kMade = S::kOutputs;
};
template <class S>
requires(S::kMade > 0) struct Giving<S> {
  using To = S;
  static constexpr int kMade = S::kMade;
};

// One bar, as far as it goes segment by segment.
template <bool kBlockEnds, class S, class V>
HWY_INLINE void step(S& state, const Plan& plan, const V* bar, V* ring, V* made) {
  if constexpr (requires { S::kMade; }) {
    state.template make<kBlockEnds>(plan, bar, ring, made);
  } else if constexpr (requires { S::kTaken; }) {
    state.take(plan, bar, ring, made);
  } else if constexpr (requires { state.block_remaining(plan); }) {
    state.template update<kBlockEnds>(plan, bar, ring, made);
  } else {
    state.update(plan, bar, ring, made);
  }
}

// Runs rule S with values V over the tiles of a group.
template <class S, class V>
class GroupKernel {
 public:
  GroupKernel(const GroupCall& call)
      : plan_(call.batch.plan),
        floats_(call.batch.floats != 0),
        ring_(reinterpret_cast<V*>(call.ring)),
        group_(call, floats_ ? sizeof(float) : sizeof(double)) {
    std::fill_n(ring_, plan_.ring, V(0));
  }

  void run() {
    for (std::int64_t t = 0, next; t < group_.longest; t = next) {
      throw_if_cancelled();
      if constexpr (kInSquares<S>) {
        if (!floats_ && !group_.past_caches) t = squares(t);
        if (t == group_.longest) break;
      }
      next = std::min(t + block_at(t), group_.longest);
      const int count = static_cast<int>(next - t);
      if (floats_)
        take_tiles<From, float>(group_, t, count, in_);
      else
        take_tiles<From, double>(group_, t, count, in_);
      if (kSettles && t > plan_.lookback)
        compute<kSettles>(t, count);
      else
        compute<false>(t, count);
      for (int k = 0; k < S::kOutputs; k += To::kOutputs) {
        if (floats_)
          give_tiles<To, float>(group_, k, t, count, made_ + k);
        else
          give_tiles<To, double>(group_, k, t, count, made_ + k);
      }
    }
    hwy::FlushStream();
    if (begins_early()) blank();
  }

 private:
  static constexpr int kWidth = V::kWidth, kVectors = kWidth / kLanes;
  using From = typename Taking<S>::From;
  using To = typename Giving<S>::To;
  static constexpr int kTaken = From::kTaken, kMade = Giving<S>::kMade;
  static constexpr bool kSpaced = kRefines<S> && kVectors == 1;
  static constexpr bool kSettles = requires { std::declval<S&>().settle(); };

  // The length of the next block: up to the first bar for squares, where there are any.
  std::int64_t block_at(std::int64_t t) const {
    if (t == 0 && group_.lead > 0) return group_.lead;
    const std::int64_t before = first_square() - t;
    if (!kInSquares<S> || before <= 0) return kBlock<kWidth>;
    return std::min<std::int64_t>((before + kLanes - 1) / kLanes * kLanes, kBlock<kWidth>);
  }
  std::int64_t first_square() const {
    if (begins_early()) return group_.lead;
    return std::max<std::int64_t>(group_.all_from, plan_.lookback + 1);
  }

  // A rule that need not settle may store what it makes in the look-back, if that is put right
  // afterwards.
  bool begins_early() const {
    return kInSquares<S> && !kSettles && group_.covers_lookback && !floats_ && !group_.past_caches;
  }
  void blank() {
    for (int k = 0; k < S::kOutputs; ++k)
      for (int l = 0; l < kWidth; ++l)
        std::fill_n(reinterpret_cast<double*>(group_.out[k][l]),
                    std::min<std::int64_t>(plan_.lookback, group_.end[l]),
                    std::numeric_limits<double>::quiet_NaN());
  }

  // The addresses of the rows of a square. Evenly spaced rows need no table.
  struct Rows {
    const SegmentGroup<kWidth>& group;
    std::int64_t t, apart;
    const double* first;
    double* to[S::kOutputs];

    Rows(const SegmentGroup<kWidth>& segments, std::int64_t from)
        : group(segments),
          t(from),
          apart(segments.apart),
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
      if constexpr (kSpaced) return first + l * apart;
      return reinterpret_cast<const double*>(group.in[0][l]) + t;
    }
    HWY_INLINE double* out(int k, int l) const {
      if constexpr (kSpaced) return to[k] + l * apart;
      return reinterpret_cast<double*>(group.out[k][l]) + t;
    }
  };
  using Square = Vec[kVectors][kLanes];

  // Squares of bars from t on, as far as all segments have and store them, in, computed and out
  // again, one after another: the processor is at work on several at once.
  HWY_NOINLINE std::int64_t squares(std::int64_t t) {
    if (t < first_square() || (kSpaced && group_.apart == 0)) return t;
    const Plan plan = plan_;
    S state = state_;
    if constexpr (kSettles) state.settle();
    Rows rows(group_, t);
    for (; rows.t + kLanes <= group_.all_to; rows.next()) {
      Square taken, made[kMade];
      HWY_UNROLL(4)
      for (int u = 0; u < kVectors; ++u) take_square(rows, u, taken[u]);
      compute_square(state, plan, taken, made);
      HWY_UNROLL(4)
      for (int u = 0; u < kVectors; ++u) give_square(plan, rows, u, made);
    }
    state_ = state;
    return rows.t;
  }

  // A rule with a window has too many operations and stores to spare any: full rows, and all
  // shuffles (5 % on Zen 4). The others wait for their chain, quotient or root, and for shuffles,
  // of which halves save some.
  static constexpr bool kWhole = S::kUsesRing;

  HWY_INLINE void take_square(const Rows& rows, int u, Vec* taken) const {
    if constexpr (kWhole && !kRefines<S>) {
      for (int l = 0; l < kLanes; ++l) taken[l] = load_bars(rows.in(u * kLanes + l));
      transpose(taken);
    } else {
      const double* at[kLanes];
      for (int l = 0; l < kLanes; ++l) at[l] = rows.in(u * kLanes + l);
      load_rows(at, taken);
    }
  }

  HWY_INLINE void compute_square(S& state, const Plan& plan, const Square& taken, Square* made) {
    if constexpr (requires { state.block_remaining(plan); }) {
      if (state.block_remaining(plan) >= kLanes)
        return square_bars<false>(state, plan, taken, made);
    }
    square_bars<true>(state, plan, taken, made);
  }

  template <bool kBlockEnds>
  HWY_INLINE void square_bars(S& state, const Plan& plan, const Square& taken, Square* made) {
    HWY_UNROLL(8)
    for (int i = 0; i < kLanes; ++i) {
      const V bar = bundle_at<kVectors>(taken, i);
      V out[kMade];
      for (int k = 0; k < kMade; ++k) out[k] = V(0);
      step<kBlockEnds>(state, plan, &bar, ring_, out);
      for (int k = 0; k < kMade; ++k) put_bundle(out[k].v, made[k], i);
      if constexpr (kRefines<S>) {
        if (i % 2 == 1) refine_pair(plan, i - 1, made[S::kRefined]);
      }
    }
  }

  // Refines two bars, so that roots use both algorithms.
  HWY_INLINE void refine_pair(const Plan& plan, int i, Square& made) {
    HWY_UNROLL(4)
    for (int u = 0; u < kVectors; ++u) {
      const Pack<2> pair = S::refine(plan, Pack<2>(Bundle<2>{{made[u][i]}, {made[u][i + 1]}}));
      made[u][i] = pair.v.a.a;
      made[u][i + 1] = pair.v.b.a;
    }
  }

  HWY_INLINE void give_square(const Plan& plan, const Rows& rows, int u, Square* made) const {
    HWY_UNROLL(4)
    for (int k = 0; k < kMade; ++k) {
      if constexpr (kWhole)
        transpose(made[k][u]);
      else
        part_square(made[k][u]);
    }
    if constexpr (kWhole)
      store_rows(plan, rows, u, made);
    else
      give_pairs(plan, rows, u, made);
  }

  HWY_INLINE void store_rows(const Plan& plan, const Rows& rows, int u, Square* made) const {
    HWY_UNROLL(8)
    for (int l = 0; l < kLanes; ++l) {
      Row in[kMade], out[S::kOutputs];
      for (int k = 0; k < kMade; ++k) in[k] = Bundle<1>{made[k][u][l]};
      To::widen(plan, in, out);
      for (int k = 0; k < S::kOutputs; ++k) store_bars(out[k].v.a, rows.out(k, u * kLanes + l));
    }
  }

  HWY_INLINE void give_pairs(const Plan& plan, const Rows& rows, int u, Square* made) const {
    HWY_UNROLL(4)
    for (int j = 0; j < kLanes / 2; ++j) {
      Pack<2> in[kMade], out[S::kOutputs];
      HWY_UNROLL(4)
      for (int k = 0; k < kMade; ++k) {
        in[k].v.a.a = made[k][u][j];
        in[k].v.b.a = made[k][u][j + kLanes / 2];
      }
      To::widen(plan, in, out);
      const int row = u * kLanes + row_of_pair(j);
      HWY_UNROLL(3)
      for (int k = 0; k < S::kOutputs; ++k)
        store_pair(out[k].v.a.a, out[k].v.b.a, rows.out(k, row), rows.out(k, row + 2));
    }
  }

  // State and plan are copies, so that they stay in registers.
  template <bool kSteady>
  HWY_NOINLINE void compute(std::int64_t t, int count) {
    const Plan plan = plan_;
    S state = state_;
    V* const ring = ring_;
    const std::int64_t element = group_.past_caches ? 0 : floats_ ? sizeof(float) : sizeof(double);
    if constexpr (kSteady) state.settle();
    int i = 0;
    if constexpr (requires { state.block_remaining(plan); }) {
      while (i < count) {
        const int stop = std::min(count, i + state.block_remaining(plan));
        for (; i < stop; ++i) {
          bar<false>(state, plan, ring, i);
          fetch(t, i, element);
        }
        if (i < count) bar<true>(state, plan, ring, i++);
      }
    } else {
      for (; i < count; ++i) {
        bar<true>(state, plan, ring, i);
        fetch(t, i, element);
      }
    }
    state_ = state;
  }

  // Prefetches some of the cache lines that this block will be written to: with each bar those
  // of an eighth of the segments.
  HWY_INLINE void fetch(std::int64_t t, int i, std::int64_t element) {
    if (element == 0) return;
    constexpr int kEighth = std::max(kWidth / 8, 1);
    const std::int64_t at = (t + (i & ~7)) * element;
    const int first = (i & 7) * kEighth % kWidth;
    for (int k = 0; k < S::kOutputs; ++k)
      for (int l = first; l < first + kEighth; ++l) hwy::Prefetch(group_.out[k][l] + at);
  }

  template <bool kBlockEnds>
  HWY_INLINE void bar(S& state, const Plan& plan, V* ring, int i) {
    V taken[kTaken], made[kMade];
    for (int k = 0; k < kTaken; ++k)
      taken[k] = load_pack<V>(in_[k] + i * kLanes, kBlock<kWidth> * kLanes);
    for (int k = 0; k < kMade; ++k) made[k] = V(0);
    step<kBlockEnds>(state, plan, taken, ring, made);
    if constexpr (kRefines<S>) made[S::kRefined] = S::refine(plan, made[S::kRefined]);
    for (int k = 0; k < kMade; ++k)
      store_pack(made[k], made_[k] + i * kLanes, kBlock<kWidth> * kLanes);
  }

  const Plan& plan_;
  const bool floats_;
  V* const ring_;
  const SegmentGroup<kWidth> group_;
  S state_{};
  HWY_ALIGN Tile<kWidth> in_[kTaken];
  HWY_ALIGN Tile<kWidth> made_[kMade];
};

template <class S>
using PackFor = Pack<together<S>()>;

// Runs a group, if there is one, and returns the size of a full one.
struct RunGroup {
  const GroupCall* call;
  std::size_t segments = 0;

  template <class S>
  void run() {
    using V = PackFor<S>;
    if (call != nullptr) GroupKernel<typename With<S, V>::Type, V>(*call).run();
    segments = V::kWidth;
  }
};

}  // namespace sluice::market::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
