// What makes a specialized graph smaller and faster without changing what it computes. Each
// pass returns how many places it changed; run them through optimize(), in its order.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "engine/graph/graph_editor.h"
#include "engine/passes/padding.h"

namespace sluice::engine {

int simplify(Editor& edit);          // nodes that change nothing; pairs that cancel out
int turn_as_views(Editor& edit);     // transposes that move only axes of one element
int merge_equal(Editor& edit);       // nodes that compute the same
int fuse_activations(Editor& edit);  // the parts of GELU, SiLU and hard swish, each to one node
int fuse_norms(Editor& edit);        // the parts of a LayerNorm to one Norm, batch norms to weights
int fuse_linear(Editor& edit);       // MatMul, Gemm, bias and activation to Linear
int fuse_attention(
    Editor& edit);  // scores, mask, softmax and mix to Attention; Q, K, V side by side
int fuse_residuals(Editor& edit);     // a sum before a Norm or after a Linear
int to_channels_last(Editor& edit);   // Conv, pools and what is between them on NHWC
int fuse_convolutions(Editor& edit);  // bias, residual and activation to their Conv on NHWC
int fuse_chains(Editor& edit);        // elementwise operators to Chain
int expand_constants(Editor& edit);   // small constants that no product takes as they are
int fuse_quantized(Editor& edit);     // steps before and behind products of small numbers
int pool_in_steps(Editor& edit);      // steps before a MaxPool on NHWC, not behind it
int steps_of_norms(Editor& edit);     // steps of what a Norm makes, as its second output

// After the others, and then edit.finish(): what was f32 is f16 or bf16, but for the graph's
// inputs and outputs and for operators that need the range. Finite numbers stay finite: weights
// and the numbers of masks become the largest there are. Nodes whose first output is named in
// `wide` stay as they are. Returns how many nodes compute in `to`.
int to_precision(Editor& edit, DType to, const std::set<std::string>& wide = {});

// For those who want to know before what it does: by node, whether it would compute in `to`;
// whether an input of such a node stays f32; what becomes of the constants inside such a node.
std::vector<bool> narrow_nodes(Graph& graph, DType to);
bool stays_f32(const Node& node, std::size_t input);
float narrow_limit(DType to);  // the largest finite number
void narrow_attributes(Node& node, DType to);

struct PassReport {
  std::string pass;
  int changes;
};
// Which kernels are quick differs from one to the other.
enum class Backend { cpu, cuda };
// `skip`, if any: padding is left out, or unavailable is thrown.
std::vector<PassReport> optimize(Graph& graph, Derived* derived = nullptr,
                                 Backend backend = Backend::cpu, SkipPadding* skip = nullptr);

}  // namespace sluice::engine
