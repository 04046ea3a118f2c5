// A model with smaller numbers: the weights of its products and convolutions, and what goes into
// them, as integers or floats of 8 bits or 4, between QuantizeLinear and DequantizeLinear. The
// result is a model of ONNX like any other.
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
  // What becomes small. Weights have a scale for each output channel, or, of 4 bits, for each
  // `block` values of one; fp8 has one for a whole tensor.
  enum class What { int8, fp8, int8_weights, int4_weights } what = What::int8;
  // Of int8: u8, whose zero is anywhere, or i8, whose zero is 0.
  DType activations = DType::u8;
  std::int64_t block = 32;
  std::set<std::string> keep{};  // nodes that stay as they are, by name
};

// Whether what goes into the products becomes small too, so that its range must be known.
bool needs_ranges(QuantizeOptions::What what);

// A product or convolution that becomes small: input 1 is constant.
struct QuantizeSite {
  std::size_t node;
  int channels;  // the axis of its weights that is one of its output
};

// `graph` in the shape that quantizing needs: what moves constants is folded, and so are batch
// norms after convolutions.
Graph prepare_to_quantize(Graph graph, compute::Workers& workers);

// MatMul, Gemm and Conv of f32 with constant weights; a Conv of one group. Throws
// invalid_argument where `keep` names none of them.
std::vector<QuantizeSite> sites_to_quantize(const Graph& graph, const QuantizeOptions& options);

// The values whose ranges are needed for them.
std::vector<ValueId> values_to_quantize(const Graph& graph, const QuantizeOptions& options);

// Weights, what goes into products where that has ranges, and tables that rows are looked up in.
// `graph` is prepared; `ranges` has all of values_to_quantize where they are needed. Its opset
// becomes as new as the small types ask for; throws unavailable, with the node, where one of its
// operators means something else there.
Graph quantize(Graph graph, const std::map<ValueId, ValueRange>& ranges,
               const QuantizeOptions& options);

// Bytes of all constants, each once, as a file has them.
std::size_t weight_bytes(const Graph& graph);

}  // namespace sluice::engine
