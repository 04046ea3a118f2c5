// A node compiled for one backend: shapes, weights and algorithms are fixed; only the addresses of
// the data are passed to each run.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/common/launch_args.h"

namespace sluice::engine {

using kernels::ErrorFlag;
using kernels::LaunchArgs;
using kernels::LiveRows;
using kernels::WorkQueue;

struct KernelArgs {
  std::span<void* const> inputs;   // null for an omitted optional input
  std::span<void* const> outputs;  // null for an output that nothing reads
  void* scratch = nullptr;
  void* stream = nullptr;  // a cudaStream_t
  ErrorFlag error{};
  LiveRows live{};
  WorkQueue* queue = nullptr;

  operator LaunchArgs() const { return {stream, error, live, queue}; }
};

// Safe to run from several threads at once.
class Kernel {
 public:
  virtual ~Kernel() = default;

  virtual void run(const KernelArgs& args) const = 0;

  // The kernel's name in profiles and reports: "cuBLASLt GEMM + bias + gelu".
  virtual std::string_view name() const = 0;
  // Bytes of workspace that it needs while it runs.
  virtual std::size_t scratch() const { return 0; }
  // The input that output 0 may overwrite if nothing reads it afterwards; -1: none.
  virtual int in_place() const { return -1; }
  // Whether it reads the bytes of a constant input when it runs; false: it has its own copy.
  virtual bool reads_constant(std::size_t /*input*/) const { return true; }
};

}  // namespace sluice::engine
