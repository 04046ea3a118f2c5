// The arguments of every CUDA launch besides its operands.
#pragma once

namespace sluice::kernels {

// Where a kernel reports invalid values, such as an index out of range: a kernel cannot throw. The
// lowest step number that reported is kept.
struct ErrorFlag {
  unsigned* first = nullptr;  // device memory; null: errors are ignored
  unsigned step = 0;          // the step that runs now
};

struct LaunchArgs {
  void* stream = nullptr;  // a cudaStream_t
  ErrorFlag error{};
};

}  // namespace sluice::kernels
