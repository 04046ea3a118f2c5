// American options by the method of Andersen, Lake and Offengenden (2016): the exercise
// boundary as a fixed point on Chebyshev nodes, then the price as an integral over it.
#pragma once

#include "compute/compute.h"
#include "market/options/columns.h"

namespace sluice::market {

// Discretization of the method. Largest errors seen, as a share of strike, for rates under 4 vol^2
// and up to 3 years: fast 5e-6, standard 1e-7, fine 2e-8; half of all are under 4e-8, 3e-10 and
// 2e-11. (QuantLib's accurate scheme on the same options: 1e-6.) Beyond that: 1e-5, 1e-6 and 1e-7.
enum class AmericanAccuracy { fast, standard, fine };

// One price per option. vol or t so small that nothing is uncertain gives the best
// moment's value; t 0 the intrinsic value. NaN where spot, strike, t or vol is negative or
// a number not finite; and for a put with a negative div_yield below its rate, or a call with a
// negative rate below its div_yield: the fixed point does not converge there, or there are two
// boundaries. Use binomial() there. CPU and GPU agree within 1e-11 of (spot + strike).
compute::Outcome american(compute::Compute& compute, const OptionColumns<double>& options,
                          OptionKind kind, std::span<double> price,
                          AmericanAccuracy accuracy = AmericanAccuracy::standard,
                          compute::DevicePreference device = compute::DevicePreference::automatic);

// The operation takes the six columns and these tables, shared by all options.
namespace formula {
struct AmericanTables;
}
formula::AmericanTables american_tables(AmericanAccuracy accuracy, OptionKind kind);
const compute::Operation& american_operation();

}  // namespace sluice::market
