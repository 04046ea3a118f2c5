// The optimization passes of a specialized graph. Each returns the number of changes; run them with
// optimize(), in its order.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "engine/graph/graph_editor.h"
#include "engine/passes/padding.h"

namespace sluice::engine {

int simplify(GraphEditor& edit);              // removes no-ops and pairs that cancel out
int transposes_to_views(GraphEditor& edit);   // transposes that only move axes of size 1
int merge_equal(GraphEditor& edit);           // common subexpression elimination
int fuse_activations(GraphEditor& edit);      // GELU, SiLU and hard swish
int fuse_norms(GraphEditor& edit);            // LayerNorm to Norm; folds batch norms into weights
int fuse_linear(GraphEditor& edit);           // MatMul, Gemm, bias and activation to Linear
int fuse_attention(GraphEditor& edit);        // QK^T, mask, softmax, V to Attention; merges Q, K, V
int fuse_residuals(GraphEditor& edit);        // an Add before a Norm or after a Linear
int to_channels_last(GraphEditor& edit);      // converts Conv, pools and nodes between them to NHWC
int fuse_convolutions(GraphEditor& edit);     // fuses bias, residual and activation into Conv
int fuse_chains(GraphEditor& edit);           // elementwise operators to Chain
int expand_constants(GraphEditor& edit);      // dequantizes constants that no quantized GEMM takes
int fuse_quantized(GraphEditor& edit);        // QuantizeLinear and DequantizeLinear around GEMMs
int quantize_before_pool(GraphEditor& edit);  // moves QuantizeLinear before MaxPool
int fuse_norm_quantize(GraphEditor& edit);    // QuantizeLinear as second output of Norm

// Runs after the other passes, before edit.finish(): converts f32 to f16 or bf16, except for graph
// inputs and outputs and for operators that need the range of f32. Finite numbers stay finite:
// weights and mask constants are clamped. Nodes whose first output is named in `wide` stay f32.
// Returns the number of nodes that compute in `to`.
int to_precision(GraphEditor& edit, DType to, const std::set<std::string>& wide = {});

// Predicts to_precision: by node, whether it would compute in `to`; whether an input of such a node
// stays f32; and how the constants inside such a node change.
std::vector<bool> narrow_nodes(Graph& graph, DType to);
bool stays_f32(const Node& node, std::size_t input);
float narrow_limit(DType to);  // the largest finite number
void narrow_attributes(Node& node, DType to);

struct PassReport {
  std::string pass;
  int changes;
};
// The target backend: the fast kernels differ.
enum class Backend { cpu, cuda };
// With `skip`, padding is removed, or unavailable is thrown.
std::vector<PassReport> optimize(Graph& graph, DerivedConstants* derived = nullptr,
                                 Backend backend = Backend::cpu, SkipPadding* skip = nullptr);

}  // namespace sluice::engine
