#include "market/options/binomial.h"

#include "market/gpu/gpu_operations.h"
#include "market/input/require.h"
#include "market/options/binomial_kernels.h"

namespace sluice::market {

const compute::Operation& binomial_operation() {
  static const compute::Operation o{"binomial", binomial_cpu, gpu_operations().binomial};
  return o;
}

compute::Outcome binomial(compute::Compute& compute, const OptionColumns<double>& options,
                          const BinomialOptions& tree, std::span<double> price,
                          compute::DevicePreference device) {
  require_range("steps", tree.steps, 1, kMaxTreeSteps);
  const TreeParameters parameters{.call = tree.kind == OptionKind::call,
                                  .american = tree.exercise == Exercise::american,
                                  .steps = tree.steps};
  compute::Call call = option_call(options, price.size());
  call.parameters = &parameters;
  call.parameters_bytes = sizeof parameters;
  call.out.push_back({.data = price.data(), .item_bytes = sizeof(double)});
  call.work = 0.5 * tree.steps * tree.steps;
  return compute.run(binomial_operation(), call, device);
}

}  // namespace sluice::market
