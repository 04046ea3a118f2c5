// Sums, extremes and moments of the last n values without subtraction. Time is split into
// blocks of n bars, and a window is the end of one block and the beginning of the next.
// The beginnings are summed as bars come, the ends backwards when a block is full, into
// the ring. So a spike that leaves the window leaves no trace, nothing drifts, and each
// bar costs the same, whatever n.
//
// update() may be called from the first bar on; its result counts from the n-th. `ring` is
// the segment's memory of the past: ring[i] is a V&. A NaN stays in the running part for good,
// as it does in TA-Lib's running sums. kBlockEnds: a block may end at this bar; false
// saves the check.
#include "market/indicators/rules/scalar_value-inl.h"

#if defined(SLUICE_MARKET_ROLLING_WINDOWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MARKET_ROLLING_WINDOWS_INL_H_
#undef SLUICE_MARKET_ROLLING_WINDOWS_INL_H_
#else
#define SLUICE_MARKET_ROLLING_WINDOWS_INL_H_
#endif

SLUICE_RULES_BEGIN;
namespace sluice::market::SLUICE_RULES {

// The sum of the last n values. Keeps n values.
template <class V>
struct RollingSum {
  static constexpr int kStateValues = 1;
  V head = V(0);  // of this block
  int at = 0;     // in this block

  template <bool kBlockEnds = true, class R>
  SLUICE_RULE V update(int n, V x, R ring) {
    head = head + x;
    if (!kBlockEnds || at + 1 < n) {
      const V sum = head + ring[at + 1];
      ring[at++] = x;
      return sum;
    }
    ring[at] = x;
    V tail = x;
    for (int i = n - 2; i >= 0; --i) {
      tail = ring[i] + tail;
      ring[i] = tail;
    }
    const V sum = head;
    head = head - head;
    at = 0;
    return sum;
  }
};

// The sum of the last n values, weighted 1 (oldest) to n. Keeps n values.
template <class V>
struct RollingWeightedSum {
  static constexpr int kStateValues = 2;
  V head = V(0), weighted = V(0);
  int at = 0;

  template <bool kBlockEnds = true, class R>
  SLUICE_RULE V update(int n, V x, R ring) {
    head = head + x;
    weighted = weighted + x * V(at + 1);
    if (!kBlockEnds || at + 1 < n) {
      const V sum = (weighted + ring[at + 1]) + head * V(n - 1 - at);
      ring[at++] = x;
      return sum;
    }
    ring[at] = x;
    V plain = x;
    for (int i = n - 2; i >= 0; --i) {
      const V value = ring[i];
      plain = plain + value;
      ring[i] = ring[i + 1] + plain;
    }
    const V sum = weighted;
    head = head - head;
    weighted = head;
    at = 0;
    return sum;
  }
};

// The sums for mean and population variance: sums of distances from a centre that is
// itself in every window it serves, and of their squares, so that what cancels is never
// more than n times the variance, however small that is beside the values. Keeps 2 n values.
template <class V>
struct RollingMoments {
  V centre = V(0), head = V(0), squares = V(0);
  int at = 0;

  // ring[2 i]: a value of this block, or a sum of the end of the last; ring[2 i + 1]: a sum
  // of squares.
  template <bool kBlockEnds = true, class R>
  SLUICE_RULE void update(int n, V x, R ring, V& sum, V& sum_of_squares) {
    if (!kBlockEnds || at + 1 < n) {
      const V d = x - centre;
      head = head + d;
      squares = plus_product(squares, d, d);
      sum = head + ring[2 * at + 2];
      sum_of_squares = squares + ring[2 * at + 3];
      ring[2 * at++] = x;
    } else {
      const V stuck = (head - head) + (x - x);  // a NaN, once there was one
      centre = x;
      sum = V(0), sum_of_squares = V(0);
      sum_ends(n, ring, sum, sum_of_squares);
      sum = sum + stuck;
      head = stuck;
      squares = stuck;
      at = 0;
    }
  }

  // Adds two values at a time: only one addition then waits for the values before.
  template <class R>
  SLUICE_RULE void sum_ends(int n, R ring, V& sum, V& sum_of_squares) {
    ring[2 * n - 2] = sum;
    ring[2 * n - 1] = sum_of_squares;
    int i = n - 2;
    for (; i >= 1; i -= 2) {
      const V late = ring[2 * i] - centre, early = ring[2 * i - 2] - centre;
      const V both = late + early, squared = plus_product(late * late, early, early);
      ring[2 * i] = sum + late;
      ring[2 * i + 1] = plus_product(sum_of_squares, late, late);
      ring[2 * i - 2] = sum = sum + both;
      ring[2 * i - 1] = sum_of_squares = sum_of_squares + squared;
    }
    if (i < 0) return;
    const V d = ring[0] - centre;
    ring[0] = sum = sum + d;
    ring[1] = sum_of_squares = plus_product(sum_of_squares, d, d);
  }
};

// The largest (or smallest) of the last n values; a NaN does not count. Keeps n values.
template <class V, bool kLargest>
struct RollingExtreme {
  V head = V(0);
  int at = 0;

  SLUICE_RULE static V worst() { return V(kLargest ? -INFINITY : INFINITY); }
  SLUICE_RULE static V better(V a, V b) {  // `a` when `b` is a NaN
    return kLargest ? pick_lt(a, b, b, a) : pick_lt(b, a, b, a);
  }
  SLUICE_RULE static V checked(V best) {  // all were NaN
    return kLargest ? pick_lt(worst(), best, best, V(NAN)) : pick_lt(best, worst(), best, V(NAN));
  }

  template <bool kBlockEnds = true, class R>
  SLUICE_RULE V update(int n, V x, R ring) {
    head = better(at == 0 ? worst() : head, x);
    if (!kBlockEnds || at + 1 < n) {
      const V best = better(head, ring[at + 1]);
      ring[at++] = x;
      return checked(best);
    }
    ring[at] = x;
    V tail = worst();
    for (int i = n - 1; i >= 0; --i) {
      tail = better(tail, ring[i]);
      ring[i] = tail;
    }
    at = 0;
    return checked(head);
  }
};

// Returns the value of n bars ago. Keeps n values.
template <class V>
struct Delay {
  int at = 0;

  template <class R>
  SLUICE_RULE V update(int n, V x, R ring) {
    const V old = ring[at];
    ring[at] = x;
    at = at + 1 < n ? at + 1 : 0;
    return old;
  }
};

}  // namespace sluice::market::SLUICE_RULES
SLUICE_RULES_END;

#endif
