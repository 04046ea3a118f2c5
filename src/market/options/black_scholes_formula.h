// The Black-Scholes-Merton formula, for CPU vectors and GPU threads alike.
#pragma once

#include "market/math/fast_math.h"

namespace sluice::market::formula {

template <class T>
struct Pair {
  T call, put;
};

// Terms that price and Greeks share.
template <class T>
struct Terms {
  T spot, strike;  // discounted: by the dividend yield, by the rate
  T payout;        // what the yield leaves of one share
  T root_t, deviation, d1, d2;
  fast::Normal<T> n1, n2;
};

// NaN where an input is negative that may not be, or not finite. Zero time or volatility gives
// the discounted intrinsic value: the deviation is kept above zero and |d| within kFarOut. So
// does a spot or strike of zero: it is one only to the logarithm that it is not.
template <class M, class T>
SLUICE_FLAT Terms<T> terms(T spot, T strike, T t, T rate, T yield, T vol) {
  using P = fast::Poly<T>;
  Terms<T> o;
  o.root_t = M::sqrt(t);
  const T spread = vol * o.root_t;
  o.deviation = M::at_least(spread, P::kTiny);
  const T discount = -rate * t, payout = -yield * t;  // logarithms
  o.strike = strike * fast::exp<M>(discount);
  o.payout = fast::exp<M>(payout);
  o.spot = spot * o.payout;
  const T growth = payout - discount;
  const T moneyness =
      fast::log_ratio<M>(M::at_least(spot, P::kMinPrice), M::at_least(strike, P::kMinPrice)) +
      growth;
  o.d1 = std::fma(T(0.5), o.deviation, moneyness * M::reciprocal(o.deviation));
  // Infinite prices are NaN in the logarithm already.
  const fast::Bits<T> signs = fast::bits(spot) | fast::bits(strike) | fast::bits(t) |
                              fast::bits(vol) | fast::not_finite(growth) | fast::not_finite(spread);
  const bool wrong = signs >> (8 * sizeof(T) - 1) != 0;
  o.d1 = wrong ? T(NAN) : o.d1;
  o.d2 = o.d1 - o.deviation;
  o.n1 = fast::normal<M>(o.d1);
  o.n2 = fast::normal<M>(o.d2);
  return o;
}

template <class M, class T>
SLUICE_FLAT Pair<T> price(T spot, T strike, T t, T rate, T yield, T vol) {
  const Terms<T> o = terms<M>(spot, strike, t, rate, yield, vol);
  const T call = o.spot * o.n1.below - o.strike * o.n2.below;
  const T put = o.strike * o.n2.above - o.spot * o.n1.above;
  return {M::negative(call) ? T(0) : call, M::negative(put) ? T(0) : put};  // by rounding
}

inline constexpr int kGreeks = 14;  // in the order of market::Greek

// Nothing is uncertain any more: the price ends on one side of the strike, whatever happens.
// There tails and densities, which fast::normal() keeps above zero, are zero.
template <class T>
SLUICE_FLAT bool is_certain(const Terms<T>& o) {
  constexpr T far = fast::Poly<T>::kFarOut;
  return (o.d1 > far && o.d2 > far) || (o.d1 < -far && o.d2 < -far);
}

// `w` is 1 for a call and -1 for a put. Rates of change per year and per 1.00 of
// volatility or rate; time means the calendar's, so that theta is usually negative.
template <class M, class T>
SLUICE_FLAT void greeks(T w, T spot, T strike, T t, T rate, T yield, T vol, T (&out)[kGreeks]) {
  Terms<T> o = terms<M>(spot, strike, t, rate, yield, vol);
  const bool certain = is_certain(o);
  const T ends_in = w * o.d1 > 0 ? T(1) : T(0);
  const T in1 = certain ? ends_in : w > 0 ? o.n1.below : o.n1.above;
  const T in2 = certain ? ends_in : w > 0 ? o.n2.below : o.n2.above;
  o.d1 = certain ? T(0) : o.d1;
  o.d2 = certain ? T(0) : o.d2;
  // Divisors of what is zero then.
  spot = certain && spot == 0 ? T(1) : spot;
  const T years = certain && t == 0 ? T(1) : t, v = certain && vol == 0 ? T(1) : vol;
  const T density = certain ? T(0) : o.payout * o.n1.bell * T(0.3989422804014327);
  const T sd = o.deviation, worth = w * (o.spot * in1 - o.strike * in2);
  const T price = M::negative(worth) ? T(0) : worth;  // by rounding
  const T delta = w * o.payout * in1, gamma = density / (spot * sd);
  const T vega = spot * density * o.root_t;
  const T drift = T(2) * (rate - yield) * t - o.d2 * sd;
  out[0] = price;
  out[1] = delta;
  out[2] = gamma;
  out[3] = vega;
  out[4] = w * (yield * o.spot * in1 - rate * o.strike * in2) - T(0.5) * vega * v / years;
  out[5] = w * t * o.strike * in2;
  out[6] = -w * t * o.spot * in1;
  out[7] = delta * spot / price;
  out[8] = -density * o.d2 / v;
  out[9] = vega * o.d1 * o.d2 / v;
  out[10] = yield * delta - density * drift / (T(2) * years * sd);
  out[11] = -gamma / spot * (o.d1 / sd + T(1));
  out[12] = gamma * (o.d1 * o.d2 - T(1)) / v;
  out[13] = gamma / (T(2) * years) * (T(2) * yield * t + T(1) + drift * o.d1 / sd);
}

}  // namespace sluice::market::formula
