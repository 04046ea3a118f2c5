// A graph for one set of input shapes, compiled for a GPU. Nodes that CUDA has no kernel for run
// on the CPU, with copies around them. In a build without CUDA every function throws unavailable.
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
    std::size_t bytes = 0;  // copied for it, there and back
  };
  std::vector<Host> on_host;
  int device_steps = 0;
  std::size_t constants = 0;  // bytes of weights on the device that its kernels read
  std::size_t arena = 0, least = 0, unshared = 0;  // see Schedule
  std::size_t ends = 0;                            // bytes of inputs and outputs
  std::size_t pinned = 0;                          // bytes of the host's memory, for each lane
  std::string not_recorded;  // why its steps are launched one by one; empty: CUDA graphs are used
};

// Each run has a lane of its own (a stream, an arena, recorded graphs), kept for the next; with
// all lanes taken a run waits for one. A run throws exhausted where there is no memory for a lane,
// and invalid_argument, naming the node, where an index is out of range; one with `times` launches
// its steps one by one.
class CudaProgram : public Program {
 public:
  virtual CudaReport report() const = 0;

  // Inputs and outputs that lie on the device, aligned to 256 bytes; the work is enqueued
  // `runs` times and waited for. Returns the microseconds that all of it took on the device.
  virtual double run_on_device(std::span<void* const> inputs, std::span<void* const> outputs,
                               int runs = 1) const = 0;
};

// Throws unavailable where there is no such device.
std::shared_ptr<cuda::Context> make_cuda_context(cuda::Options options);

// What choices and compiled code are good for: the device, and the programs that run it.
struct CudaStamp {
  std::string device;    // "NVIDIA H200, compute capability 9.0, 132 multiprocessors"
  std::string software;  // "driver 580.95.05 (CUDA 13.0), cuBLASLt 13.1.0, cuDNN 91900"
};
CudaStamp cuda_stamp(cuda::Context& context);

// `graph` is specialized and optimized.
std::unique_ptr<CudaProgram> make_cuda_program(Graph graph, std::shared_ptr<cuda::Context> context,
                                               std::shared_ptr<cpu::Context> host);

}  // namespace sluice::engine
