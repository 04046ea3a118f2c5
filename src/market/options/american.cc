#include "market/options/american.h"

#include <cmath>
#include <numbers>

#include "market/gpu/gpu_operations.h"
#include "market/options/american_formula.h"
#include "market/options/american_kernels.h"

namespace sluice::market {
namespace {

using formula::AmericanTables;

// Gauss and Legendre's points on the angle from 0 to a right one, by Newton's method; the
// weight includes 2 sin cos, what dt' = d(cos^2) is in the angle.
void quadrature(int n, double* sine, double* cosine, double* weight) {
  for (int i = 0; i < n; ++i) {
    double x = std::cos(std::numbers::pi * (i + 0.75) / (n + 0.5)), slope = 1;
    for (int round = 0; round < 100; ++round) {
      double p = 1, before = 0;
      for (int k = 1; k <= n; ++k) {
        const double next = ((2 * k - 1) * x * p - (k - 1) * before) / k;
        before = p;
        p = next;
      }
      slope = n * (x * p - before) / (x * x - 1);
      const double step = p / slope;
      x -= step;
      if (std::fabs(step) < 1e-16) break;
    }
    const double angle = std::numbers::pi / 4 * (1 + x);
    sine[i] = std::sin(angle);
    cosine[i] = std::cos(angle);
    weight[i] = std::numbers::pi * sine[i] * cosine[i] / ((1 - x * x) * slope * slope);
  }
}

}  // namespace

AmericanTables american_tables(AmericanAccuracy accuracy, OptionKind kind) {
  AmericanTables t{};
  t.call = kind == OptionKind::call;
  switch (accuracy) {
    case AmericanAccuracy::fast:
      t.nodes = 6, t.iterations = 3, t.points = 10, t.final_points = 16;
      break;
    case AmericanAccuracy::standard:
      t.nodes = 12, t.iterations = 8, t.points = 24, t.final_points = 48;
      break;
    case AmericanAccuracy::fine:
      t.nodes = 24, t.iterations = 16, t.points = 48, t.final_points = 96;
      break;
  }
  quadrature(t.points, t.sine, t.cosine_of, t.weight);
  quadrature(t.final_points, t.final_sine, t.final_cosine, t.final_weight);
  for (int i = 0; i < 2 * t.nodes; ++i) t.cosine[i] = std::cos(std::numbers::pi * i / t.nodes);
  return t;
}

const compute::Operation& american_operation() {
  static const compute::Operation o{"american", american_cpu, gpu_operations().american};
  return o;
}

compute::Outcome american(compute::Compute& compute, const OptionColumns<double>& options,
                          OptionKind kind, std::span<double> price, AmericanAccuracy accuracy,
                          compute::DevicePreference device) {
  AmericanTables tables = american_tables(accuracy, kind);
  compute::Call call = option_call(options, price.size());
  call.in.push_back({.data = &tables, .item_bytes = 0, .shared_bytes = sizeof tables});
  call.out.push_back({.data = price.data(), .item_bytes = sizeof(double)});
  call.work = static_cast<double>(tables.nodes * tables.iterations * tables.points);
  return compute.run(american_operation(), call, device);
}

}  // namespace sluice::market
