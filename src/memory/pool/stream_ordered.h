// Memory that is freed before the work that uses it has run. A GPU stream runs its work
// in order and later, so a block freed on a stream may be given out again on that stream
// at once; on another only when the first stream has come past the point of the free, or
// when the other is made to wait for it.
//
// The rule is here; what a stream and a point in it are is behind Fences, so that the
// rule is tested without a GPU.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "memory/alloc/allocator.h"

namespace sluice::memory {

using StreamId = std::uintptr_t;  // a cudaStream_t, or whatever Fences understands
using Fence = std::uint64_t;

// Called with a lock held; must not call the pool. Throws what the device throws.
class Fences {
 public:
  virtual ~Fences() = default;
  // A point behind everything that is queued on `stream` so far.
  virtual Fence record(StreamId stream) = 0;
  virtual bool passed(Fence fence) = 0;
  virtual void hold(StreamId stream, Fence fence) = 0;  // until it is passed; does not block
  virtual void wait(Fence fence) = 0;                   // blocks this thread
  virtual void release(Fence fence) noexcept = 0;       // no longer needed
};

// Thread-safe when `upstream` is. Sizes are rounded up by at most an eighth, so that
// blocks can serve again. Fences are recorded only when another stream wants a block or
// memory is short: on one stream a block costs no call to the driver.
class StreamOrderedPool {
 public:
  // Both must outlive it.
  StreamOrderedPool(Allocator& upstream, Fences& fences);
  ~StreamOrderedPool();  // waits for the streams, then gives everything back
  StreamOrderedPool(const StreamOrderedPool&) = delete;
  StreamOrderedPool& operator=(const StreamOrderedPool&) = delete;

  // A block that `stream` may use at once. Tries in this order: a block freed on this stream, one
  // freed on another stream that has passed the free, a new one, one freed on another stream that
  // this stream then waits for, and a new one after synchronizing all streams. Throws exhausted
  // after that.
  [[nodiscard]] void* allocate(std::size_t bytes, StreamId stream);

  // All work that uses the block must be queued on `stream`, or be ordered before what
  // is queued on it next.
  void deallocate(void* pointer, std::size_t bytes, StreamId stream) noexcept;

  // Frees cached blocks whose streams have passed them; returns the bytes. Does not block.
  std::size_t trim() noexcept;

  // Before a stream is destroyed: waits for it and gives its cached blocks back.
  void forget(StreamId stream);

  struct Stats {
    std::uint64_t same_stream = 0, passed = 0, held = 0, fresh = 0, waited = 0;
    std::size_t cached_bytes = 0, cached_blocks = 0;
  };
  Stats stats() const;

 private:
  static constexpr std::size_t kClasses = 288;
  struct Freed {
    void* pointer;
    std::uint64_t epoch;  // of its stream, when it was freed
  };
  struct Point {
    Fence fence;
    std::uint64_t epoch;  // blocks freed up to here are behind the fence
  };
  struct Stream {
    StreamId id = 0;
    std::uint64_t epoch = 1;                         // grows with every fence
    std::uint64_t passed_epoch = 0;                  // blocks freed up to here are anyone's
    std::uint64_t last_epoch = 0;                    // of the block freed last
    std::deque<Point> points;                        // fences not yet passed, oldest first
    std::size_t blocks = 0;                          // cached
    std::array<std::vector<Freed>, kClasses> freed;  // oldest first
  };

  static std::size_t class_of(std::size_t bytes) noexcept;
  static std::size_t class_bytes(std::size_t size_class) noexcept;

  Stream& stream(StreamId id) REQUIRES(mutex_);
  void* take(Stream& from, std::size_t size_class, bool newest) REQUIRES(mutex_);
  void* take_passed(std::size_t size_class) REQUIRES(mutex_);
  void* take_held(std::size_t size_class, StreamId for_stream) REQUIRES(mutex_);
  void* take_fresh(std::size_t size_class, StreamId for_stream) REQUIRES(mutex_);
  void poll(Stream& stream) REQUIRES(mutex_);
  void mark(Stream& stream) REQUIRES(mutex_);
  void settle(Stream& stream) REQUIRES(mutex_);
  std::size_t give_back(Stream& stream) noexcept REQUIRES(mutex_);

  Allocator& upstream_;
  Fences& fences_;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Stream>> streams_ GUARDED_BY(mutex_);
  Stats stats_ GUARDED_BY(mutex_);
};

// One stream of such a pool as an Allocator.
class OnStream final : public Allocator {
 public:
  OnStream(StreamOrderedPool& pool, StreamId stream) : pool_(pool), stream_(stream) {}
  [[nodiscard]] void* allocate(std::size_t bytes) override {
    return pool_.allocate(bytes, stream_);
  }
  void deallocate(void* pointer, std::size_t bytes) noexcept override {
    pool_.deallocate(pointer, bytes, stream_);
  }
  std::size_t trim() noexcept override { return pool_.trim(); }

 private:
  StreamOrderedPool& pool_;
  const StreamId stream_;
};

}  // namespace sluice::memory
