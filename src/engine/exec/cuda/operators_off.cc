// A build without CUDA does not know which operators have a CUDA kernel.
#include "engine/ops/operators.h"

namespace sluice::engine {

std::optional<std::vector<CudaOperator>> cuda_operators() { return std::nullopt; }

}  // namespace sluice::engine
