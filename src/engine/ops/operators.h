// The table of supported operators, with versions and types.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/ops/op.h"

namespace sluice::engine {

struct OperatorRow {
  std::string domain, name;
  std::vector<int> versions;  // opsets in which its semantics changed, oldest first
  Types types;                // of the newest version
  std::optional<bool> cuda;   // none in a build without CUDA
};

// Sorted by domain and name, without the fused operators.
std::vector<OperatorRow> operator_rows();

// "floats, integers, bool": a group name if the whole group is included, else type names.
std::string types_text(Types types);

// Operators with a CUDA kernel, of ONNX and fused ones; none in a build without CUDA.
struct CudaOperator {
  std::string_view op, domain;
};
std::optional<std::vector<CudaOperator>> cuda_operators();

}  // namespace sluice::engine
