// A graph compiled for a GPU and one set of input shapes. Nodes without a CUDA kernel run on the
// CPU, with copies around them. In a build without CUDA every function throws unavailable.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/exec/cpu/backend.h"
#include "engine/exec/cuda/context/backend.h"
#include "engine/exec/program.h"

namespace sluice::engine {

struct CudaReport {
  struct Host {
    std::string node;       // "Resize node 'up'"
    std::size_t bytes = 0;  // copied to the host and back
  };
  std::vector<Host> on_host;
  int device_steps = 0;
  std::size_t constants = 0;                           // bytes of weights on the device
  std::size_t arena = 0, peak_live = 0, unshared = 0;  // see Schedule
  std::size_t io_bytes = 0;                            // of inputs and outputs
  std::size_t pinned = 0;                              // bytes of pinned host memory for each slot
  std::string not_captured;  // why steps are launched one by one; empty: CUDA graphs are used
};

// Each run takes an execution slot (a stream, an arena, captured CUDA graphs), which later runs
// reuse; while all slots are taken a run waits for one. A run throws exhausted if there is no
// memory for a slot, and invalid_argument, naming the node, if an index is out of range. A run with
// `times` launches its steps one by one.
class CudaProgram : public Program {
 public:
  virtual CudaReport report() const = 0;

  // Runs with inputs and outputs in device memory, aligned to 256 bytes; enqueues the work `runs`
  // times and waits. Returns the microseconds that all runs took on the device.
  virtual double run_on_device(std::span<void* const> inputs, std::span<void* const> outputs,
                               int runs = 1) const = 0;
};

// Throws unavailable if there is no such device.
std::shared_ptr<cuda::Context> make_cuda_context(cuda::Options options);

// The device and the software versions that chosen algorithms and compiled code are valid for.
struct CudaStamp {
  std::string device;    // "NVIDIA H200, compute capability 9.0, 132 multiprocessors"
  std::string software;  // "driver 580.95.05 (CUDA 13.0), cuBLASLt 13.1.0, cuDNN 91900"
};
CudaStamp cuda_stamp(cuda::Context& context);

// `graph` is specialized and optimized.
std::unique_ptr<CudaProgram> make_cuda_program(Graph graph, std::shared_ptr<cuda::Context> context,
                                               std::shared_ptr<cpu::Context> host);

}  // namespace sluice::engine
