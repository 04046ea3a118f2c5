// Lines run side by side in the lanes of vectors, several vectors at once to hide the
// latency of each rule's chain. A block of bars is transposed in, computed, transposed out.
//
// In caches, rules of one input go square by square instead, kLanes bars at a time through
// registers: loads, shuffles, chains and quotients of several squares are then under way
// together, so that the busiest of them is the limit and not their sum.
//
// Limit, in cycles a point with 8 lanes and two vector ports, arrays in the L2 cache; shuffles
// of a square 16 in and 16 out for 64 points; lines to and from the L2 cache 0.6 with one
// output, 1.4 with three. Seen on Ice Lake, everything around it included, 32 x 1,000.
//   EMA     chain of 12 cycles for 16 lines: 0.75. Seen 1.0, 75 %.
//   SMA     72 operations for 64 points, and the cache: 0.6. Seen 1.7, 35 %; the end of a
//           block, a chain of 4 cycles a bar, stands in the way.
//   RSI     the quotient, 16 cycles a vector: 2.0. Seen 2.3, 87 %.
//   BBANDS  304 operations for 64 points, half of the roots among them: 2.4. Seen 5.6, 43 %.
//   MACD    three outputs: 1.4. Seen 3.3, 42 %.
// In blocks, where times add up:
//   ATR     three inputs 0.9, one transpose 0.4, chain 0.3, out 0.4: 2.0. Seen 2.6, 77 %.
// Beyond the caches: 8 bytes for each input and output of a point.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "market/indicators/batch_cpu.cc"
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "market/indicators/batch.h"
#include "market/indicators/group.h"
#include "market/indicators/line_group-inl.h"
#include "market/indicators/rules_signal-inl.h"
#include "market/indicators/squares-inl.h"

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

// Rules whose bars go through registers in squares: those that leave enough of them for it,
// and with 4 lanes, which have 16 registers, those without a window.
template <class S>
constexpr bool kInSquares = S::kInputs == 1 && S::kCarries <= 3 &&
                            (kLanes == 8 || (kLanes == 4 && !S::kKeeps));

// Vectors that run together: 16 lines (more are more streams than caches and memory follow),
// and no more than what the rule carries from bar to bar leaves half of the registers for.
// In squares a rule with a window or a quotient has enough to do with one.
template <class S>
constexpr int together() {
  if (kInSquares<S> && kLanes == 8 && (S::kKeeps || requires { S::kRaw; })) return 1;
  constexpr int kHalf = kLanes >= 8 || !HWY_ARCH_X86 ? 16 : 8;
  int n = std::clamp(16 / kLanes, 1, 8);
  while (n > 1 && n * S::kCarries > kHalf) n /= 2;
  return n;
}

// How the bars of rule S go in and out.
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

// One bar, as far as it goes line by line.
template <bool kTurns, class S, class V>
HWY_INLINE void step(S& state, const Plan& plan, const V* bar, V* ring, V* made) {
  if constexpr (requires { S::kMade; }) {
    state.template make<kTurns>(plan, bar, ring, made);
  } else if constexpr (requires { S::kTaken; }) {
    state.take(plan, bar, ring, made);
  } else if constexpr (requires { state.room(plan); }) {
    state.template update<kTurns>(plan, bar, ring, made);
  } else {
    state.update(plan, bar, ring, made);
  }
}

// Runs rule S with values V over the tiles of a group.
template <class S, class V>
class Sweep {
 public:
  Sweep(const GroupCall& call)
      : plan_(call.batch.plan),
        floats_(call.batch.floats != 0),
        ring_(reinterpret_cast<V*>(call.ring)),
        group_(call, floats_ ? sizeof(float) : sizeof(double)) {
    std::fill_n(ring_, plan_.ring, V(0));
  }

