#include "market/options/black_scholes.h"

#include "base/error.h"
#include "market/gpu/gpu_operations.h"
#include "market/input/require.h"
#include "market/options/black_scholes_kernels.h"
#include "market/options/implied_formula.h"

namespace sluice::market {
namespace {

using compute::Call;
using compute::Operand;

void implied_on_cpu(const Call& call, compute::Workers& workers) {
  const double w = call.with<OptionSign>().w;
  const auto at = [&](std::size_t column, std::size_t i) {
    return call.input<double>(column)[call.in[column].item_bytes != 0 ? i : 0];
  };
  workers.each(call.items, 256, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const auto found = formula::implied<fast::HostMath>(w, at(0, i), at(1, i), at(2, i), at(3, i),
                                                          at(4, i), at(5, i));
      call.output<double>(0)[i] = found.vol;
      call.output<ImpliedReason>(1)[i] = static_cast<ImpliedReason>(found.reason);
    }
  });
}

OptionSign sign_of(OptionKind kind) { return {kind == OptionKind::call ? 1.0 : -1.0}; }

template <class T>
void add_result(Call& call, std::span<T> column) {
  call.out.push_back({.data = column.data(), .item_bytes = sizeof(T)});
}

}  // namespace

template <class T>
compute::Outcome black_scholes(compute::Compute& compute, const OptionColumns<T>& options,
                               std::span<T> call, std::span<T> put,
                               compute::DevicePreference device) {
  require_length("put", put.size(), call.size());
  Call c = option_call(options, call.size());
  add_result(c, call);
  add_result(c, put);
  return compute.run(black_scholes_operation<T>(), c, device);
}

std::string_view name(Greek greek) {
  static constexpr std::string_view kNames[] = {
      "price",      "delta", "gamma", "vega",  "theta", "rho",   "dividend_rho",
      "elasticity", "vanna", "vomma", "charm", "speed", "zomma", "color"};
  return kNames[static_cast<std::size_t>(greek)];
}

template <class T>
Greeks<T> black_scholes_greeks(compute::Compute& compute, const OptionColumns<T>& options,
                               OptionKind kind, std::size_t count,
                               compute::DevicePreference device) {
  Greeks<T> out(count);
  Call call = option_call(options, count);
  const OptionSign parameters = sign_of(kind);
  call.parameters = &parameters;
  call.parameters_bytes = sizeof parameters;
  for (std::size_t g = 0; g < kGreekCount; ++g) add_result(call, out[static_cast<Greek>(g)]);
  out.outcome = compute.run(greeks_operation<T>(), call, device);
  return out;
}

std::string_view explain(ImpliedReason reason) {
  switch (reason) {
    case ImpliedReason::found: return "found";
    case ImpliedReason::bad_input:
      return "a number is not finite, or spot, strike or t is not above zero";
    case ImpliedReason::below_intrinsic: return "the price is below the intrinsic value";
    case ImpliedReason::no_time_value: return "the price is the intrinsic value";
    case ImpliedReason::above_maximum: return "the price is above what any volatility gives";
  }
  return "unknown";
}

compute::Outcome implied_volatility(compute::Compute& compute, Column<double> price,
                                    const OptionColumns<double>& options, OptionKind kind,
                                    std::span<double> vol, std::span<ImpliedReason> reasons,
                                    compute::DevicePreference device) {
  require_length("reasons", reasons.size(), vol.size());
  if (!price.is_scalar()) require_length("price", price.size(), vol.size());
  OptionColumns<double> others = options;
  others.vol = 0.0;
  Call call = option_call(others, vol.size());
  call.in.pop_back();
  call.in.insert(call.in.begin(), price.operand());
  const OptionSign parameters = sign_of(kind);
  call.parameters = &parameters;
  call.parameters_bytes = sizeof parameters;
  add_result(call, vol);
  add_result(call, reasons);
  return compute.run(implied_volatility_operation(), call, device);
}

template <>
const compute::Operation& black_scholes_operation<double>() {
  static const compute::Operation o{"black_scholes", black_scholes_cpu<double>,
                                    gpu_operations().black_scholes_double};
  return o;
}
template <>
const compute::Operation& black_scholes_operation<float>() {
  static const compute::Operation o{"black_scholes_float", black_scholes_cpu<float>,
                                    gpu_operations().black_scholes_float};
  return o;
}
template <>
const compute::Operation& greeks_operation<double>() {
  static const compute::Operation o{"greeks", greeks_cpu<double>, gpu_operations().greeks_double};
  return o;
}
template <>
const compute::Operation& greeks_operation<float>() {
  static const compute::Operation o{"greeks_float", greeks_cpu<float>,
                                    gpu_operations().greeks_float};
  return o;
}
const compute::Operation& implied_volatility_operation() {
  static const compute::Operation o{"implied_volatility", implied_on_cpu,
                                    gpu_operations().implied_volatility};
  return o;
}

template compute::Outcome black_scholes(compute::Compute&, const OptionColumns<double>&,
                                        std::span<double>, std::span<double>,
                                        compute::DevicePreference);
template compute::Outcome black_scholes(compute::Compute&, const OptionColumns<float>&,
                                        std::span<float>, std::span<float>,
                                        compute::DevicePreference);
template Greeks<double> black_scholes_greeks(compute::Compute&, const OptionColumns<double>&,
                                             OptionKind, std::size_t, compute::DevicePreference);
template Greeks<float> black_scholes_greeks(compute::Compute&, const OptionColumns<float>&,
                                            OptionKind, std::size_t, compute::DevicePreference);

}  // namespace sluice::market
