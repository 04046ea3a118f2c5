// Stream slots: a stream and memory for one call of an encoder at a time, shared by all encoders on
// a device. A slot's memory grows to what its largest call needs. (A session's programs have
// execution slots of their own: execution_slot.h.)
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "device/cuda/device_buffer.h"
#include "device/cuda/stream.h"
#include "engine/exec/cuda/context/backend.h"

namespace sluice::engine::cuda {

class StreamSlot {
 public:
  StreamSlot(const Context& context, std::size_t index);
  ~StreamSlot();
  StreamSlot(const StreamSlot&) = delete;
  StreamSlot& operator=(const StreamSlot&) = delete;

  const std::size_t index;
  device::Stream stream;
  std::byte* memory() const { return static_cast<std::byte*>(memory_.get()); }
  std::byte* pinned() const { return static_cast<std::byte*>(pinned_.get()); }
  std::size_t bytes() const noexcept { return bytes_; }
  // Changes when the memory moves: CUDA graphs that were captured before are not valid any more.
  std::uint64_t generation() const noexcept { return generation_; }

  // Throws exhausted; the slot has what it had before then, if that is still to be had.
  void reserve(std::size_t bytes, std::size_t pinned_bytes);
  std::size_t trim() noexcept;  // bytes

 private:
  void grow(std::size_t bytes);

  const Context& context_;
  Memory memory_;
  device::PinnedBuffer pinned_;
  std::size_t bytes_ = 0, pinned_bytes_ = 0;
  std::uint64_t generation_ = 0;
};

// Thread-safe.
class StreamSlotPool {
 public:
  StreamSlotPool(std::shared_ptr<Context> context, std::size_t slots);

  // Holds a slot until the end of the scope, and waits for its stream then.
  class Guard {
   public:
    Guard(Guard&& from) noexcept : pool_(from.pool_), slot_(std::exchange(from.slot_, nullptr)) {}
    Guard& operator=(Guard&&) = delete;
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard();

    StreamSlot* operator->() const noexcept { return slot_; }
    StreamSlot& operator*() const noexcept { return *slot_; }

   private:
    friend class StreamSlotPool;
    Guard(StreamSlotPool& pool, StreamSlot* slot) : pool_(&pool), slot_(slot) {}
    StreamSlotPool* pool_;
    StreamSlot* slot_;
  };

  // Waits for a slot, behind those who wait already, and reserves its memory. Throws Cancelled, or
  // exhausted if there is no memory, even after that of free slots was released.
  Guard take(std::size_t bytes, std::size_t pinned_bytes);
  // None if all slots are taken, or somebody waits for one.
  std::optional<Guard> try_take(std::size_t bytes, std::size_t pinned_bytes);
  // As take(), but leaves the memory of others to them.
  Guard take_modestly(std::size_t bytes, std::size_t pinned_bytes);

  std::size_t slots() const noexcept { return slots_.size(); }
  Context& context() const noexcept { return *context_; }
  std::shared_ptr<Context> shared_context() const { return context_; }
  std::size_t free_bytes() const;
  std::size_t trim() noexcept;  // releases the memory of free slots; bytes

 private:
  Guard wait_for_one();
  StreamSlot* pop() REQUIRES(mutex_);
  void reserve(const Guard& guard, std::size_t bytes, std::size_t pinned_bytes);
  void put_back(StreamSlot* slot) noexcept;

  const std::shared_ptr<Context> context_;
  std::vector<std::unique_ptr<StreamSlot>> slots_;
  mutable Mutex mutex_;
  std::condition_variable_any returned_;
  std::deque<StreamSlot*> free_ GUARDED_BY(mutex_);  // they are taken in turn
  std::deque<std::uint64_t> waiting_ GUARDED_BY(mutex_);
  std::uint64_t next_ GUARDED_BY(mutex_) = 0;
};

}  // namespace sluice::engine::cuda
