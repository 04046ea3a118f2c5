#include <fmt/format.h>

#include <algorithm>

#include "market/bench/curand_peer.h"
#include "market/bench/workload.h"
#include "market/gpu/gpu_operations.h"
#include "market/montecarlo/asian.h"
#include "market/options/american.h"
#include "market/options/american_formula.h"
#include "market/options/binomial.h"
#include "market/options/binomial_kernels.h"
#include "market/options/binomial_plan.h"
#include "market/options/black_scholes.h"

namespace sluice::market {
namespace {

// Instructions in double precision that the kernels were counted to need.
constexpr double kPairInstructions = 158, kNodeInstructions = 3;

// Instructions of a point of an American option's integrals. With an option per thread the
// exponentials and the series are done at each; in vectors a row of a matrix remains of them.
double point_instructions(Scale scale, int nodes) { return scale == Scale::cpu ? 71 + nodes : 170; }

template <class T>
std::vector<T> column(std::size_t n, double low, double high, std::uint64_t seed) {
  const std::vector<double> drawn = draw(n, low, high, seed);
  return {drawn.begin(), drawn.end()};
}

template <class T>
Workload pairs(std::size_t n) {
  constexpr bool kDouble = sizeof(T) == 8;
  Workload load{.unit = "pair/s",
                .operation = &black_scholes_operation<T>(),
                .work = static_cast<double>(n),
                .needs = {.bytes = 5 * sizeof(T), .fp64 = kDouble ? kPairInstructions : 0},
                .tolerance = kDouble ? 1e-12 : 1e-4,
                .results = kDouble ? Number::fp64 : Number::fp32,
                .checked = 4096};
  load.call.items = n;
  add_input(load, column<T>(n, 50, 150, 1));
  add_input(load, column<T>(n, 50, 150, 2));
  add_input(load, column<T>(n, 0.1, 2, 3));
  for (const double same : {0.03, 0.01, 0.25}) add_shared(load, static_cast<T>(same));
  add_output<T>(load);
  add_output<T>(load);
  return load;
}

// American puts around the money.
Workload puts(const compute::Operation& operation, std::size_t n) {
  Workload load{.unit = "option/s",
                .operation = &operation,
                .work = static_cast<double>(n),
                .tolerance = 1e-9,
                .checked = 256};
  load.call.items = n;
  add_input(load, draw(n, 90, 110, 1));
  add_input(load, draw(n, 90, 110, 2));
  add_input(load, draw(n, 0.5, 1.5, 3));
  add_input(load, draw(n, 0.02, 0.08, 4));
  add_shared(load, 0.02);
  add_input(load, draw(n, 0.2, 0.4, 5));
  add_output<double>(load);
  return load;
}

// Returns the share of the tree that has to be calculated, by some of the options.
double visited(const Workload& load, int steps, double nodes) {
  const auto at = [&](std::size_t c, std::size_t i) {
    return load.call.input<double>(c)[load.call.in[c].item_bytes != 0 ? i : 0];
  };
  const std::size_t some = std::min<std::size_t>(load.call.items, 1000);
  double sum = 0;
  for (std::size_t i = 0; i < some; ++i) {
    const auto plan = formula::tree_plan(
        false, true, steps, {at(0, i), at(1, i), at(2, i), at(3, i), at(4, i), at(5, i)});
    if (plan.valid && !plan.at_once)
      sum += std::min(nodes, static_cast<double>(formula::strip_of(plan).count) * steps);
  }
  return sum / nodes / static_cast<double>(some);
}

struct CurandMemory {
  AsianPlan plan;
  std::vector<float> means;
};

// cuRAND's Philox and normals, a path per thread; nothing in a build without CUDA.
std::optional<PeerBenchmark> curand_peer(const AsianPlan& plan, std::size_t paths) {
  static const compute::Operation operation{"curand_asian", nullptr, gpu_operations().curand_asian};
  if (operation.gpu == nullptr) return std::nullopt;
  const std::size_t items = paths / kCurandPaths;
  const auto memory =
      std::make_shared<CurandMemory>(CurandMemory{plan, std::vector<float>(items * kCurandPaths)});
  return PeerBenchmark{
      .name = "cuRAND, a path per thread",
      .operation = &operation,
      .call = {.out = {{.data = memory->means.data(), .item_bytes = kCurandPaths * sizeof(float)}},
               .parameters = &memory->plan,
               .parameters_bytes = sizeof(AsianPlan),
               .items = items},
      .work = static_cast<double>(items * kCurandPaths) * plan.fixings,
      .kept = memory};
}

}  // namespace

Workload black_scholes_load(std::string_view which, Scale scale) {
  const std::size_t n = scale == Scale::gpu ? std::size_t{1} << 26 : 1 << 20;
  return which == "float" ? pairs<float>(n) : pairs<double>(n);
}

Workload binomial_load(std::string_view, Scale scale) {
  constexpr int kSteps = 1024;
  constexpr double kNodes = kSteps * (kSteps + 1) / 2.0;
  Workload load = puts(binomial_operation(), scale == Scale::gpu   ? 250'000
                                             : scale == Scale::cpu ? 4000
                                                                   : 100);
  load.needs = {.fp64 = kNodeInstructions * kNodes};
  load.note =
      fmt::format("the limit is that of the full tree, of which {:.0f} % has to be calculated",
                  100 * visited(load, kSteps, kNodes));
  set_parameters(load, TreeParameters{.call = 0, .american = 1, .steps = kSteps});
  return load;
}

Workload american_load(std::string_view which, Scale scale) {
  const auto accuracy = which == "fast" ? AmericanAccuracy::fast : AmericanAccuracy::standard;
  Workload load = puts(american_operation(), scale == Scale::gpu   ? 1'000'000
                                             : scale == Scale::cpu ? 8000
                                                                   : 200);
  const auto tables = american_tables(accuracy, OptionKind::put);
  load.needs = {.fp64 = point_instructions(scale, tables.nodes) * tables.nodes * tables.iterations *
                        tables.points};
  add_shared(load, tables);
  return load;
}

// Special functions of a step: logarithm, root, sine and cosine for two normals, and an exp2
// for each path.
Workload asian_load(std::string_view which, Scale scale) {
  constexpr int kFixings = 252;
  const bool antithetic = which == "antithetic";
  const AsianOption option{
      .fixings = kFixings, .first_fixing = 1.0 / kFixings, .span = (kFixings - 1.0) / kFixings};
  const std::size_t blocks = scale == Scale::gpu ? 16384 : scale == Scale::cpu ? 128 : 16;
  const std::size_t paths = blocks * kAsianBlock * (antithetic ? 2 : 1);
  Workload load{.unit = "step/s",
                .operation = &asian_operation(),
                .work = static_cast<double>(paths) * kFixings,
                .needs = antithetic ? ResourceNeeds{.issued = 12.5, .special = 2}
                                    : ResourceNeeds{.issued = 18.5, .special = 3},
                .tolerance = 1e-3,
                .checked = 8};
  load.call.items = blocks;
  add_output<BlockSums>(load);
  const AsianPlan plan = asian_plan(option, {.antithetic = antithetic});
  set_parameters(load, plan);
  if (!antithetic) load.peer = curand_peer(plan, paths);
  return load;
}

}  // namespace sluice::market
