#include "engine/exec/cuda/context/cuda_graph.h"

namespace sluice::engine::cuda {
namespace {

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const noexcept {
    device::check_in_destructor(cudaGraphDestroy(graph));
  }
};

}  // namespace

GraphExec GraphExec::capture(cudaStream_t stream, const std::function<void()>& enqueue) {
  // Relaxed mode: libraries and other threads may load code or allocate memory during capture.
  device::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  cudaGraph_t raw = nullptr;
  try {
    enqueue();
  } catch (...) {
    (void)cudaStreamEndCapture(stream, &raw);
    if (raw != nullptr) (void)cudaGraphDestroy(raw);
    (void)cudaGetLastError();
    throw;
  }
  device::check(cudaStreamEndCapture(stream, &raw));
  const std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph> graph(raw);
  GraphExec made;
  std::size_t nodes = 0;
  device::check(cudaGraphGetNodes(raw, nullptr, &nodes));
  if (nodes == 0) return made;
  cudaGraphExec_t exec = nullptr;
  device::check(cudaGraphInstantiate(&exec, raw, 0));
  made.exec_.reset(exec);
  return made;
}

}  // namespace sluice::engine::cuda
