// Shared by the benchmarks: medians, rows, and the clock around a repeat.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantile.h"
#include "device/bench/bench.h"

namespace sluice::device {

// The name is what --only and JSON use, the title what people read.
struct BenchName {
  std::string_view name;
  std::string_view title;
};

using sluice::quantile;

// A row from the seconds of each repeat. `work` is bytes or operations per
// repeat, and the value its rate; without work the value is the time itself.
BenchRow timed_row(BenchName what, std::string unit, std::optional<double> work,
                   std::vector<double> seconds);

BenchRow missing_row(BenchName what, std::string unit, std::string why);

// Seconds of one call of `work` on the host's clock.
double timed(const std::function<void()>& work);

// Random 64 bits from a counter: the same on the CPU and on a GPU.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Norm of (got - want) over norm of want; infinite when a value is not finite.
double relative_error(std::span<const double> got, std::span<const double> want);

// Bytes per second one way over a PCIe link as sysfs describes it: speed "32.0
// GT/s PCIe" and width "16". Nothing when either is unreadable.
std::optional<double> pcie_rate(std::string_view speed, std::string_view width);

}  // namespace sluice::device