  void run() {
    for (std::int64_t t = 0, next; t < group_.longest; t = next) {
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
      if (t > plan_.lookback)
        compute<true>(t, count);
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
  }

 private:
  static constexpr int kLines = V::kLines, kVectors = kLines / kLanes;
  using From = typename Taking<S>::From;
  using To = typename Giving<S>::To;
  static constexpr int kTaken = From::kTaken, kMade = Giving<S>::kMade;

  // Of the next block: up to the first bar for squares, where there are any.
  std::int64_t block_at(std::int64_t t) const {
    if (t == 0 && group_.lead > 0) return group_.lead;
    const std::int64_t before = first_square() - t;
    if (!kInSquares<S> || before <= 0) return kBlock<kLines>;
    return std::min<std::int64_t>((before + kLanes - 1) / kLanes * kLanes, kBlock<kLines>);
  }
  std::int64_t first_square() const {
    return std::max<std::int64_t>(group_.all_from, plan_.lookback + 1);
  }

  // Squares of bars from t on, as far as all lines have and store them, in, computed and out
  // again one after the other: the processor is at work on several at once.
  HWY_NOINLINE std::int64_t squares(std::int64_t t) {
    if (t < first_square()) return t;
    const Plan plan = plan_;
    S state = state_;
    if constexpr (requires { state.settle(); }) state.settle();
    for (; t + kLanes <= group_.all_to; t += kLanes) {
      Vec taken[kVectors][kLanes], made[kMade][kVectors][kLanes];
      HWY_UNROLL(2)
      for (int u = 0; u < kVectors; ++u) take_square(u, t, taken[u]);
      compute_square(state, plan, taken, made);
      HWY_UNROLL(2)
      for (int u = 0; u < kVectors; ++u) give_square(plan, u, t, made);
    }
    state_ = state;
    return t;
  }

  HWY_INLINE void take_square(int u, std::int64_t t, Vec* taken) const {
    const double* rows[kLanes];
    for (int l = 0; l < kLanes; ++l)
      rows[l] = reinterpret_cast<const double*>(group_.in[0][u * kLanes + l]) + t;
    load_rows(rows, taken);
  }

  using Square = Vec[kVectors][kLanes];

  // What is indexed by a variable lies in memory: only squares in which a window's block ends
  // go that way.
  HWY_INLINE void compute_square(S& state, const Plan& plan, const Square& taken, Square* made) {
    V* const ring = ring_;
    if constexpr (requires { state.room(plan); }) {
      if (HWY_UNLIKELY(state.room(plan) < kLanes)) {
        Square from, to[kMade];
        std::memcpy(from, taken, sizeof from);
        HWY_UNROLL(1)
        for (int i = 0; i < kLanes; ++i) {
          if (state.room(plan) > 0)
            square_bar<false>(state, plan, from, ring, i, to);
          else
            square_bar<true>(state, plan, from, ring, i, to);
        }
        std::memcpy(made, to, sizeof to);
        return;
      }
    }
    constexpr bool kTurns = !requires { state.room(plan); };
    HWY_UNROLL(8)
    for (int i = 0; i < kLanes; ++i) square_bar<kTurns>(state, plan, taken, ring, i, made);
  }

  template <bool kTurns>
  HWY_INLINE void square_bar(S& state, const Plan& plan, const Square& taken, V* ring, int i,
                             Square* made) {
    const V bar = bundle_at<kVectors>(taken, i);
    V out[kMade];
    for (int k = 0; k < kMade; ++k) out[k] = V(0);
    step<kTurns>(state, plan, &bar, ring, out);
    for (int k = 0; k < kMade; ++k) put_bundle(out[k].v, made[k], i);
  }

  // Two rows at a time, so that roots go both ways.
  HWY_INLINE void give_square(const Plan& plan, int u, std::int64_t t, Square* made) const {
    HWY_UNROLL(2)
    for (int k = 0; k < kMade; ++k) part_square(made[k][u]);
    HWY_UNROLL(4)
    for (int j = 0; j < kLanes / 2; ++j) {
      Pack<2> in[kMade], out[S::kOutputs];
      HWY_UNROLL(2)
      for (int k = 0; k < kMade; ++k) {
        in[k].v.a.a = made[k][u][j];
        in[k].v.b.a = made[k][u][j + kLanes / 2];
      }
      To::widen(plan, in, out);
      const int row = u * kLanes + row_of_pair(j);
      HWY_UNROLL(3)
      for (int k = 0; k < S::kOutputs; ++k)
        store_pair(out[k].v.a.a, out[k].v.b.a, reinterpret_cast<double*>(group_.out[k][row]) + t,
                   reinterpret_cast<double*>(group_.out[k][row + 2]) + t);
    }
  }

  // State and plan are copies, so that they stay in registers.
  template <bool kSteady>
  HWY_INLINE void compute(std::int64_t t, int count) {
    const Plan plan = plan_;
    S state = state_;
    V* const ring = ring_;
    const std::int64_t element = group_.past_caches ? 0 : floats_ ? sizeof(float) : sizeof(double);
    if constexpr (kSteady && requires { state.settle(); }) state.settle();
    int i = 0;
    if constexpr (requires { state.room(plan); }) {
      while (i < count) {
        const int stop = std::min(count, i + state.room(plan));
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

  // Brings some of the cache lines near that this block is to be written to: each bar those
  // of an eighth of the lines.
  HWY_INLINE void fetch(std::int64_t t, int i, std::int64_t element) {
    if (element == 0) return;
    constexpr int kEighth = std::max(kLines / 8, 1);
    const std::int64_t at = (t + (i & ~7)) * element;
    const int first = (i & 7) * kEighth % kLines;
    for (int k = 0; k < S::kOutputs; ++k)
      for (int l = first; l < first + kEighth; ++l) hwy::Prefetch(group_.out[k][l] + at);
  }

  template <bool kTurns>
  HWY_INLINE void bar(S& state, const Plan& plan, V* ring, int i) {
    V taken[kTaken], made[kMade];
    for (int k = 0; k < kTaken; ++k)
      taken[k] = load_pack<V>(in_[k] + i * kLanes, kBlock<kLines> * kLanes);
    for (int k = 0; k < kMade; ++k) made[k] = V(0);
    step<kTurns>(state, plan, taken, ring, made);
    for (int k = 0; k < kMade; ++k)
      store_pack(made[k], made_[k] + i * kLanes, kBlock<kLines> * kLanes);
  }

  const Plan& plan_;
  const bool floats_;
  V* const ring_;
  const LineGroup<kLines> group_;
  S state_{};
  HWY_ALIGN Tile<kLines> in_[kTaken];
  HWY_ALIGN Tile<kLines> made_[kMade];
};

template <class S>
using PackFor = Pack<together<S>()>;

struct RunGroup {
  const GroupCall& call;

  template <class S>
  void run() {
    using V = PackFor<S>;
    Sweep<typename With<S, V>::Type, V>(call).run();
  }
};

struct CountLines {
  std::size_t lines = 0;

  template <class S>
  void run() {
    lines = PackFor<S>::kLines;
  }
};

void run_group(const GroupCall& call) { visit_rule<Row>(call.batch.plan, RunGroup{call}); }

void lane_roots(const double* in, double* out, std::size_t count) {
  using V = Pack<2>;
  HWY_ALIGN double block[V::kLines] = {};
  for (std::size_t i = 0; i < count; ++i) {
    std::fill_n(block, V::kLines, in[i]);
    store_pack(root(load_pack<V>(block)), block);
    // One way and the other.
    out[2 * i] = block[0];
    out[2 * i + 1] = block[V::kLines - 1];
  }
}

std::size_t group_lines(const Plan& plan) {
  CountLines count;
  visit_rule<Row>(plan, count);
  return count.lines;
}

}  // namespace sluice::market::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::market {

HWY_EXPORT(run_group);
HWY_EXPORT(group_lines);
HWY_EXPORT(lane_roots);

std::size_t lines_per_group(const Plan& plan) { return HWY_DYNAMIC_DISPATCH(group_lines)(plan); }
void roots_in_lanes(const double* in, double* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(lane_roots)(in, out, count);
}
void run_lines(const GroupCall& call) { HWY_DYNAMIC_DISPATCH(run_group)(call); }

}  // namespace sluice::market
#endif
