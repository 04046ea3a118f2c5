// Stretches of time with a name, as NVIDIA's profilers show them (nsys, ncu). They cost next to
// nothing while none is attached, and are nothing in a build without NVTX.
#pragma once

namespace sluice::engine {

// Until the end of the scope, on this thread.
class Range {
 public:
  explicit Range(const char* name) noexcept;
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace sluice::engine
