// What computes an encoder's sequences: the CPU's threads or a GPU.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "compute/executor/executor.h"
#include "compute/workers.h"
#include "engine/encoder/packed_graph.h"
#include "engine/encoder/packed_tokens.h"
#include "engine/exec/cpu/arena_pool.h"
#include "engine/exec/program.h"

namespace sluice::engine {

namespace cuda {
class StreamSlotPool;
}

// Safe to run from several threads at once.
class EncoderRunner {
 public:
  virtual ~EncoderRunner() = default;

  virtual const PackedGraph& graph() const noexcept = 0;

  // Computes `sequences` of the batch, which have no fault, and writes their rows to `out`. One
  // whose result is not finite is left as it is, with an error. Cancelled between two chunks.
  virtual std::vector<SequenceError> run(const PackedTokens& tokens,
                                         std::span<const std::size_t> sequences,
                                         std::span<float> out) const = 0;

  // The program for one batch; null on a GPU.
  virtual std::shared_ptr<const Program> program(const PackedGraph::Sizes& /*sizes*/) const {
    return nullptr;
  }
  // Runs the sequences together and times each kernel.
  virtual std::vector<KernelTime> profile(const PackedTokens& tokens,
                                          std::span<const std::size_t> sequences) const = 0;
  // Waits until what is compiled in the background is ready.
  virtual void wait_until_ready() const {}
};

std::unique_ptr<EncoderRunner> make_cpu_encoder_runner(const Graph& model,
                                                       const EncoderOptions& options,
                                                       compute::Workers& workers,
                                                       std::shared_ptr<cpu::ArenaPool> arenas);

// What the encoders on one GPU share; `builder` compiles their buckets in the background.
struct GpuSlots {
  std::shared_ptr<cuda::StreamSlotPool> slots;
  std::shared_ptr<compute::Executor> builder;
};
// Throws unavailable if the model has operators without a CUDA kernel, or the build has no CUDA.
std::unique_ptr<EncoderRunner> make_cuda_encoder_runner(const Graph& model,
                                                        const EncoderOptions& options,
                                                        compute::Workers& workers,
                                                        const GpuSlots& gpu);

// Copies `rows`, those of `sequences` one after the other, to where they belong in `out`, but those
// that are not finite.
std::vector<SequenceError> place_rows(const PackedTokens& tokens, const PackedGraph& graph,
                                      std::span<const std::size_t> sequences, const float* rows,
                                      std::span<float> out);

}  // namespace sluice::engine
