// A build without NVTX: nobody is told.
#include "engine/exec/nvtx_range.h"

namespace sluice::engine {

Range::Range(const char*) noexcept {}

Range::~Range() = default;

}  // namespace sluice::engine
