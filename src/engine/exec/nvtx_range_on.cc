#include <nvtx3/nvToolsExt.h>

#include "engine/exec/nvtx_range.h"

namespace sluice::engine {

NvtxRange::NvtxRange(const char* name) noexcept { nvtxRangePushA(name); }

NvtxRange::~NvtxRange() { nvtxRangePop(); }

}  // namespace sluice::engine
