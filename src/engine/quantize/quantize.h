// Post-training quantization: weights and activations of GEMMs and convolutions become int8, int4
// or fp8, with QuantizeLinear and DequantizeLinear around them. The result is a standard ONNX
// model.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compute/workers.h"
#include "engine/graph/graph.h"
#include "engine/quantize/quantize_range.h"

namespace sluice::engine {

struct QuantizeOptions {
  // The quantization scheme. Scales of weights are per output channel; for int4 per block of
  // `block` values of a channel; for fp8 per tensor.
  enum class Scheme { int8, fp8, int8_weights, int4_weights } scheme = Scheme::int8;
  // Activations of int8: u8 with any zero point, or i8 with zero point 0.
  DType activations = DType::u8;
  std::int64_t block = 32;
  std::set<std::string> keep{};  // names of nodes that are not quantized
};

// Whether activations are quantized too, so that their ranges are needed.
bool needs_ranges(QuantizeOptions::Scheme scheme);

// A GEMM or convolution to quantize; input 1 is constant.
struct QuantizeSite {
  std::size_t node;
  int channels;  // the output channel axis of its weights
};

// Prepares `graph`: folds data movement of constants, and batch norms into convolutions.
Graph prepare_to_quantize(Graph graph, compute::Workers& workers);

// The f32 MatMul, Gemm and Conv (group 1) nodes with constant weights. Throws invalid_argument if
// `keep` names a node that is none of them.
std::vector<QuantizeSite> sites_to_quantize(const Graph& graph, const QuantizeOptions& options);

// The values whose ranges are needed.
std::vector<ValueId> values_to_quantize(const Graph& graph, const QuantizeOptions& options);

// Quantizes weights, activations with ranges, and embedding tables of a prepared graph. `ranges`
// has all of values_to_quantize if they are needed. Raises the opset as the types require; throws
// unavailable with the node if the semantics of one of its operators differ there.
Graph quantize(Graph graph, const std::map<ValueId, ValueRange>& ranges,
               const QuantizeOptions& options);

// Bytes of all constants in a file, each counted once.
std::size_t weight_bytes(const Graph& graph);

}  // namespace sluice::engine
