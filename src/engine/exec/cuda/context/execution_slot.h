// Execution slots: the stream and the memory of one run of a program on a device.
#pragma once

#include <compare>
#include <condition_variable>
#include <functional>
#include <map>
#include <optional>

#include "device/cuda/device_buffer.h"
#include "device/cuda/stream.h"
#include "engine/exec/cuda/context/backend.h"
#include "engine/exec/cuda/context/cuda_graph.h"

namespace sluice::engine::cuda {

// The addresses of a run's inputs and outputs.
struct IoAddresses {
  std::vector<void*> inputs, outputs;
  friend auto operator<=>(const IoAddresses&, const IoAddresses&) = default;
};

// The segments between steps on the host, captured as CUDA graphs for one set of I/O addresses.
struct CapturedGraphs {
  enum class State { fresh, warm, captured, refused } state = State::fresh;
  std::vector<GraphExec> segments;
};

// The memory that a slot takes.
struct SlotSize {
  std::vector<std::size_t> inputs, outputs;  // bytes of each
  std::size_t arena = 0, host = 0;

  std::size_t pinned() const;  // bytes of pinned host memory
};

class ExecutionSlot {
 public:
  ExecutionSlot(const Context& context, const SlotSize& size);
  ~ExecutionSlot();
  ExecutionSlot(const ExecutionSlot&) = delete;
  ExecutionSlot& operator=(const ExecutionSlot&) = delete;

  device::Stream stream;
  Memory arena;
  device::PinnedBuffer host;  // staging memory for steps on the host
  IoAddresses device_io;      // this slot's inputs and outputs on the device
  IoAddresses host_io;        // the same in pinned host memory
  // Inputs are contiguous, and so are outputs: one copy moves them.
  std::size_t input_bytes = 0, output_bytes = 0;
  std::map<IoAddresses, CapturedGraphs> captured;
  std::size_t bytes() const noexcept { return arena_bytes_ + input_bytes + output_bytes; }

  void copy_in();   // enqueues the copy from host_io to device_io
  void copy_out();  // enqueues the copy back, with the error flag

  // Kernels report errors in this flag. Once it was copied and waited for, take_error() returns the
  // first step that reported one and clears the flag.
  unsigned* error_flag() const noexcept;
  void copy_error_flag();
  std::optional<unsigned> take_error();

 private:
  void clear_error_flag();

  const Context& context_;
  std::size_t arena_bytes_;
  Memory io_;  // inputs, outputs, the error flag
  device::PinnedBuffer pinned_;
  Tensor pinned_accounting_;  // counts the pinned memory against the session's limit
};

// Thread-safe.
class SlotPool {
 public:
  // `make` may take long and may wait for the device: it is called without the lock.
  SlotPool(std::function<std::unique_ptr<ExecutionSlot>()> make, int max_slots)
      : make_(std::move(make)), configured_max_(max_slots), max_slots_(max_slots) {}

  // Holds a slot until the end of the scope. A slot that was not done() is destroyed.
  class Guard {
   public:
    explicit Guard(SlotPool& from) : from_(from), slot_(from.take()) {}
    ~Guard() {
      if (!done_) (void)cudaStreamSynchronize(slot_->stream.get());  // before its memory goes
      if (!done_) slot_.reset();
      from_.put_back(std::move(slot_));
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

    ExecutionSlot& operator*() noexcept { return *slot_; }
    void done() noexcept { done_ = true; }

   private:
    SlotPool& from_;
    std::unique_ptr<ExecutionSlot> slot_;
    bool done_ = false;
  };

  std::size_t trim() noexcept;  // destroys free slots; returns the bytes of device memory

 private:
  std::unique_ptr<ExecutionSlot> take();
  std::unique_ptr<ExecutionSlot> make();  // null: no memory for another, but other slots exist
  void put_back(std::unique_ptr<ExecutionSlot> slot) noexcept;  // null: it was destroyed

  const std::function<std::unique_ptr<ExecutionSlot>()> make_;
  const int configured_max_;
  Mutex mutex_;
  std::condition_variable_any returned_;
  int max_slots_ GUARDED_BY(mutex_);  // lowered when there was no memory for another
  int made_ GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<ExecutionSlot>> free_ GUARDED_BY(mutex_);
};

}  // namespace sluice::engine::cuda
