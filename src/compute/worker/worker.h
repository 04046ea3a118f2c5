// A GPU in a process of its own. A CUDA context that has faulted is dead for its process;
// here that costs one call, which its caller finishes on the CPU, and a new process.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compute/accelerator.h"

namespace sluice::compute {

struct WorkerOptions {
  std::string program;  // this one, and what makes it call serve_calls()
  std::vector<std::string> arguments{};
  double timeout_s = 30;  // for one call, before the worker counts as hung
  // A worker that ended is replaced after the first, then twice as long up to the last; a
  // call that worked starts over.
  double first_pause_s = 1, longest_pause_s = 60;
};

// Started at once, without waiting for it: until it has computed something, why_not()
// says that it is starting. One call at a time; others wait for it.
std::unique_ptr<Accelerator> make_worker_accelerator(WorkerOptions options);

// The worker's side: makes its accelerator, proves that it computes, and serves calls of
// `operations` until the other side is gone. Returns the exit code.
using MakeAccelerator = std::function<std::unique_ptr<Accelerator>()>;
int serve_calls(const MakeAccelerator& make, std::span<const Operation* const> operations);

}  // namespace sluice::compute
