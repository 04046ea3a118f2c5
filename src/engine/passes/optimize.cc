#include <functional>

#include "engine/passes/passes.h"

namespace sluice::engine {

std::vector<PassReport> optimize(Graph& graph, Derived* derived, Backend backend,
                                 SkipPadding* skip) {
  struct Pass {
    std::string_view name;
    std::function<int(Editor&)> run;
    bool for_cuda_alone = false;
  };
  // Large patterns first: what they take is no longer there for the small ones.
  const Pass passes[] = {
      {"simplify", simplify},
      {"merge equal nodes", merge_equal},
      {"expand constants", expand_constants},
      {"fuse activations", fuse_activations},
      {"fuse norms", fuse_norms},
      {"fuse products with bias and activation", fuse_linear},
      {"simplify products", simplify},
      {"fuse what follows products", fuse_linear},
      {"fuse attention", fuse_attention},
      {"fuse residuals", fuse_residuals},
      {"channels last", to_channels_last},
      {"fuse convolutions", fuse_convolutions},
      {"simplify again", simplify},
      {"transposes that move nothing", turn_as_views},
      {"simplify views", simplify},
      {"merge what is equal now", merge_equal},
      {"pool in steps", pool_in_steps, true},  // the CPU's quick pool is of f32
      {"fuse steps of small numbers", fuse_quantized},
      {"fuse steps of norms", steps_of_norms, true},  // the CPU's quick norm makes one output
      {"skip padding", [&](Editor& e) { return skip != nullptr ? skip_padding(e, *skip) : 0; }},
      {"fuse elementwise chains", fuse_chains},
  };
  std::vector<PassReport> report;
  Editor edit(graph, derived);
  edit.finish();
  for (const Pass& pass : passes) {
    if (pass.for_cuda_alone && backend != Backend::cuda) continue;
    const int changes = pass.run(edit);
    edit.finish();
    if (changes > 0) report.push_back({std::string(pass.name), changes});
  }
  return report;
}

}  // namespace sluice::engine
