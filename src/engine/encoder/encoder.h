// A transformer encoder that takes packed sequences of any number and length.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compute/executor/executor.h"
#include "compute/workers.h"
#include "engine/encoder/packed_graph.h"
#include "engine/encoder/packed_tokens.h"
#include "engine/exec/program.h"

namespace sluice::engine {

namespace cuda {
class Context;
}

struct EncodeRequest {
  PackedTokens tokens;  // stay valid until the end, as `out` does
  std::span<float> out;
  Instant deadline = Instant::max();
};

struct EncodeResult {
  std::vector<SequenceError> errors;
  std::exception_ptr error;  // of the whole request, such as DeadlineExceeded; null: none
};

// What the encoders on one device share: threads, memory, and the order of their calls. Its memory
// is that of the largest call, once for each that runs at a time, whatever the number of models.
class EncoderDevice {
 public:
  // The CPU.
  explicit EncoderDevice(compute::Workers& workers, const compute::ExecutorOptions& options = {});
  // A GPU; options.threads is the number of calls that it computes at a time: while one computes,
  // another is copied. Throws unavailable in a build without CUDA.
  EncoderDevice(std::shared_ptr<cuda::Context> gpu, compute::Workers& workers,
                const compute::ExecutorOptions& options = {.threads = 2});
  ~EncoderDevice();

  compute::Workers& workers() const noexcept;
  compute::ExecutorCounts counts() const;
  std::size_t arena_bytes() const;  // kept for the next call
  std::size_t trim() noexcept;      // releases them; bytes

 private:
  friend class Encoder;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Safe to run from several threads at once. The same sequence gives the same bits alone, in any
// batch and in any order.
class Encoder {
 public:
  // Throws as PackedGraph does.
  // `device` must outlive it.
  Encoder(const Graph& model, EncoderDevice& device, const EncoderOptions& options = {});
  // On a device of its own, whose calls end with the encoder.
  Encoder(const Graph& model, compute::Workers& workers, const EncoderOptions& options = {});
  ~Encoder();
  Encoder(Encoder&&) noexcept;

  const PackedGraph& graph() const noexcept;

  // Writes one row of graph().width() floats for each sequence, or for each token if the output is
  // not pooled, to `out`. A sequence that cannot be computed (it is empty, too long, has an unknown
  // id, or its result is not finite) gets zeros and an error; the others are not affected. Throws
  // invalid_argument if `out` has another size.
  std::vector<SequenceError> run(const PackedTokens& tokens, std::span<float> out) const;

  // Runs after what was submitted to the device before, and calls `done` once, on a thread of the
  // device. None if too many calls wait: the caller tries again later. Never waits.
  std::optional<compute::Executor::Ticket> submit(const EncodeRequest& request,
                                                  std::function<void(EncodeResult)> done) const;

  // Runs all sequences, which have no fault, as one batch, and times each kernel.
  std::vector<KernelTime> profile(const PackedTokens& tokens) const;
  // Until the programs that a GPU compiles in the background are ready.
  void wait_until_ready() const;

  // The program for one batch; null on a GPU.
  std::shared_ptr<const Program> program(const PackedGraph::Sizes& sizes) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // submitted calls share it
  std::unique_ptr<EncoderDevice> own_;
  EncoderDevice* device_;
};

}  // namespace sluice::engine
