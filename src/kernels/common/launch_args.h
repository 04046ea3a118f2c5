// What every CUDA launch is given besides its operands.
#pragma once

namespace sluice::kernels {

// A kernel cannot throw: it reports values that it cannot work with (an index out of range) here.
// The number of the first step that did stays.
struct ErrorFlag {
  unsigned* first = nullptr;  // device memory; null: nobody asks
  unsigned step = 0;          // the step that runs now
};

struct LaunchArgs {
  void* stream = nullptr;  // a cudaStream_t
  ErrorFlag error{};
};

}  // namespace sluice::kernels
