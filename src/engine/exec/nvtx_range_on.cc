#include <nvtx3/nvToolsExt.h>

#include "engine/exec/nvtx_range.h"

namespace sluice::engine {

Range::Range(const char* name) noexcept { nvtxRangePushA(name); }

Range::~Range() { nvtxRangePop(); }

}  // namespace sluice::engine
