// Which operators there are, for people: a row for each, with its versions and types.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/ops/op.h"

namespace sluice::engine {

struct OperatorRow {
  std::string domain, name;
  std::vector<int> versions;  // opsets in which its meaning changed, the oldest first
  Types types;                // of the newest version
  std::optional<bool> cuda;   // none in a build without CUDA
};

// By domain and name; those that only fusing makes are not among them.
std::vector<OperatorRow> operator_rows();

// "floats, integers, bool": groups where all of a group are in it, names otherwise.
std::string types_text(Types types);

// Operators that CUDA has a kernel for, of ONNX or of our own; none in a build without CUDA.
struct CudaOperator {
  std::string_view op, domain;
};
std::optional<std::vector<CudaOperator>> cuda_operators();

}  // namespace sluice::engine
