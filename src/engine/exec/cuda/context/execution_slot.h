// What one run of a program on a device has for itself, and the lanes that runs take in turn.
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

// Where a run's inputs and outputs lie on the device.
struct Ends {
  std::vector<void*> inputs, outputs;
  friend auto operator<=>(const Ends&, const Ends&) = default;
};

// The stretches between steps of the host, recorded for one place of the ends.
struct Recorded {
  enum class State { fresh, warm, recorded, refused } state = State::fresh;
  std::vector<GraphExec> stretches;
};

// How much memory a lane takes.
struct LaneSize {
  std::vector<std::size_t> inputs, outputs;  // bytes of each
  std::size_t arena = 0, host = 0;

  std::size_t pinned() const;  // bytes of the host's memory
};

class Lane {
 public:
  Lane(const Context& context, const LaneSize& size);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  device::Stream stream;
  Memory arena;
  device::PinnedBuffer host;  // for the steps of the host
  Ends own;                   // this lane's own places for inputs and outputs
  Ends mirror;                // the same on the host, pinned
  // All inputs lie side by side, as do all outputs: one copy moves them.
  std::size_t input_bytes = 0, output_bytes = 0;
  std::map<Ends, Recorded> recorded;
  std::size_t bytes() const noexcept { return arena_bytes_ + input_bytes + output_bytes; }

  void copy_in();   // enqueues it, from mirror to own
  void copy_out();  // the other way, with the error flag

  // Where kernels tell of errors, and what they told once it was copied and waited for: the first
  // step that did. Asking for it makes room for the next.
  unsigned* error_flag() const noexcept;
  void copy_error_flag();
  std::optional<unsigned> take_error();

 private:
  void clear_error_flag();

  const Context& context_;
  std::size_t arena_bytes_;
  Memory ends_;  // inputs, outputs, the error flag
  device::PinnedBuffer pinned_;
  Tensor room_;  // not used: it makes what is pinned count as the session's memory
};

// Thread-safe.
class Lanes {
 public:
  // `make` may take long and may wait for the device: nobody else waits for it meanwhile.
  Lanes(std::function<std::unique_ptr<Lane>()> make, int most)
      : make_(std::move(make)), all_(most), most_(most) {}

  // A lane until the end of the scope. One that was not done() is not used again.
  class Taken {
   public:
    explicit Taken(Lanes& from) : from_(from), lane_(from.take()) {}
    ~Taken() {
      if (!done_) (void)cudaStreamSynchronize(lane_->stream.get());  // before its memory goes
      if (!done_) lane_.reset();
      from_.put_back(std::move(lane_));
    }
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;

    Lane& operator*() noexcept { return *lane_; }
    void done() noexcept { done_ = true; }

   private:
    Lanes& from_;
    std::unique_ptr<Lane> lane_;
    bool done_ = false;
  };

  std::size_t trim() noexcept;  // ends those that nobody has; bytes of the device

 private:
  std::unique_ptr<Lane> take();
  std::unique_ptr<Lane> make();  // null: there is no memory for another, and others have one
  void put_back(std::unique_ptr<Lane> lane) noexcept;  // null: it is no more

  const std::function<std::unique_ptr<Lane>()> make_;
  const int all_;
  Mutex mutex_;
  std::condition_variable_any returned_;
  int most_ GUARDED_BY(mutex_);  // fewer where there was no memory for another
  int made_ GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<Lane>> free_ GUARDED_BY(mutex_);
};

}  // namespace sluice::engine::cuda
