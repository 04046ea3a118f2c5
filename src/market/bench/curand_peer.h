// The kernel others would write for the same Asian simulation, to compare with: gpu_operations()
// has it as curand_asian.
#pragma once

namespace sluice::market {

// Paths of an item, a thread each. The parameters are an AsianPlan; the output is the mean price of
// each path, in floats.
inline constexpr unsigned kCurandPaths = 256;

}  // namespace sluice::market
