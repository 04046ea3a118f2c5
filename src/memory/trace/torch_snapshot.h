// A memory snapshot of PyTorch (torch.cuda.memory._dump_snapshot, or the same
// dictionary as JSON) as a trace.
//
// A block is taken as free when PyTorch could use it again (free_completed), not when
// the program let go of it. What PyTorch reserved at the most is derived from its
// segments at the end and the segment events before it.
#pragma once

#include <string>
#include <string_view>

#include "memory/trace/trace.h"

namespace sluice::memory {

struct TorchOptions {
  int device = 0;
  std::string name;    // of the trace
  std::string source;  // where the file came from; a sentence about PyTorch is added
};

// Throws invalid_argument when `bytes` is no snapshot, when the device has no history
// in it (and says which have one), or when nothing was allocated.
Trace read_torch_snapshot(std::string_view bytes, const TorchOptions& options);

// Checks the first bytes only: a pickle of protocol 2 or later, or a JSON object.
bool is_torch_snapshot(std::string_view bytes) noexcept;

}  // namespace sluice::memory
