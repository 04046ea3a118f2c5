#include "market/risk/simulated_tail.h"

#include <cmath>
#include <vector>

#include "base/error.h"
#include "market/input/require.h"
#include "market/math/normals.h"
#include "market/math/philox.h"

namespace sluice::market {
namespace {

struct Drift {
  double mean, deviation;
};

Drift log_drift(std::span<const double> returns) {
  double n = 0, sum = 0, squares = 0;
  for (const double r : returns)
    if (!std::isnan(r)) n += 1, sum += std::log1p(r);
  require(n > 1, "a simulation needs two returns or more");
  const double mean = sum / n;
  for (const double r : returns)
    if (!std::isnan(r)) squares += (std::log1p(r) - mean) * (std::log1p(r) - mean);
  require(std::isfinite(squares), "a return is -1 or below, or not finite");
  return {mean, std::sqrt(squares / (n - 1))};
}

}  // namespace

TailRisk simulated_tail(compute::Compute& compute, std::span<const double> returns,
                        const SimulatedTailOptions& o, compute::DevicePreference device) {
  require_range("horizon", o.horizon, 1e-6, 1e6);
  require(o.paths >= 4 && o.paths <= (std::uint64_t{1} << 32), "paths may be 4 to 2^32");
  const Drift drift = log_drift(returns);
  const double shift = drift.mean * o.horizon, spread = drift.deviation * std::sqrt(o.horizon);
  std::vector<double> ends((o.paths + 3) / 4 * 4);
  compute.workers().each(ends.size() / 4, 4096, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const auto w = philox::random(philox::counter(i, 0), philox::key_of(o.seed));
      const auto a = normals::box_muller(w.x0, w.x1), b = normals::box_muller(w.x2, w.x3);
      const float z[] = {a.first, a.second, b.first, b.second};
      for (std::size_t k = 0; k < 4; ++k)
        ends[4 * i + k] = std::expm1(shift + spread * static_cast<double>(z[k]));
    }
  });
  TailRisk out{};
  tail_risk(compute, ends, ends.size(), {&out, 1}, {TailMethod::historical, o.convention, o.cutoff},
            device);
  return out;
}

}  // namespace sluice::market
