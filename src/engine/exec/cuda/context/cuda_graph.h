// Executable CUDA graphs: work that is captured once and launched as a whole.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

#include "device/cuda/check.h"

namespace sluice::engine::cuda {

class GraphExec {
 public:
  GraphExec() = default;

  // Captures what `enqueue` puts on `stream`, without running it. Empty if it enqueues nothing.
  static GraphExec capture(cudaStream_t stream, const std::function<void()>& enqueue);

  void launch(cudaStream_t stream) const {
    if (exec_) device::check(cudaGraphLaunch(exec_.get(), stream));
  }

 private:
  struct Destroy {
    void operator()(cudaGraphExec_t exec) const noexcept {
      device::check_in_destructor(cudaGraphExecDestroy(exec));
    }
  };
  std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy> exec_;
};

}  // namespace sluice::engine::cuda
