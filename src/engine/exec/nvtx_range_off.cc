// NVTX ranges in a build without NVTX do nothing.
#include "engine/exec/nvtx_range.h"

namespace sluice::engine {

NvtxRange::NvtxRange(const char*) noexcept {}

NvtxRange::~NvtxRange() = default;

}  // namespace sluice::engine
