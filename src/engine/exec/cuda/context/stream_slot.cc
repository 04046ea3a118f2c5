#include "engine/exec/cuda/context/stream_slot.h"

#include <chrono>
#include <utility>

#include "base/cancellation.h"
#include "base/error.h"

namespace sluice::engine::cuda {

StreamSlot::StreamSlot(const Context& context, std::size_t number)
    : index(number), stream({context.options.device}), context_(context) {}

StreamSlot::~StreamSlot() { context_.notify_stream_destroy(stream.get()); }

void StreamSlot::reserve(std::size_t bytes, std::size_t pinned_bytes) {
  if (bytes > bytes_) grow(bytes);
  if (pinned_bytes > pinned_bytes_) {
    const device::DeviceScope on({context_.options.device});
    device::PinnedBuffer made = device::pinned_buffer(pinned_bytes);
    ++generation_;
    pinned_ = std::move(made);
    pinned_bytes_ = pinned_bytes;
  }
}

// Beside the old memory if there is room for both, else in its place.
void StreamSlot::grow(std::size_t bytes) {
  const auto set = [&](Memory made, std::size_t size) {
    ++generation_;
    memory_ = std::move(made);
    bytes_ = size;
  };
  try {
    return set(context_.allocate(bytes), bytes);
  } catch (const Error& error) {
    if (error.code() != Code::exhausted || bytes_ == 0) throw;
  }
  const std::size_t before = trim();
  try {
    set(context_.allocate(bytes), bytes);
  } catch (const Error& error) {
    if (error.code() == Code::exhausted) set(context_.allocate(before), before);
    throw;
  }
}

std::size_t StreamSlot::trim() noexcept {
  ++generation_;
  memory_.reset();
  return std::exchange(bytes_, 0);
}

StreamSlotPool::StreamSlotPool(std::shared_ptr<Context> context, std::size_t slots)
    : context_(std::move(context)) {
  for (std::size_t i = 0; i < slots; ++i)
    slots_.push_back(std::make_unique<StreamSlot>(*context_, i));
  for (const auto& slot : slots_) free_.push_back(slot.get());
}

StreamSlotPool::Guard::~Guard() {
  if (slot_ == nullptr) return;
  (void)cudaStreamSynchronize(slot_->stream.get());  // an error shows in the next call
  pool_->put_back(slot_);
}

StreamSlot* StreamSlotPool::pop() {
  StreamSlot* const slot = free_.front();
  free_.pop_front();
  return slot;
}

StreamSlotPool::Guard StreamSlotPool::wait_for_one() {
  constexpr std::chrono::milliseconds kLook(20);  // for a cancellation
  const Lock lock(mutex_);
  const std::uint64_t own = next_++;
  waiting_.push_back(own);
  while (free_.empty() || waiting_.front() != own) {
    returned_.wait_for(mutex_, kLook);
    if (!is_cancelled()) continue;
    std::erase(waiting_, own);
    returned_.notify_all();
    throw_if_cancelled();
  }
  waiting_.pop_front();
  returned_.notify_all();  // there may be a slot for the next one, too
  return {*this, pop()};
}

StreamSlotPool::Guard StreamSlotPool::take(std::size_t bytes, std::size_t pinned_bytes) {
  Guard guard = wait_for_one();
  reserve(guard, bytes, pinned_bytes);
  return guard;
}

StreamSlotPool::Guard StreamSlotPool::take_modestly(std::size_t bytes, std::size_t pinned_bytes) {
  Guard guard = wait_for_one();
  guard->reserve(bytes, pinned_bytes);
  return guard;
}

std::optional<StreamSlotPool::Guard> StreamSlotPool::try_take(std::size_t bytes,
                                                              std::size_t pinned_bytes) {
  StreamSlot* slot = nullptr;
  {
    const Lock lock(mutex_);
    if (free_.empty() || !waiting_.empty()) return std::nullopt;
    slot = pop();
  }
  Guard guard(*this, slot);
  reserve(guard, bytes, pinned_bytes);
  return guard;
}

void StreamSlotPool::reserve(const Guard& guard, std::size_t bytes, std::size_t pinned_bytes) {
  try {
    guard->reserve(bytes, pinned_bytes);
  } catch (const Error& error) {
    if (error.code() != Code::exhausted || trim() == 0) throw;
    guard->reserve(bytes, pinned_bytes);
  }
}

void StreamSlotPool::put_back(StreamSlot* slot) noexcept {
  const Lock lock(mutex_);
  free_.push_back(slot);
  returned_.notify_all();
}

std::size_t StreamSlotPool::free_bytes() const {
  const Lock lock(mutex_);
  std::size_t bytes = 0;
  for (const StreamSlot* slot : free_) bytes += slot->bytes();
  return bytes;
}

std::size_t StreamSlotPool::trim() noexcept {
  const Lock lock(mutex_);
  std::size_t bytes = 0;
  for (StreamSlot* slot : free_) bytes += slot->trim();
  return bytes;
}

}  // namespace sluice::engine::cuda
