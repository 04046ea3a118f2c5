// The figures of `sluice bench market`: what is computed, how much work that is, and what of
// a GPU it needs at least.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "compute/operation.h"
#include "device/bench_stats.h"

namespace sluice::market {

// Of one unit of work. What a GPU has of each is its limit; 0 does not count.
struct Needs {
  double bytes = 0;   // read and written
  double fp64 = 0;    // double precision instructions
  double issued = 0;  // instructions of any kind
  double transcendental = 0;
};

struct Workload {
  device::BenchName what;
  std::string_view unit;  // "pt/s"
  const compute::Operation* operation = nullptr;
  compute::Call call{};
  double work = 0;  // units in the whole call
  Needs needs{};
  double tolerance = 0;     // greatest difference of a GPU's result, as a share of the value
  std::size_t checked = 0;  // items whose results are compared
  std::vector<std::vector<double>> arrays{};  // that the call refers to
  std::shared_ptr<const void> parameters{};
};

enum class Scale { quick, cpu, gpu };

// `cached`: arrays of a size that a core's caches hold; for the CPU only.
struct Figure {
  device::BenchName what;
  Workload (*make)(device::BenchName what, Scale scale);
  bool cached = false;
};
std::span<const Figure> figures();

}  // namespace sluice::market
