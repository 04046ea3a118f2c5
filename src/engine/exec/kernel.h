// A node made ready to run on one backend: shapes, weights and choices are settled, what is
// left is where the data lies.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/common/activation.h"
#include "kernels/common/launch_args.h"

namespace sluice::engine {

using kernels::Activation;
using kernels::ErrorFlag;
using kernels::LaunchArgs;

struct KernelArgs {
  std::span<void* const> inputs;   // null where left out
  std::span<void* const> outputs;  // null where nobody wants it
  void* scratch = nullptr;
  void* stream = nullptr;  // of CUDA
  ErrorFlag error{};

  operator LaunchArgs() const { return {stream, error}; }
};

// Safe to run from several threads at once.
class Kernel {
 public:
  virtual ~Kernel() = default;

  virtual void run(const KernelArgs& args) const = 0;

  // What it is called in reports: "oneDNN brgemm + bias + gelu".
  virtual std::string_view what() const = 0;
  // Bytes it needs besides inputs and outputs while it runs.
  virtual std::size_t scratch() const { return 0; }
  // Output 0 may lie where this input lies, if nobody needs that any more; -1: none may.
  virtual int in_place() const { return -1; }
  // It asks for the bytes of a constant input when it runs; false: it has its own copy.
  virtual bool reads_constant(std::size_t /*input*/) const { return true; }
};

}  // namespace sluice::engine
