#include <functional>

#include "engine/passes/passes.h"

namespace sluice::engine {

namespace {

struct Pass {
  std::string_view name;
  std::function<int(GraphEditor&)> run;
  bool cuda_only = false;
};

// Large patterns first, before small patterns consume their nodes.
std::vector<Pass> passes_in_order(SkipPadding* skip) {
  return {
      {"simplify", simplify},
      {"merge equal nodes", merge_equal},
      {"expand constants", expand_constants},
      {"fuse activations", fuse_activations},
      {"fuse norms", fuse_norms},
      {"fuse matmul bias and activation", fuse_linear},
      {"simplify matmuls", simplify},
      {"fuse matmul epilogues", fuse_linear},
      {"fuse attention", fuse_attention},
      {"fuse residuals", fuse_residuals},
      {"channels last", to_channels_last},
      {"fuse convolutions", fuse_convolutions},
      {"simplify again", simplify},
      {"transposes to views", transposes_to_views},
      {"simplify views", simplify},
      {"merge equal nodes again", merge_equal},
      {"quantize before pool", quantize_before_pool, true},  // the CPU has a fast f32 pool only
      {"fuse quantized", fuse_quantized},
      {"fuse norm and quantize", fuse_norm_quantize, true},  // the CPU's fast norm has one output
      {"skip padding",
       [skip](GraphEditor& e) { return skip != nullptr ? skip_padding(e, *skip) : 0; }},
      {"fuse elementwise chains", fuse_chains},
  };
}

}  // namespace

std::vector<PassReport> optimize(Graph& graph, DerivedConstants* derived, Backend backend,
                                 SkipPadding* skip) {
  std::vector<PassReport> report;
  GraphEditor edit(graph, derived);
  edit.finish();
  for (const Pass& pass : passes_in_order(skip)) {
    if (pass.cuda_only && backend != Backend::cuda) continue;
    const int changes = pass.run(edit);
    edit.finish();
    if (changes > 0) report.push_back({std::string(pass.name), changes});
  }
  return report;
}

}  // namespace sluice::engine
