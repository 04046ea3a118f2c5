// European options by Black, Scholes and Merton: prices, Greeks, implied volatility.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "compute/compute.h"
#include "market/options/columns.h"

namespace sluice::market {

// Call and put of every option. Within 1e-15 of (spot + strike) in double, 3e-7 in float,
// on every device. Zero t or vol gives the discounted intrinsic value, and so does a spot or
// strike of zero; a negative spot, strike, t or vol, or a number that is not finite (rate and
// yield times t, and vol times its root, included), gives NaN: call and put.
template <class T>
compute::Outcome black_scholes(
    compute::Compute& compute, const OptionColumns<T>& options, std::span<T> call, std::span<T> put,
    compute::DevicePreference device = compute::DevicePreference::automatic);

// Per year and per 1.00 of rate or volatility. `theta`, `charm` and `color` are changes
// as the calendar moves on; theta per day is theta / 365.
enum class Greek {
  price,
  delta,
  gamma,
  vega,
  theta,
  rho,
  dividend_rho,
  elasticity,
  vanna,
  vomma,
  charm,
  speed,
  zomma,
  color
};
inline constexpr std::size_t kGreekCount = 14;
std::string_view name(Greek greek);

template <class T>
class Greeks {
 public:
  explicit Greeks(std::size_t options) {
    for (auto& column : columns_) column.resize(options);
  }
  std::span<const T> operator[](Greek g) const { return columns_[static_cast<std::size_t>(g)]; }
  std::span<T> operator[](Greek g) { return columns_[static_cast<std::size_t>(g)]; }
  std::vector<T> take(Greek g) { return std::move(columns_[static_cast<std::size_t>(g)]); }

  compute::Outcome outcome{};  // where, and why there

 private:
  std::array<std::vector<T>, kGreekCount> columns_;
};

// Where the outcome is certain (t or vol of zero, spot or strike of zero, tens of deviations
// from the strike) they are those of the discounted difference: gamma, vega and the higher
// ones 0, the elasticity of a price of 0 NaN. With t or vol of zero exactly at the money some
// are NaN. Where black_scholes() gives NaN, every Greek is one.
template <class T>
Greeks<T> black_scholes_greeks(
    compute::Compute& compute, const OptionColumns<T>& options, OptionKind kind, std::size_t count,
    compute::DevicePreference device = compute::DevicePreference::automatic);

// The reason why there is no implied volatility.
enum class ImpliedReason : std::uint8_t {
  found,            // there is
  bad_input,        // a number is not finite, or spot, strike or t is not above zero
  below_intrinsic,  // the price is under max(w (S e^-qt - K e^-rt), 0): arbitrage
  no_time_value,    // the price is the intrinsic value: any volatility near 0 fits
  above_maximum     // no volatility is enough: price over S e^-qt (call), K e^-rt (put)
};
std::string_view explain(ImpliedReason reason);

// The volatility that gives `price`; `options.vol` is not read. Relative error under 1e-10
// wherever the price determines it so far; NaN with a reason, or 0 for no_time_value.
compute::Outcome implied_volatility(
    compute::Compute& compute, Column<double> price, const OptionColumns<double>& options,
    OptionKind kind, std::span<double> vol, std::span<ImpliedReason> reasons,
    compute::DevicePreference device = compute::DevicePreference::automatic);

// The operations themselves, for benchmarks and tests of one device.
template <class T>
const compute::Operation& black_scholes_operation();
template <class T>
const compute::Operation& greeks_operation();
const compute::Operation& implied_volatility_operation();

}  // namespace sluice::market
