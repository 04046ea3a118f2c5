// An encoder's graph compiled for a bucket: it runs every batch of at most so many tokens and
// sequences, as one CUDA graph, and its kernels stop at the batch's real counts. In a build without
// CUDA every function throws unavailable.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/exec/cpu/backend.h"
#include "engine/exec/cuda/context/backend.h"
#include "engine/exec/program.h"
#include "engine/graph/graph.h"
#include "kernels/common/live_counts.h"

namespace sluice::engine {

namespace cuda {
class StreamSlotPool;
}

struct BucketGraph {
  Graph graph{};  // specialized for the bucket, and optimized
  enum class Input { ids, type_ids, ones, positions, cu_seqlens };
  std::vector<Input> inputs{};             // what graph.inputs hold
  std::vector<kernels::RowsOf> rows{};     // of each node's result
  std::int64_t tokens = 0, sequences = 0;  // the most of a batch
  kernels::RowsOf output = kernels::RowsOf::sequences;
  std::int64_t width = 0;  // of a row of the output
};

// Where a batch is written, before it is copied to the device: pinned memory.
struct PackedBatchMemory {
  std::int32_t *cu_seqlens, *ids;
  std::int32_t* type_ids;  // null if the batch has none
};

// Thread-safe.
class BucketProgram {
 public:
  virtual ~BucketProgram() = default;

  // A call that was started: it holds a slot until its end.
  class Call {
   public:
    virtual ~Call() = default;
    // Waits; the rows of the output stay valid as long as the call.
    virtual const float* wait() = 0;
  };
  using Fill = std::function<void(const PackedBatchMemory&)>;

  // Copies the batch that `fill` writes to the device and enqueues the work, on a free slot or,
  // with `may_wait`, on the next that becomes free; null if there is none.
  virtual std::unique_ptr<Call> start(const kernels::LiveCounts& counts, bool has_types,
                                      const Fill& fill, bool may_wait) const = 0;
  // Loads its code, and captures its CUDA graph for the slots in turn, so that the first batches
  // need not. Throws exhausted if there is no memory for a single one.
  virtual void prepare() const = 0;

  // Runs the batch once, kernel by kernel, and times each on the device.
  virtual std::vector<KernelTime> profile(const kernels::LiveCounts& counts, bool has_types,
                                          const Fill& fill) const = 0;

  virtual const Graph& graph() const = 0;
  virtual std::size_t slot_bytes() const = 0;  // of device memory
};

// The options of a context for such programs: a row's bits must not depend on its batch, and
// nothing is measured beside live traffic.
inline cuda::Options encoder_context_options(cuda::Options options) {
  options.split_k = options.measure = false;
  options.batch_invariant = true;
  return options;
}

std::shared_ptr<cuda::StreamSlotPool> make_cuda_slots(std::shared_ptr<cuda::Context> context,
                                                      std::size_t slots);
std::size_t free_slot_bytes(const cuda::StreamSlotPool& slots);
std::size_t trim_slots(cuda::StreamSlotPool& slots) noexcept;

// Throws unavailable, naming the node, if one of them has no CUDA kernel.
std::shared_ptr<const BucketProgram> make_bucket_program(
    BucketGraph graph, std::shared_ptr<cuda::StreamSlotPool> slots,
    const std::shared_ptr<cpu::Context>& host);

}  // namespace sluice::engine
