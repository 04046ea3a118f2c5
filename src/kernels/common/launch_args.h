// The arguments of a CUDA launch besides its operands. Two conventions: run_<op>(call, LaunchArgs)
// is called by a node, which passes its KernelArgs on, and may report an error; enqueue_<op>(call,
// stream) cannot, and is also called to measure algorithms.
#pragma once

#include "kernels/common/live_counts.h"
#include "kernels/common/work_queue.h"

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
  LiveRows live{};
  WorkQueue* queue = nullptr;  // device memory; null: none
};

}  // namespace sluice::kernels
