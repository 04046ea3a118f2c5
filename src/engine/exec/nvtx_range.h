// NVTX ranges, shown by Nsight Systems and Nsight Compute. Their cost is negligible without an
// attached profiler; a build without NVTX compiles them to nothing.
#pragma once

namespace sluice::engine {

// Pushes a range on this thread and pops it at the end of the scope.
class NvtxRange {
 public:
  explicit NvtxRange(const char* name) noexcept;
  ~NvtxRange();
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

}  // namespace sluice::engine
